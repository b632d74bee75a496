//! Chat completions in one piece.

use super::call::OpenCall;
use super::{after, agree, refuse_other_choices, said};
use crate::domain::canonical;
use crate::domain::json::{Json, json};
use crate::llm::answer::acting::refuse_acting_member;
use crate::llm::answer::error::unexpected;
use crate::llm::answer::places::{At, SplicedJson};
use crate::llm::answer::{AnswerError, AnsweredCall, CallForm, broken, given, parse, quoted};

/// The calls of `choices[0].message`, and its other texts.
pub fn read(answer: &Json) -> Result<(Vec<AnsweredCall>, String), AnswerError> {
    let choices = given(answer, "choices").and_then(Json::as_array);
    let [choice] = choices.ok_or_else(|| unexpected("choices"))? else {
        return Err(AnswerError::Choices);
    };
    refuse_other_choices(choice, "message")?;
    for (name, value) in answer.as_object().into_iter().flatten() {
        if !["choices", "usage"].contains(&name.as_str()) {
            refuse_acting_member(name, value)?;
        }
    }
    let message = given(choice, "message").ok_or_else(|| unexpected("choices"))?;
    let members = message.as_object().ok_or_else(|| unexpected("message"))?;
    let mut calls = Vec::new();
    if let Some(pieces) = given(message, "tool_calls") {
        for piece in pieces.as_array().ok_or_else(|| unexpected("tool_calls"))? {
            calls.push(OpenCall::of(piece, false)?.answered(calls.len())?);
        }
    }
    if let Some(function) = given(message, "function_call") {
        if !calls.is_empty() {
            return Err(broken("calls of two kinds"));
        }
        let piece = json!({"function": function.to_serde()});
        calls.push(OpenCall::of(&piece, true)?.answered(0)?);
    }
    let known = ["role", "tool_calls", "function_call"];
    let texts = members.iter().filter(|(name, _)| !known.contains(&name.as_str()));
    Ok((calls, texts.map(|(_, value)| said(value)).collect()))
}

/// Writes the forms of the calls into the answer. `forms` has one for each call.
pub fn write(answer: &Json, text: &mut SplicedJson, forms: &[CallForm]) -> Result<(), AnswerError> {
    if forms.is_empty() {
        return agree(text);
    }
    let message = [At::Member("choices"), At::Item(0), At::Member("message")];
    let at = |end: &[At<'static>]| [&message[..], end].concat();
    let value = at_first(answer).ok_or_else(|| unexpected("choices"))?;
    let is_old = given(value, "function_call").is_some();
    let list = if is_old { "function_call" } else { "tool_calls" };
    for (number, form) in forms.iter().enumerate() {
        let place = if is_old {
            at(&[At::Member("function_call")])
        } else {
            at(&[At::Member("tool_calls"), At::Item(number)])
        };
        let piece = if is_old {
            given(value, list).map(|function| json!({"function": function.to_serde()}))
        } else {
            given(value, list).and_then(Json::as_array).and_then(|all| all.get(number)).cloned()
        };
        let call = OpenCall::of(&piece.unwrap_or_default(), is_old)?;
        match form {
            CallForm::AsAnswered => {}
            CallForm::Text(words) => instead(text, &message, value, words)?,
            CallForm::Arguments(_) | CallForm::Denied(_) => {
                let json = call.released(form).unwrap_or_default();
                text.set(&place, &canonical::text(&json))?;
            }
        }
    }
    let stays = |number: usize| !matches!(forms.get(number), Some(CallForm::Text(_)));
    if (0..forms.len()).any(stays) {
        if !is_old {
            text.keep_items(&at(&[At::Member("tool_calls")]), stays)?;
        }
        return Ok(());
    }
    text.remove(&message, list)?;
    agree(text)
}

fn at_first(answer: &Json) -> Option<&Json> {
    given(given(answer, "choices")?.as_array()?.first()?, "message")
}

/// Puts a text behind the content of the message.
fn instead(
    text: &mut SplicedJson,
    message: &[At<'_>],
    value: &Json,
    words: &str,
) -> Result<(), AnswerError> {
    if given(value, "content").is_some_and(|content| content.as_array().is_some()) {
        let place = [message, &[At::Member("content")]].concat();
        let items = text.at(&place).unwrap_or("[]").to_owned();
        let open = items.strip_suffix(']').unwrap_or(&items).trim_end();
        let comma = if open == "[" { "" } else { "," };
        let part = canonical::text(&json!({"type": "text", "text": words}));
        return text.set(&place, &format!("{open}{comma}{part}]"));
    }
    let place = [message, &[At::Member("content")]].concat();
    let before = text.at(&place).map(parse).transpose()?.unwrap_or_default();
    let before = before.as_str().unwrap_or_default();
    let content = format!("{before}{}", after(before, words));
    text.put(message, "content", &quoted(&content))
}
