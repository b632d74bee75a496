//! Answers of Gemini in one piece.

use std::collections::BTreeSet;

use super::part::{self, PARTS, PartKind};
use crate::domain::json::Json;
use crate::llm::answer::places::{At, SplicedJson};
use crate::llm::answer::{AnswerError, AnsweredCall, CallForm, text_of};

/// The calls of the candidate, and its texts.
pub fn read(
    answer: &Json,
    body: &str,
    allowed: &BTreeSet<String>,
) -> Result<(Vec<AnsweredCall>, String), AnswerError> {
    let candidate = part::candidate(answer)?;
    part::refuse_beside(answer, candidate, allowed)?;
    let body = SplicedJson(body.to_owned());
    let (mut calls, mut text) = (Vec::new(), String::new());
    let parts = candidate.map(part::parts).transpose()?.unwrap_or_default();
    for (number, one) in parts.iter().enumerate() {
        if part::part_kind(one, allowed)? != PartKind::Call {
            text.push_str(part::said(one).1);
            continue;
        }
        let args = [At::Item(number), At::Member("functionCall"), At::Member("args")];
        let args = body.at(&[&PARTS[..], &args].concat());
        calls.push(part::answered(one, args, calls.len())?);
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
    let candidate = part::candidate(answer)?;
    let parts = candidate.map(part::parts).transpose()?.unwrap_or_default();
    for (number, one) in parts.iter().enumerate() {
        if part::part_kind(one, allowed)? == PartKind::Call {
            let form = forms.next().unwrap_or(&CallForm::AsAnswered);
            part::write(text, &[&PARTS[..], &[At::Item(number)]].concat(), form)?;
        }
    }
    Ok(())
}

/// Why the answer ended.
pub fn stop(answer: &Json) -> String {
    let candidate = part::candidate(answer).ok().flatten();
    part::stop(answer, candidate).unwrap_or_default()
}

/// The model that answered, and the id of the answer.
pub fn names(answer: &Json) -> [Option<String>; 2] {
    ["modelVersion", "responseId"].map(|name| text_of(answer, name).map(str::to_owned))
}

/// The texts of an answer by their kinds, in their order.
pub fn texts(answer: &Json) -> Vec<(&str, &str)> {
    let candidate = part::candidate(answer).ok().flatten();
    let parts = candidate.and_then(|candidate| part::parts(candidate).ok()).unwrap_or_default();
    parts.iter().map(part::said).filter(|(_, text)| !text.is_empty()).collect()
}
