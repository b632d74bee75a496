//! Responses in one piece.

use std::collections::BTreeSet;

use super::item::{ItemKind, answered, released};
use super::output_of;
use crate::domain::canonical;
use crate::domain::json::Json;
use crate::llm::answer::acting::texts;
use crate::llm::answer::places::{At, SplicedJson};
use crate::llm::answer::{AnswerError, AnsweredCall, CallForm, given, text_of};

/// The calls of the output, and its texts.
pub fn read(
    answer: &Json,
    allowed: &BTreeSet<String>,
) -> Result<(Vec<AnsweredCall>, String), AnswerError> {
    if text_of(answer, "status") == Some("failed") {
        return Err(AnswerError::provider(given(answer, "error").unwrap_or(&Json::Null)));
    }
    let (mut calls, mut text) = (Vec::new(), String::new());
    for item in output_of(answer)? {
        let kind = ItemKind::of(item, allowed)?;
        if kind.is_call() {
            calls.push(answered(kind, item, calls.len())?);
        } else {
            let mut found = Vec::new();
            texts(item, &mut found);
            text.push_str(&found.concat());
        }
    }
    Ok((calls, text))
}

/// Writes the forms of the calls into the answer. `forms` has one for each call.
pub fn write(
    answer: &Json,
    text: &mut SplicedJson,
    forms: &[CallForm],
    allowed: &BTreeSet<String>,
) -> Result<(), AnswerError> {
    let mut forms = forms.iter();
    for (number, item) in output_of(answer)?.iter().enumerate() {
        let kind = ItemKind::of(item, allowed)?;
        if !kind.is_call() {
            continue;
        }
        let form = forms.next().unwrap_or(&CallForm::AsAnswered);
        if !matches!(form, CallForm::AsAnswered) {
            let (_, item) = released(kind, item, form);
            text.set(&[At::Member("output"), At::Item(number)], &canonical::text(&item))?;
        }
    }
    Ok(())
}

/// Why a response ended.
pub fn stop(response: &Json) -> String {
    let status = text_of(response, "status").unwrap_or("completed");
    let reason = given(response, "incomplete_details").and_then(|why| text_of(why, "reason"));
    reason.filter(|_| status == "incomplete").unwrap_or(status).to_owned()
}
