//! Answers in one piece.

use std::collections::BTreeMap;

use super::places::SplicedJson;
use super::{
    AnswerError, AnswerRules, AnsweredCall, Assembled, CALL_BYTES_MAX, CallForm, DeniedCall,
    TokenUsage, broken, chat, gemini, given, messages, ollama, parse, responses, text_of,
};
use crate::domain::dialect::Dialect;
use crate::domain::json::Json;

/// A whole answer, and what was decided about its tool calls.
#[derive(Debug)]
pub struct WholeAnswer {
    dialect: Dialect,
    rules: AnswerRules,
    body: String,
    answer: Json,
    calls: Vec<AnsweredCall>,
    forms: BTreeMap<usize, CallForm>,
    text: String,
}

/// Reads a whole answer.
///
/// # Errors
/// It must not be passed on.
pub fn whole(
    dialect: Dialect,
    body: &[u8],
    rules: AnswerRules,
) -> Result<WholeAnswer, AnswerError> {
    let body = std::str::from_utf8(body).map_err(|_bytes| AnswerError::NotJson("json.utf8"))?;
    let answer = parse(body)?;
    if answer.as_object().is_none() {
        return Err(broken("it is no object"));
    }
    let is_error = text_of(&answer, "type") == Some("error");
    if let Some(error) = given(&answer, "error").or_else(|| is_error.then_some(&answer)) {
        return Err(AnswerError::provider(error));
    }
    let (calls, text) = match dialect {
        Dialect::Chat => chat::whole::read(&answer)?,
        Dialect::Responses => responses::whole::read(&answer, &rules.hosted_allowed)?,
        Dialect::Messages => messages::whole::read(&answer, &rules.hosted_allowed)?,
        Dialect::Gemini => gemini::whole::read(&answer, body, &rules.hosted_allowed)?,
        Dialect::Ollama => ollama::whole::read(&answer, body)?,
    };
    let size = |call: &AnsweredCall| call.arguments.len().saturating_add(call.name.len());
    if calls.iter().any(|call| size(call) > CALL_BYTES_MAX) {
        return Err(AnswerError::CallTooLarge);
    }
    let (body, forms) = (body.to_owned(), BTreeMap::new());
    Ok(WholeAnswer { dialect, rules, body, answer, calls, forms, text })
}

impl WholeAnswer {
    /// The tool calls in their order.
    pub fn calls(&self) -> &[AnsweredCall] {
        &self.calls
    }

    /// The texts of the model: content, refusals, reasoning.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the provider counted.
    pub fn usage(&self) -> Option<TokenUsage> {
        let counted = match self.dialect {
            Dialect::Chat | Dialect::Responses | Dialect::Messages => given(&self.answer, "usage")?,
            Dialect::Gemini => given(&self.answer, "usageMetadata")?,
            Dialect::Ollama => &self.answer,
        };
        TokenUsage::read(self.dialect, counted)
    }

    /// Lets a tool call leave as the model wrote it.
    ///
    /// # Errors
    /// No such call waits.
    pub fn allow(&mut self, call: usize) -> Result<(), AnswerError> {
        self.decide(call, CallForm::AsAnswered)
    }

    /// Lets a tool call leave with other arguments than the model wrote.
    ///
    /// # Errors
    /// No such call waits.
    pub fn allow_with(&mut self, call: usize, arguments: &str) -> Result<(), AnswerError> {
        self.decide(call, CallForm::Arguments(arguments.to_owned()))
    }

    /// Lets a denial leave instead of a tool call.
    ///
    /// # Errors
    /// No such call waits.
    pub fn deny(&mut self, call: usize, denied: &DeniedCall) -> Result<(), AnswerError> {
        self.decide(call, CallForm::of(denied))
    }

    fn decide(&mut self, call: usize, form: CallForm) -> Result<(), AnswerError> {
        if call >= self.calls.len() || self.forms.contains_key(&call) {
            return Err(AnswerError::UnknownCall(call));
        }
        self.forms.insert(call, form);
        Ok(())
    }

    /// The answer as it leaves: the provider's bytes but for calls that do not leave as they came.
    ///
    /// # Errors
    /// A call was neither allowed nor denied.
    pub fn finish(self) -> Result<Assembled, AnswerError> {
        let usage = self.usage();
        let Self { dialect, rules, body, answer, calls, forms, mut text } = self;
        if let Some(call) = (0..calls.len()).find(|call| !forms.contains_key(call)) {
            return Err(AnswerError::Undecided(call));
        }
        let forms: Vec<CallForm> = forms.into_values().collect();
        for form in &forms {
            if let CallForm::Text(words) = form {
                text.push_str(words);
            }
        }
        let mut body = SplicedJson(body);
        match dialect {
            Dialect::Chat => chat::whole::write(&answer, &mut body, &forms)?,
            Dialect::Responses => {
                responses::whole::write(&answer, &mut body, &forms, &rules.hosted_allowed)?;
            }
            Dialect::Messages => messages::whole::write(&answer, &mut body, &forms)?,
            Dialect::Gemini => {
                gemini::whole::write(&answer, &mut body, &forms, &rules.hosted_allowed)?;
            }
            Dialect::Ollama => ollama::whole::write(&answer, &mut body, &forms)?,
        }
        // The decisions may have changed why it ended.
        let answer = parse(&body.0)?;
        let stop = match dialect {
            Dialect::Chat => {
                let choices = given(&answer, "choices").and_then(Json::as_array);
                let choice = choices.and_then(<[Json]>::first);
                choice
                    .and_then(|choice| text_of(choice, "finish_reason"))
                    .unwrap_or_default()
                    .into()
            }
            Dialect::Responses => responses::whole::stop(&answer),
            Dialect::Messages => text_of(&answer, "stop_reason").unwrap_or_default().to_owned(),
            Dialect::Gemini => gemini::whole::stop(&answer),
            Dialect::Ollama => text_of(&answer, "done_reason").unwrap_or_default().to_owned(),
        };
        let [model, id] = match dialect {
            Dialect::Gemini => gemini::whole::names(&answer),
            Dialect::Chat | Dialect::Responses | Dialect::Messages | Dialect::Ollama => {
                ["model", "id"].map(|name| text_of(&answer, name).map(str::to_owned))
            }
        };
        Ok(Assembled { json: body.0.into_bytes(), model, id, usage, stop, text })
    }
}
