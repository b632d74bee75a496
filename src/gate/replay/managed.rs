//! The loop that the gate ran for the recorded agent, as far as its requests to the model show it: the
//! gate of a replay runs the same one.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::Error;
use super::line::ToolList;
use super::recording::Recording;
use crate::domain::dialect::Dialect;
use crate::identity::callers::{ANSWER_FORM, ManagedConfig, TextTools, offered_name, offers};

impl Recording {
    /// The loop of the recorded agent; `None` if the gate ran none.
    ///
    /// # Errors
    /// A step cannot be read.
    pub fn managed(&self) -> Result<Option<ManagedConfig>, Error> {
        let (mut iterations_max, mut offered) = (0, BTreeSet::new());
        let mut text_tools = TextTools::Auto;
        for place in &self.places {
            let step = self.step(place)?;
            let Some(number) = iteration(&step.call) else { continue };
            if step.form().is_none_or(|(dialect, _)| dialect != Dialect::Chat) {
                continue;
            }
            // WHY the most: a request that ended before asked for no more.
            iterations_max = number.max(iterations_max);
            let request: LoopRequest = step.args.read().unwrap_or_default();
            if request.is_by_schema() {
                text_tools = TextTools::Schema;
            }
            match request.tools.is_empty() {
                true => offered.extend(offers(request.instructions()).map(str::to_owned)),
                false => offered.extend(request.tools.into_iter().map(|tool| tool.function.name)),
            }
        }
        if iterations_max == 0 {
            return Ok(None);
        }
        let known = self.tools.read().map(ToolList::definitions).unwrap_or_default();
        let shown = known.into_keys().filter(|name| offered.contains(&offered_name(name)));
        let tools = Some(shown.collect());
        Ok(Some(ManagedConfig { iterations_max, tools, text_tools }))
    }
}

/// A request of the loop, as far as it shows what was offered and how.
#[derive(Default, Deserialize)]
struct LoopRequest {
    #[serde(default)]
    tools: Vec<LoopTool>,
    messages: Vec<LoopMessage>,
    response_format: Option<LoopForm>,
}

#[derive(Deserialize)]
struct LoopTool {
    function: Named,
}

#[derive(Deserialize)]
struct LoopMessage {
    content: Option<LoopContent>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum LoopContent {
    Text(String),
    Parts(IgnoredAny),
}

#[derive(Deserialize)]
struct LoopForm {
    json_schema: Option<Named>,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

impl LoopRequest {
    /// The text that stands first: the gate's own instructions, where it offers tools as such.
    fn instructions(&self) -> &str {
        match self.messages.first().and_then(|first| first.content.as_ref()) {
            Some(LoopContent::Text(text)) => text,
            Some(LoopContent::Parts(_)) | None => "",
        }
    }

    /// Whether it has the gate's own schema of an answer.
    fn is_by_schema(&self) -> bool {
        let named = self.response_format.as_ref().and_then(|form| form.json_schema.as_ref());
        named.is_some_and(|schema| schema.name == ANSWER_FORM)
    }
}

/// The most that a configuration takes.
const ITERATIONS_MAX: u32 = 32;

/// The number of a step that asks a model, from the id of its call.
fn iteration(call: &str) -> Option<u32> {
    let (_, number) = call.rsplit_once("-m")?;
    number.parse().ok().filter(|number| (1..=ITERATIONS_MAX).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_that_asks_a_model_has_its_number_in_its_id() {
        assert_eq!(iteration("req-m1"), Some(1));
        assert_eq!(iteration("a-m2-m12"), Some(12));
        for id in ["req", "req-m", "req-m0", "req-m33", "req-m1-t1", "req-mx", ""] {
            assert_eq!(iteration(id), None, "{id}");
        }
    }
}
