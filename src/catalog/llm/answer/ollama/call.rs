//! Tool calls of Ollama, and what stands beside them.

use crate::domain::json::Json;
use crate::llm::answer::acting::refuse_acting_member;
use crate::llm::answer::error::unexpected;
use crate::llm::answer::places::{At, SplicedJson};
use crate::llm::answer::{
    AnswerError, AnsweredCall, CallForm, DENIED_NAME, broken, given, quoted, text_of,
};

/// The message in the bytes.
pub const MESSAGE: [At<'_>; 1] = [At::Member("message")];
/// Its tool calls.
pub const CALLS: [At<'_>; 2] = [At::Member("message"), At::Member("tool_calls")];
/// Members of a message that are texts of the model.
pub const TEXTS: [&str; 2] = ["thinking", "content"];

/// Refuses members beside the tool calls by which something could be called.
pub fn refuse_beside(answer: &Json) -> Result<(), AnswerError> {
    let members = answer.as_object().into_iter().flatten();
    let message = given(answer, "message").and_then(Json::as_object).into_iter().flatten();
    let members = members.filter(|(name, _)| *name != "message");
    let message = message.filter(|(name, _)| *name != "tool_calls");
    for (name, value) in members.chain(message) {
        refuse_acting_member(name, value)?;
    }
    Ok(())
}

/// The message of an answer.
pub fn message(answer: &Json) -> Result<&Json, AnswerError> {
    let message = given(answer, "message").filter(|message| message.as_object().is_some());
    let message = message.ok_or_else(|| unexpected("message"))?;
    let is_other = |name: &&str| given(message, name).is_some_and(|text| text.as_str().is_none());
    match TEXTS.into_iter().find(is_other) {
        Some(other) => Err(unexpected(other)),
        None => Ok(message),
    }
}

/// The tool calls of a message.
pub fn calls(message: &Json) -> Result<&[Json], AnswerError> {
    let calls = given(message, "tool_calls").map(|calls| calls.as_array().ok_or(calls));
    calls.transpose().map_err(|_other| unexpected("tool_calls")).map(Option::unwrap_or_default)
}

/// One of them. `arguments`: its arguments as they are written.
pub fn answered(
    call: &Json,
    arguments: Option<&str>,
    index: usize,
) -> Result<AnsweredCall, AnswerError> {
    let function = given(call, "function").ok_or_else(|| unexpected("tool_calls"))?;
    let other = |value: &Json, known: &[&str]| {
        let members = value.as_object().into_iter().flatten();
        let mut names = members.map(|(name, _)| name);
        names.find(|name| !known.contains(&name.as_str())).cloned()
    };
    let known = ["arguments", "description", "index", "name"];
    let other = other(call, &["function", "id", "type"]).or_else(|| other(function, &known));
    if let Some(other) = other {
        return Err(unexpected(&other));
    }
    let name = text_of(function, "name").ok_or_else(|| broken("a tool call without a name"))?;
    if given(function, "arguments").is_some_and(|given| given.as_object().is_none()) {
        return Err(unexpected("arguments"));
    }
    let id = text_of(call, "id").unwrap_or_default().to_owned();
    let arguments = arguments.filter(|text| *text != "null").unwrap_or("{}").to_owned();
    Ok(AnsweredCall { index, id, name: name.to_owned(), arguments, custom: false })
}

/// The arguments of the call at this place, as they are written.
pub fn arguments(text: &SplicedJson, number: usize) -> Option<&str> {
    let at = [At::Item(number), At::Member("function"), At::Member("arguments")];
    text.at(&[&CALLS[..], &at].concat())
}

/// Writes the form of a call that stays one at this place.
pub fn write(text: &mut SplicedJson, number: usize, form: &CallForm) -> Result<(), AnswerError> {
    let function = [&CALLS[..], &[At::Item(number), At::Member("function")]].concat();
    match form {
        CallForm::AsAnswered | CallForm::Text(_) => Ok(()),
        CallForm::Arguments(arguments) => text.put(&function, "arguments", arguments),
        CallForm::Denied(arguments) => {
            text.put(&function, "name", &quoted(DENIED_NAME))?;
            text.put(&function, "arguments", arguments)
        }
    }
}
