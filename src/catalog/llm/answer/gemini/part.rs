//! The candidate of an answer, and its parts.

use std::collections::BTreeSet;

use crate::domain::canonical;
use crate::domain::json::{Json, json};
use crate::llm::answer::acting::refuse_acting_member;
use crate::llm::answer::error::unexpected;
use crate::llm::answer::places::{At, SplicedJson};
use crate::llm::answer::{
    AnswerError, AnsweredCall, CallForm, DENIED_NAME, broken, given, quoted, text_of,
};

/// The candidate in the bytes.
pub const CANDIDATE: [At<'_>; 2] = [At::Member("candidates"), At::Item(0)];
/// Its parts.
pub const PARTS: [At<'_>; 4] =
    [At::Member("candidates"), At::Item(0), At::Member("content"), At::Member("parts")];

/// What a part is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartKind {
    /// A call of a tool of the agent.
    Call,
    /// A text that says nothing, and nothing beside it.
    Empty,
    /// Text, or something that neither calls nor says anything.
    Passing,
}

/// Members of a part that hold no call.
const PASSING: [&str; 4] = ["partMetadata", "text", "thought", "thoughtSignature"];
/// Members of a part with a call.
const BESIDE_CALL: [&str; 4] = ["functionCall", "partMetadata", "thought", "thoughtSignature"];
/// What a part has that the provider ran, and the tools that run it.
const RAN: [(&str, &[&str]); 4] = [
    ("codeExecutionResult", &["codeExecution"]),
    ("executableCode", &["codeExecution"]),
    ("toolCall", &[]),
    ("toolResponse", &[]),
];
/// What a candidate has that the provider looked up, and the tools that do.
const LOOKED_UP: [(&str, &[&str]); 2] = [
    (
        "groundingMetadata",
        &[
            "enterpriseWebSearch",
            "exaAiSearch",
            "fileSearch",
            "googleMaps",
            "googleSearch",
            "googleSearchRetrieval",
            "parallelAiSearch",
            "retrieval",
        ],
    ),
    ("urlContextMetadata", &["urlContext"]),
];

/// Refuses what one of these tools did, unless one of them was allowed; without tools, any.
fn refuse_ran(
    value: &Json,
    ran: &[(&str, &[&str])],
    allowed: &BTreeSet<String>,
) -> Result<(), AnswerError> {
    let is_something = |name: &str| {
        given(value, name).is_some_and(|value| value.as_object().is_none_or(|all| !all.is_empty()))
    };
    let may = |tools: &[&str]| match tools {
        [] => !allowed.is_empty(),
        tools => tools.iter().any(|tool| allowed.contains(*tool)),
    };
    match ran.iter().find(|(name, tools)| is_something(name) && !may(tools)) {
        Some((name, _)) => Err(AnswerError::ProviderRan((*name).to_owned())),
        None => Ok(()),
    }
}

/// The only candidate of an answer, if there is one.
pub fn candidate(answer: &Json) -> Result<Option<&Json>, AnswerError> {
    let Some(candidates) = given(answer, "candidates") else { return Ok(None) };
    match candidates.as_array().ok_or_else(|| unexpected("candidates"))? {
        [] => Ok(None),
        [one] if given(one, "index").is_none_or(|index| *index == Json::Int(0)) => Ok(Some(one)),
        _several => Err(AnswerError::Choices),
    }
}

/// Refuses members beside the parts by which something could be called.
pub fn refuse_beside(
    answer: &Json,
    candidate: Option<&Json>,
    allowed: &BTreeSet<String>,
) -> Result<(), AnswerError> {
    for (name, value) in answer.as_object().into_iter().flatten() {
        if !["candidates", "usageMetadata"].contains(&name.as_str()) {
            refuse_acting_member(name, value)?;
        }
    }
    let Some(candidate) = candidate else { return Ok(()) };
    refuse_ran(candidate, &LOOKED_UP, allowed)?;
    for (name, value) in candidate.as_object().into_iter().flatten() {
        let is_looked_up = LOOKED_UP.iter().any(|(known, _)| known == name);
        if name != "content" && !is_looked_up {
            refuse_acting_member(name, value)?;
        }
    }
    for (name, value) in given(candidate, "content").and_then(Json::as_object).into_iter().flatten()
    {
        if !["parts", "role"].contains(&name.as_str()) {
            refuse_acting_member(name, value)?;
        }
    }
    Ok(())
}

/// The parts of a candidate.
pub fn parts(candidate: &Json) -> Result<&[Json], AnswerError> {
    let Some(content) = given(candidate, "content") else { return Ok(&[]) };
    if content.as_object().is_none() {
        return Err(unexpected("content"));
    }
    let parts = given(content, "parts").map(|parts| parts.as_array().ok_or(parts));
    parts.transpose().map_err(|_other| unexpected("parts")).map(Option::unwrap_or_default)
}

/// What this part is; refuses one that must not leave.
pub fn part_kind(part: &Json, allowed: &BTreeSet<String>) -> Result<PartKind, AnswerError> {
    let members = part.as_object().ok_or_else(|| unexpected("parts"))?;
    refuse_ran(part, &RAN, allowed)?;
    let is_given = |(name, value): (&String, &Json)| (*value != Json::Null).then(|| name.clone());
    let names: Vec<String> = members.iter().filter_map(is_given).collect();
    if let Some(call) = given(part, "functionCall") {
        let other = names.iter().find(|name| !BESIDE_CALL.contains(&name.as_str()));
        let known = ["args", "id", "name"];
        let other = other.or_else(|| {
            let members = call.as_object().into_iter().flatten();
            members.map(|(name, _)| name).find(|name| !known.contains(&name.as_str()))
        });
        return match other {
            Some(other) => Err(unexpected(other)),
            None => Ok(PartKind::Call),
        };
    }
    let is_ran = |name: &str| RAN.iter().any(|(ran, _)| *ran == name);
    for (name, value) in members {
        if !PASSING.contains(&name.as_str()) && !is_ran(name) {
            refuse_acting_member(name, value)?;
        }
    }
    if given(part, "text").is_some_and(|text| text.as_str().is_none()) {
        return Err(unexpected("text"));
    }
    let is_bare = names.iter().all(|name| ["text", "thought"].contains(&name.as_str()));
    let is_empty = is_bare && text_of(part, "text").is_none();
    Ok(if is_empty { PartKind::Empty } else { PartKind::Passing })
}

/// The kind and the text of a part. Clients put the texts of one kind together.
pub fn said(part: &Json) -> (&'static str, &str) {
    let is_thought = given(part, "thought") == Some(&Json::Bool(true));
    (if is_thought { "thought" } else { "text" }, text_of(part, "text").unwrap_or_default())
}

/// The call in a part. `args`: its arguments as they are written.
pub fn answered(
    part: &Json,
    args: Option<&str>,
    index: usize,
) -> Result<AnsweredCall, AnswerError> {
    let call = given(part, "functionCall").ok_or_else(|| unexpected("functionCall"))?;
    let name = text_of(call, "name").ok_or_else(|| broken("a tool call without a name"))?;
    let is_other = |args: &Json| args.as_object().is_none();
    if given(call, "args").is_some_and(is_other) {
        return Err(unexpected("args"));
    }
    let id = text_of(call, "id").unwrap_or_default().to_owned();
    let arguments = args.filter(|args| *args != "null").unwrap_or("{}").to_owned();
    Ok(AnsweredCall { index, id, name: name.to_owned(), arguments, custom: false })
}

/// Writes the form of a call into the part at this place.
pub fn write(text: &mut SplicedJson, part: &[At<'_>], form: &CallForm) -> Result<(), AnswerError> {
    let call = [part, &[At::Member("functionCall")]].concat();
    match form {
        CallForm::AsAnswered => Ok(()),
        CallForm::Arguments(arguments) => text.put(&call, "args", arguments),
        CallForm::Denied(arguments) => {
            text.put(&call, "name", &quoted(DENIED_NAME))?;
            text.put(&call, "args", arguments)
        }
        CallForm::Text(words) => text.set(part, &canonical::text(&json!({"text": words}))),
    }
}

/// Why an answer ended: its own reason, or that its request was blocked.
pub fn stop(answer: &Json, candidate: Option<&Json>) -> Option<String> {
    let reason = candidate.and_then(|candidate| text_of(candidate, "finishReason"));
    let reason = reason.filter(|reason| *reason != "FINISH_REASON_UNSPECIFIED");
    let blocked = || text_of(given(answer, "promptFeedback")?, "blockReason");
    reason.or_else(|| blocked().filter(|_| candidate.is_none())).map(str::to_owned)
}
