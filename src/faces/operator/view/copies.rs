//! The passages of a held call that are copies of what the run has read before, each with its source.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::json::Json;
use crate::domain::pointer;
use crate::operator::escape::{quoted, visible};
use crate::record::call::Taint;

/// Characters of a passage that are quoted.
const QUOTED_MAX: usize = 400;

/// What a run has read that a call repeats, or may repeat.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadBefore {
    /// The labels of the run.
    pub labels: Vec<LabelSource>,
    /// Passages of the arguments that are copies.
    pub copies: Vec<CopiedPassage>,
    /// Number of further passages.
    pub more: u64,
    /// Whether there may be others, because the gate was restarted since.
    pub unknown: bool,
}

/// A label, and the first call that brought it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LabelSource {
    /// The label.
    pub label: String,
    /// The call.
    pub call: String,
    /// The run of that call, if it is another one.
    pub run: Option<String>,
}

/// One passage.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CopiedPassage {
    /// JSON pointer of the text, below the arguments.
    pub path: String,
    /// Where the passage begins in the text: bytes of UTF-8.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
    /// `private` or `untrusted`.
    pub label: String,
    /// The call whose answer had it.
    pub call: String,
    /// The run of that call, if it is another one.
    pub run: Option<String>,
}

impl From<&Taint> for ReadBefore {
    fn from(taint: &Taint) -> Self {
        let labels = taint.labels.iter().map(|one| LabelSource {
            label: one.label.to_string(),
            call: one.call.to_string(),
            run: one.run.map(|run| run.to_string()),
        });
        let copies = taint.spans.iter().flat_map(|spans| spans.iter()).map(|one| CopiedPassage {
            path: one.path.to_string(),
            start: one.start.get(),
            end: one.end.get(),
            label: one.label.to_string(),
            call: one.call.to_string(),
            run: one.run.map(|run| run.to_string()),
        });
        Self {
            labels: labels.collect(),
            copies: copies.collect(),
            more: taint.spans_more.map_or(0, |more| more.get()),
            unknown: taint.unknown.is_some(),
        }
    }
}

impl ReadBefore {
    /// The lines that a person reads. `arguments`: quotes the passages from them. Every text is spelled out.
    #[must_use]
    pub fn lines(&self, arguments: Option<&Json>) -> Vec<String> {
        let mut lines = Vec::new();
        for LabelSource { label, call, run } in &self.labels {
            lines.push(format!(
                "{} content since {}",
                visible(label),
                source(call, run.as_deref())
            ));
        }
        for copy in &self.copies {
            let from = source(&copy.call, copy.run.as_deref());
            let place = if copy.path.is_empty() { "/" } else { &copy.path };
            let mut line =
                format!("{}: copied from {from} ({})", visible(place), visible(&copy.label));
            if let Some(text) = arguments.and_then(|arguments| copy.text(arguments)) {
                line.push_str(&format!(": {}", quoted(&text)));
            }
            lines.push(line);
        }
        if self.more > 0 {
            lines.push(format!("{} more", self.more));
        }
        if self.unknown {
            lines.push(
                "there may be other copies: the gate was restarted since, and cannot compare"
                    .to_owned(),
            );
        }
        lines
    }
}

fn source(call: &str, run: Option<&str>) -> String {
    match run {
        None => format!("call {}", visible(call)),
        Some(run) => format!("call {} of run {}", visible(call), visible(run)),
    }
}

impl CopiedPassage {
    /// The passage itself.
    fn text(&self, arguments: &Json) -> Option<String> {
        let mut value = arguments;
        for name in pointer::steps(&self.path) {
            value = match value {
                Json::Object(members) => members.get(&name)?,
                Json::Array(items) => items.get(name.parse::<usize>().ok()?)?,
                Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => {
                    return None;
                }
            };
        }
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        let text = value.as_str()?.get(place(self.start)..place(self.end))?;
        Some(text.chars().take(QUOTED_MAX).collect())
    }
}
