//! Lines of Ollama: the message has one text for each member that is one, as that of a chat.

use super::{EventMask, MaskedDialect, at, has_nested_text, says, set, set_if};
use crate::domain::json::Json;
use crate::firewall::Unmaskable;

/// The dialect.
#[derive(Debug)]
pub(super) struct OllamaMask;

impl MaskedDialect for OllamaMask {
    fn event(&self, mask: &mut EventMask, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        mask.line(event)
    }

    fn drop_tokens(&self, answer: &mut Json) {
        set_if(answer, "logprobs", Json::Null);
    }
}

impl EventMask {
    /// A line.
    fn line(&mut self, line: &Json) -> Result<Vec<Json>, Unmaskable> {
        let beside = line.as_object().into_iter().flatten();
        let beside = beside.filter(|(name, _)| !["logprobs", "message"].contains(&name.as_str()));
        self.refuse(|| beside.into_iter().any(says))?;
        let mut other = line.clone();
        // Each of its tokens is a piece of the text.
        if let Json::Object(members) = &mut other {
            members.remove("logprobs");
        }
        let is_last = line.get("done") == Some(&Json::Bool(true));
        let has_message = line.get("message").is_some_and(|message| message.as_object().is_some());
        // The rests of the texts leave in the last message.
        if is_last && !has_message {
            let message = [("content", Json::from("")), ("role", Json::from("assistant"))];
            set(&mut other, "message", Json::object(message));
        }
        let message = at(&mut other, &["message"]).and_then(|message| message.as_object());
        let has_nested = message
            .into_iter()
            .flatten()
            .any(|(name, value)| name != "tool_calls" && has_nested_text(value));
        self.refuse(|| has_nested)?;
        self.delta(other, &["message"], is_last)
    }
}
