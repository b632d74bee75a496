//! Messages in one piece.

use std::collections::BTreeSet;

use super::agree;
use super::block::{answered, block_kind, refuse_block, released, said};
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::llm::answer::acting::refuse_acting_member;
use crate::llm::answer::error::unexpected;
use crate::llm::answer::places::{At, SplicedJson};
use crate::llm::answer::{AnswerError, AnsweredCall, CallForm, given};

/// The calls of the content, and its texts.
pub fn read(
    answer: &Json,
    allowed: &BTreeSet<String>,
) -> Result<(Vec<AnsweredCall>, String), AnswerError> {
    let (mut calls, mut text) = (Vec::new(), String::new());
    for block in blocks(answer)? {
        if block_kind(block)? == "tool_use" {
            calls.push(answered(block, &input_of(block), calls.len())?);
        } else {
            refuse_block(block, allowed)?;
            text.push_str(&said(block));
        }
    }
    for (name, value) in answer.as_object().into_iter().flatten() {
        if !["content", "usage"].contains(&name.as_str()) {
            refuse_acting_member(name, value)?;
        }
    }
    Ok((calls, text))
}

/// Writes the forms of the calls into the answer. `forms` has one for each call.
pub fn write(answer: &Json, text: &mut SplicedJson, forms: &[CallForm]) -> Result<(), AnswerError> {
    let mut forms = forms.iter();
    let mut is_some = false;
    for (number, block) in blocks(answer)?.iter().enumerate() {
        if block_kind(block)? != "tool_use" {
            continue;
        }
        let form = forms.next().unwrap_or(&CallForm::AsAnswered);
        match form {
            CallForm::AsAnswered => is_some = true,
            CallForm::Arguments(_) | CallForm::Denied(_) | CallForm::Text(_) => {
                is_some |= !matches!(form, CallForm::Text(_));
                let block = canonical::text(&released(block, "", form));
                text.set(&[At::Member("content"), At::Item(number)], &block)?;
            }
        }
    }
    if is_some { Ok(()) } else { agree(text, &[At::Member("stop_reason")]) }
}

fn blocks(answer: &Json) -> Result<&[Json], AnswerError> {
    let blocks = given(answer, "content").and_then(Json::as_array);
    blocks.ok_or_else(|| unexpected("content"))
}

fn input_of(block: &Json) -> String {
    given(block, "input").map(canonical::text).unwrap_or_default()
}
