//! Answers of Ollama in one piece.

use super::call::{self, CALLS, MESSAGE, TEXTS};
use crate::domain::json::Json;
use crate::llm::answer::chat::after;
use crate::llm::answer::places::SplicedJson;
use crate::llm::answer::{AnswerError, AnsweredCall, CallForm, quoted, text_of};

/// The calls of the message, and its texts.
pub fn read(answer: &Json, body: &str) -> Result<(Vec<AnsweredCall>, String), AnswerError> {
    call::refuse_beside(answer)?;
    let message = call::message(answer)?;
    let body = SplicedJson(body.to_owned());
    let calls = call::calls(message)?.iter().enumerate();
    let calls =
        calls.map(|(number, one)| call::answered(one, call::arguments(&body, number), number));
    let texts = TEXTS.iter().filter_map(|name| text_of(message, name));
    Ok((calls.collect::<Result<_, _>>()?, texts.collect()))
}

/// Writes the forms of the calls into the answer. `forms` has one for each call.
pub fn write(answer: &Json, text: &mut SplicedJson, forms: &[CallForm]) -> Result<(), AnswerError> {
    let content = text_of(call::message(answer)?, "content").unwrap_or_default();
    let mut content = content.to_owned();
    let before = content.len();
    for (number, form) in forms.iter().enumerate() {
        call::write(text, number, form)?;
        if let CallForm::Text(words) = form {
            let words = after(&content, words);
            content.push_str(&words);
        }
    }
    if content.len() > before {
        text.put(&MESSAGE, "content", &quoted(&content))?;
    }
    let stays = |number: usize| !matches!(forms.get(number), Some(CallForm::Text(_)));
    match forms.len() {
        0 => Ok(()),
        count if (0..count).any(stays) => text.keep_items(&CALLS, stays),
        _none => text.remove(&MESSAGE, "tool_calls"),
    }
}
