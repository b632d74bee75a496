//! Streams of Ollama: each line is an answer with what is new, and the last says that it is done.
//!
//! A tool call comes whole in one line, and leaves in a line of its own: the provider's, with that call
//! alone.

mod call;
pub(super) mod whole;

use std::collections::BTreeMap;

use self::call::{CALLS, MESSAGE, TEXTS};
use super::chat::after;
use super::places::{At, SplicedJson};
use super::{
    AnswerError, AnswerRules, Assembled, CALL_BYTES_MAX, CallForm, DialectStream, Frame, FrameText,
    Step, TokenUsage, broken, given, grow, parse, quoted, text_of, usage,
};
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::json::Json;

/// A stream of answers.
#[derive(Debug, Default)]
pub(super) struct OllamaStream {
    /// The members of the answer without its message.
    head: BTreeMap<String, Json>,
    /// The message so far, without its tool calls.
    message: BTreeMap<String, Json>,
    /// The tool calls in order; `null` is one that waits, or that left as text.
    released: Vec<Json>,
    /// The lines with the calls, each with its own alone.
    calls: Vec<SplicedJson>,
    end: Vec<Frame>,
    text: String,
}

impl OllamaStream {
    pub(super) fn new(_no_rules: &AnswerRules) -> Self {
        Self::default()
    }

    /// A line that does not end the answer, whatever it was made of.
    fn going_on(mut line: SplicedJson) -> Result<SplicedJson, AnswerError> {
        if line.at(&[At::Member("done")]) == Some("true") {
            line.set(&[At::Member("done")], "false")?;
            line.remove(&[], "done_reason")?;
        }
        Ok(line)
    }

    /// A line without what its message says: clients add that up, so it leaves in one line alone.
    fn unsaid(mut line: SplicedJson, message: &Json) -> Result<SplicedJson, AnswerError> {
        let members = message.as_object().into_iter().flatten();
        for (name, _) in members.filter(says) {
            match name.as_str() {
                "content" => line.put(&MESSAGE, name, "\"\"")?,
                _other => line.remove(&MESSAGE, name)?,
            }
        }
        Ok(line)
    }

    fn calls(
        &mut self,
        (message, calls): (&Json, &[Json]),
        data: &str,
        steps: &mut Vec<Step>,
    ) -> Result<(), AnswerError> {
        for (number, call) in calls.iter().enumerate() {
            let mut line = SplicedJson(data.to_owned());
            line.keep_items(&CALLS, |at| at == number)?;
            let line = Self::going_on(Self::unsaid(line, message)?)?;
            if line.0.len() > CALL_BYTES_MAX {
                return Err(AnswerError::CallTooLarge);
            }
            let answered = call::answered(call, call::arguments(&line, 0), self.calls.len())?;
            self.calls.push(line);
            self.released.push(Json::Null);
            steps.push(Step::Call(answered));
        }
        Ok(())
    }

    /// Keeps what a line says besides its tool calls.
    fn keep(&mut self, line: &Json, message: &Json) {
        usage::merge_members(&mut self.head, line.as_object().unwrap_or(&BTreeMap::new()));
        self.head.remove("message");
        // Each line repeats it.
        let mut piece = message.as_object().cloned().unwrap_or_default();
        piece.remove("tool_calls");
        if self.message.contains_key("role") {
            piece.remove("role");
        }
        grow(&mut self.message, &piece);
    }
}

/// Whether a member of a message is a part of what it says.
fn says((name, value): &(&String, &Json)) -> bool {
    let is_empty = **value == Json::Null || value.as_str() == Some("");
    !is_empty && !["role", "tool_calls"].contains(&name.as_str())
}

impl DialectStream for OllamaStream {
    fn event(&mut self, _name: Option<&str>, data: &str) -> Result<Vec<Step>, AnswerError> {
        let line = parse(data)?;
        if let Some(error) = given(&line, "error") {
            return Err(AnswerError::provider(error));
        }
        if self.is_over() {
            return Err(broken("a line after the last"));
        }
        call::refuse_beside(&line)?;
        let message = call::message(&line)?;
        let calls = call::calls(message)?;
        self.keep(&line, message);
        let said = TEXTS.into_iter().filter_map(|name| Some((name, text_of(message, name)?)));
        let texts: Vec<(&str, &str)> = said.collect();
        let is_done = given(&line, "done") == Some(&Json::Bool(true));
        let mut steps = Vec::new();
        let mut members = message.as_object().into_iter().flatten();
        if members.any(|member| says(&member)) || calls.is_empty() && !is_done {
            let mut rest = SplicedJson(data.to_owned());
            if !calls.is_empty() {
                rest.remove(&MESSAGE, "tool_calls")?;
            }
            let rest = Self::going_on(rest)?;
            self.text.extend(texts.iter().map(|(_, text)| *text));
            let texts = texts.iter();
            let texts =
                texts.flat_map(|(kind, text)| FrameText::of((kind, kind), (*text).to_owned()));
            steps.push(Step::Frame { frame: Frame::unnamed(rest.0), texts: texts.collect() });
        }
        self.calls((message, calls), data, &mut steps)?;
        if is_done {
            let mut last = SplicedJson(data.to_owned());
            if !steps.is_empty() {
                last.remove(&MESSAGE, "tool_calls")?;
                last = Self::unsaid(last, message)?;
            }
            self.end.push(Frame::unnamed(last.0));
        }
        if steps.is_empty() {
            steps.push(Step::Hold);
        }
        Ok(steps)
    }

    fn leave(&mut self, call: usize, form: CallForm) -> Result<Vec<Frame>, AnswerError> {
        let mut line = self.calls.get(call).ok_or(AnswerError::UnknownCall(call))?.clone();
        if let CallForm::Text(text) = &form {
            line.remove(&MESSAGE, "tool_calls")?;
            let before = self.message.get("content").and_then(Json::as_str).unwrap_or_default();
            let text = after(before, text);
            line.put(&MESSAGE, "content", &quoted(&text))?;
            self.text.push_str(&text);
            let piece = BTreeMap::from([("content".to_owned(), Json::from(text))]);
            grow(&mut self.message, &piece);
            return Ok(vec![Frame::unnamed(line.0)]);
        }
        call::write(&mut line, 0, &form)?;
        let left = line.at(&[&CALLS[..], &[At::Item(0)]].concat()).map(parse).transpose()?;
        if let Some(place) = self.released.get_mut(call) {
            *place = left.unwrap_or_default();
        }
        Ok(vec![Frame::unnamed(line.0)])
    }

    fn finish(self: Box<Self>) -> Result<(Vec<Frame>, Assembled), AnswerError> {
        if !self.is_over() {
            return Err(AnswerError::Cut);
        }
        let Self { mut head, mut message, mut released, end, text, .. } = *self;
        released.retain(|call| *call != Json::Null);
        if !released.is_empty() {
            message.insert("tool_calls".into(), released.into());
        }
        let word = |name: &str| head.get(name).and_then(Json::as_str).map(str::to_owned);
        let (model, stop) = (word("model"), word("done_reason").unwrap_or_default());
        head.insert("message".into(), Json::Object(message));
        let json = Json::Object(head);
        let usage = TokenUsage::read(Dialect::Ollama, &json);
        let json = canonical::bytes(&json);
        Ok((end, Assembled { json, model, id: None, usage, stop, text }))
    }

    fn usage(&self) -> Option<TokenUsage> {
        TokenUsage::read(Dialect::Ollama, &Json::Object(self.head.clone()))
    }

    fn is_over(&self) -> bool {
        !self.end.is_empty()
    }
}
