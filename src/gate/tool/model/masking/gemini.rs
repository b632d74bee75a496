//! Events of Gemini: parts with pieces of two texts, that of the answer and that of the thoughts.

use super::{EventMask, MaskedDialect, at, has_nested_text, says, set_if};
use crate::domain::json::Json;
use crate::firewall::Unmaskable;

/// The parts of an event.
const PARTS: [&str; 4] = ["candidates", "0", "content", "parts"];
/// The texts.
const KINDS: [(&str, bool); 2] = [("thought", true), ("text", false)];

/// The dialect.
#[derive(Debug)]
pub(super) struct GeminiMask;

impl MaskedDialect for GeminiMask {
    fn event(&self, mask: &mut EventMask, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        mask.content_event(event)
    }

    fn drop_tokens(&self, answer: &mut Json) {
        if let Some(candidate) = at(answer, &["candidates", "0"]) {
            set_if(candidate, "logprobsResult", Json::Null);
        }
    }
}

impl EventMask {
    /// An event.
    fn content_event(&mut self, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        let mut other = event.clone();
        let beside = event.as_object().into_iter().flatten();
        self.refuse(|| beside.filter(|(name, _)| *name != "candidates").any(says))?;
        let mut parts = Vec::new();
        let mut is_last = false;
        if let Some(Json::Object(candidate)) = at(&mut other, &["candidates", "0"]) {
            // Each of its tokens is a piece of the text.
            candidate.remove("logprobsResult");
            let beside = candidate.iter().filter(|(name, _)| *name != "content");
            self.refuse(|| beside.into_iter().any(says))?;
            let reason = candidate.get("finishReason").and_then(Json::as_str);
            is_last = reason.is_some_and(|reason| !reason.is_empty());
        }
        if let Some(Json::Array(all)) = at(&mut other, &PARTS) {
            parts = std::mem::take(all);
        }
        let came = parts.len();
        let mut masked = Vec::new();
        for part in parts {
            masked.extend(self.content_part(part)?);
        }
        if is_last {
            self.rests(&mut masked)?;
        }
        let has_usage = event.get("usageMetadata").is_some();
        if masked.is_empty() && came > 0 && !is_last && !has_usage {
            return Ok(Vec::new());
        }
        let mut left = self.value(&other)?;
        match at(&mut left, &PARTS) {
            Some(place) => *place = masked.into(),
            None if masked.is_empty() => {}
            None => Self::with_content(&mut left, masked)?,
        }
        Ok(vec![left])
    }

    /// What may leave of a part; none if all of it waits.
    fn content_part(&mut self, part: Json) -> Result<Option<Json>, Unmaskable> {
        if part.get("functionCall").is_some_and(|call| *call != Json::Null) {
            return Ok(Some(part));
        }
        let mut other = part;
        let Json::Object(members) = &mut other else { return Ok(Some(self.value(&other)?)) };
        let is_thought = members.get("thought") == Some(&Json::Bool(true));
        let text = match members.get_mut("text") {
            Some(Json::String(text)) => std::mem::take(text),
            Some(_) | None => String::new(),
        };
        self.refuse(|| has_nested_text(&other))?;
        let kind = if is_thought { "thought" } else { "text" };
        let said = self.push(kind, (0, 0), &text, &Json::Null)?;
        let mut masked = self.value(&other)?;
        if let Json::Object(members) = &mut masked {
            let is_bare = members.keys().all(|name| ["text", "thought"].contains(&name.as_str()));
            if said.is_empty() && is_bare && !text.is_empty() {
                return Ok(None);
            }
            if members.contains_key("text") {
                members.insert("text".to_owned(), Json::from(said));
            }
        }
        Ok(Some(masked))
    }

    /// Adds what is left of the texts: nothing follows them.
    fn rests(&mut self, parts: &mut Vec<Json>) -> Result<(), Unmaskable> {
        for (kind, is_thought) in KINDS {
            let Some(text) = self.texts.get_mut(kind) else { continue };
            let rest = text.window.flush()?;
            if rest.is_empty() {
                continue;
            }
            let thought = is_thought.then_some(("thought", Json::Bool(true)));
            parts.push(Json::object([("text", Json::from(rest))].into_iter().chain(thought)));
        }
        Ok(())
    }

    /// Some servers end an answer without parts: the rests of its texts leave in such.
    fn with_content(event: &mut Json, parts: Vec<Json>) -> Result<(), Unmaskable> {
        let Some(Json::Object(candidate)) = at(event, &["candidates", "0"]) else {
            return Err(Unmaskable::Late);
        };
        let content = [("parts", Json::from(parts)), ("role", Json::from("model"))];
        candidate.insert("content".to_owned(), Json::object(content));
        Ok(())
    }
}
