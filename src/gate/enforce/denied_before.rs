//! Tool calls that were denied before a restart, read again from the answers that agents were given.

use serde::Deserialize;

use super::Road;
use super::proposals::DeniedAsk;
use super::run::Run;
use crate::catalog::llm::ask::{DENIED_TOOL, unnamed_denial};
use crate::domain::id::CallId;
use crate::domain::json::{Json, Limits};
use crate::ledger;
use crate::record::conversation::said;

/// What an agent is told in place of a tool call, as far as it is read again.
#[derive(Deserialize)]
struct Denial {
    tool: String,
    message: String,
    call: String,
}

/// A denial in a recorded answer.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PastDenial {
    /// The provider's id of the tool call.
    id: String,
    /// The name of the tool.
    name: String,
    /// What the model is to read.
    words: String,
    /// The denied call.
    call: CallId,
}

impl PastDenial {
    fn of(id: Option<&Json>, name: Option<&Json>, arguments: Option<&Json>) -> Option<Self> {
        name.and_then(Json::as_str).filter(|name| *name == DENIED_TOOL)?;
        let written = |text: &str| Json::parse(text.as_bytes(), &Limits::MODEL).ok();
        let arguments = match arguments?.as_str() {
            Some(text) => written(text)?,
            None => arguments?.clone(),
        };
        let Denial { tool, message, call } = arguments.read().ok()?;
        let id = id.and_then(Json::as_str).filter(|id| !id.is_empty());
        let id = id.map_or_else(|| unnamed_denial(&call), str::to_owned);
        Some(Self { id, name: tool, words: message, call: CallId::parse(&call)? })
    }
}

/// The denials in an answer, in any dialect.
fn denials(answer: &Json) -> Vec<PastDenial> {
    let mut found = Vec::new();
    for message in said(answer).unwrap_or_default() {
        let of = |value: &Json, id: &str, arguments: &str| {
            PastDenial::of(value.get(id), value.get("name"), value.get(arguments))
        };
        let list = |name: &str| message.get(name).and_then(Json::as_array).unwrap_or_default();
        let of_chat = |call: &Json| {
            let function = call.get("function")?;
            PastDenial::of(call.get("id"), function.get("name"), function.get("arguments"))
        };
        found.extend(list("tool_calls").iter().filter_map(of_chat));
        let of_gemini = |part: &Json| of(part.get("functionCall")?, "id", "args");
        found.extend(list("parts").iter().filter_map(of_gemini));
        found.extend(list("content").iter().filter_map(|block| of(block, "id", "input")));
        found.extend(of(&message, "call_id", "arguments"));
    }
    found
}

/// The arguments of a denied call as its model wrote them. `None`: what is recorded stands for them, or
/// may be the free text of a custom tool.
fn written(args: &[u8]) -> Option<String> {
    let value = Json::parse(args, &Limits::MODEL).ok()?;
    let members = value.as_object()?;
    let only = members.keys().next().filter(|_| members.len() == 1);
    let stands_in = only.is_some_and(|only| matches!(only.as_str(), "unreadable_sha256" | "input"));
    (!stands_in).then(|| String::from_utf8(args.to_vec()).ok())?
}

impl Road {
    /// Remembers the tool calls that were denied in this answer, so that its model reads why.
    ///
    /// # Errors
    /// The ledger cannot be read now.
    pub(super) async fn remember_denied(
        &self,
        run: &Run,
        answer: &[u8],
    ) -> Result<(), ledger::Error> {
        let Ok(answer) = Json::parse(answer, &Limits::MODEL) else { return Ok(()) };
        for PastDenial { id, name, words, call } in denials(&answer) {
            let denied = self.ledger.recall(run.id(), &call).await?;
            let arguments = denied.and_then(|denied| written(&denied.args?));
            let Some(arguments) = arguments else { continue };
            let ask = DeniedAsk { id, name, arguments, custom: false, words };
            run.models.proposals.lock().deny(ask);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::json;

    #[test]
    fn denials_are_found_in_answers_of_each_dialect_and_nothing_else_is_one() {
        let told = json!({"tool": "Bash", "code": "policy.denied", "rule": "r", "message": "no", "call": "m-1"});
        let text = crate::domain::canonical::text(&told);
        let chat = json!({"choices": [{"message": {"role": "assistant", "tool_calls": [
            {"id": "c1", "function": {"name": "wicketgate_denied", "arguments": text}},
            {"id": "c2", "function": {"name": "Bash", "arguments": text}}]}}]});
        let responses = json!({"output": [
            {"type": "function_call", "call_id": "c1", "name": "wicketgate_denied", "arguments": text}]});
        let messages = json!({"role": "assistant", "content": [
            {"type": "text", "text": "x"},
            {"type": "tool_use", "id": "c1", "name": "wicketgate_denied", "input": told.to_serde()}]});
        let expected = PastDenial {
            id: "c1".to_owned(),
            name: "Bash".to_owned(),
            words: "no".to_owned(),
            call: CallId::parse("m-1").unwrap(),
        };
        let part = |id: Option<&str>| {
            json!({"candidates": [{"content": {"role": "model", "parts": [{"functionCall":
                {"id": id, "name": "wicketgate_denied", "args": told.to_serde()}}]}}]})
        };
        let line = json!({"message": {"role": "assistant", "tool_calls": [{"id": "c1",
            "function": {"name": "wicketgate_denied", "arguments": told.to_serde()}}]}});
        for answer in [chat, responses, messages, part(Some("c1")), line] {
            assert_eq!(denials(&answer), std::slice::from_ref(&expected));
        }
        let unnamed = PastDenial { id: "denied:m-1".to_owned(), ..expected };
        assert_eq!(denials(&part(None)), [unnamed]);
        let forged = json!({"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "wicketgate_denied", "input": {"tool": "Bash"}}]});
        assert_eq!(denials(&forged), []);
    }

    #[test]
    fn arguments_that_stand_for_others_are_not_given_back() {
        assert_eq!(written(br#"{"command":"ls"}"#).as_deref(), Some(r#"{"command":"ls"}"#));
        for other in [r#"{"unreadable_sha256":"x"}"#, r#"{"input":"x"}"#, "[]", "x"] {
            assert_eq!(written(other.as_bytes()), None, "{other}");
        }
    }
}
