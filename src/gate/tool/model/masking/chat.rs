//! Chunks of a chat: the message has one text for each member that is one.

use std::collections::BTreeMap;

use super::{EventMask, MaskedDialect, at, has_nested_text, says, set_if};
use crate::domain::json::Json;
use crate::firewall::Unmaskable;

/// The members of a chunk that hold tool calls.
const CALLS: [&str; 2] = ["tool_calls", "function_call"];

/// The dialect.
#[derive(Debug)]
pub(super) struct ChatMask;

impl MaskedDialect for ChatMask {
    fn event(&self, mask: &mut EventMask, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        mask.chunk(event)
    }

    fn drop_tokens(&self, answer: &mut Json) {
        if let Some(choice) = at(answer, &["choices", "0"]) {
            set_if(choice, "logprobs", Json::Null);
        }
    }
}

impl EventMask {
    /// A chunk of a chat.
    fn chunk(&mut self, chunk: &Json) -> Result<Vec<Json>, Unmaskable> {
        let beside = chunk.as_object().into_iter().flatten();
        self.refuse(|| beside.filter(|(name, _)| *name != "choices").any(says))?;
        let mut other = chunk.clone();
        let choice = at(&mut other, &["choices", "0"]);
        let Some(Json::Object(choice)) = choice else { return Ok(vec![self.value(chunk)?]) };
        // Each of its tokens is a piece of the text.
        let had_tokens = choice.insert("logprobs".into(), Json::Null).is_some();
        if !had_tokens {
            choice.remove("logprobs");
        }
        // Some servers say all of it again in each chunk, in a message beside the delta.
        self.refuse(|| choice.iter().filter(|(name, _)| *name != "delta").any(says))?;
        // Some servers say in every chunk that the message goes on: with an empty reason.
        let goes_on = |reason: &Json| *reason == Json::Null || *reason == Json::from("");
        let is_last = choice.get("finish_reason").is_some_and(|reason| !goes_on(reason));
        // Some servers end a message without a delta: the rests of its texts leave in one.
        if is_last && choice.get("delta").is_none_or(|delta| *delta == Json::Null) {
            choice.insert("delta".into(), Json::Object(BTreeMap::new()));
        }
        self.delta(other, &["choices", "0", "delta"], is_last)
    }

    /// The message at this place, which grows; `is_last`: no text of it follows.
    pub(super) fn delta(
        &mut self,
        mut other: Json,
        place: &[&str],
        is_last: bool,
    ) -> Result<Vec<Json>, Unmaskable> {
        let Some(Json::Object(delta)) = at(&mut other, place) else {
            return Ok(vec![self.value(&other)?]);
        };
        let no_call = |(name, _): &(&String, &Json)| !CALLS.contains(&name.as_str());
        self.refuse(|| delta.iter().filter(no_call).any(|(_, value)| has_nested_text(value)))?;
        let is_text = |(name, value): &(&String, &mut Json)| {
            matches!(value, Json::String(text) if !text.is_empty()) && *name != "role"
        };
        let mut given = BTreeMap::new();
        for (name, value) in delta.iter_mut().filter(is_text) {
            if let Json::String(text) = std::mem::take(value) {
                given.insert(name.clone(), text);
            }
        }
        let calls: BTreeMap<String, Json> = CALLS
            .into_iter()
            .filter_map(|name| delta.remove_entry(name))
            .filter(|(_, calls)| *calls != Json::Null)
            .collect();
        let said = self.said(&given, is_last)?;
        let is_needed = is_last || !calls.is_empty() || has_more(&mut other, place);
        if said.is_empty() && !given.is_empty() && !is_needed {
            return Ok(Vec::new());
        }
        let mut masked = self.value(&other)?;
        if let Some(Json::Object(delta)) = at(&mut masked, place) {
            delta.extend(given.into_keys().map(|name| (name, Json::from(""))));
            delta.extend(said.into_iter().map(|(name, text)| (name, Json::from(text))));
            delta.extend(calls);
        }
        Ok(vec![masked])
    }

    /// What a message says with these pieces, by member; `is_last`: all of it. WHY not where a tool call
    /// begins: the texts go on behind it.
    fn said(
        &mut self,
        given: &BTreeMap<String, String>,
        is_last: bool,
    ) -> Result<BTreeMap<String, String>, Unmaskable> {
        let mut said = BTreeMap::new();
        for (name, piece) in given {
            said.insert(name.clone(), self.push(name, (0, 0), piece, &Json::Null)?);
        }
        for (name, text) in self.texts.iter_mut().filter(|_| is_last) {
            let rest = text.window.flush()?;
            said.entry(name.clone()).or_default().push_str(&rest);
        }
        said.retain(|_, text| !text.is_empty());
        Ok(said)
    }
}

/// Whether a chunk whose texts were taken out has something to say.
fn has_more(chunk: &mut Json, place: &[&str]) -> bool {
    let usage = chunk.get("usage").is_some_and(|usage| *usage != Json::Null);
    let is_something = |value: &Json| *value != Json::Null && *value != Json::from("");
    let delta = at(chunk, place).and_then(|delta| delta.as_object());
    usage || delta.is_some_and(|delta| delta.values().any(is_something))
}
