//! A model's answer, read and rewritten: nothing of a tool call leaves before it was allowed or denied, and the end
//! leaves apart from the rest.
//!
//! [`stream`] reads the events of a streamed answer one by one, [`whole`] reads an answer in one piece. What leaves is
//! the provider's own text but for the tool calls that were denied or changed, and for what has to agree with them.

mod acting;
mod chat;
mod error;
mod gemini;
mod messages;
mod ollama;
mod places;
mod responses;
#[cfg(test)]
mod tests;
mod usage;
mod whole;

use std::collections::{BTreeMap, BTreeSet};

use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, Limits, json};

pub use self::error::AnswerError;
pub use self::usage::TokenUsage;
pub use self::whole::{WholeAnswer, whole};
use super::sse;

/// The name under which a denied tool call leaves.
pub use super::ask::DENIED_TOOL as DENIED_NAME;

/// The most bytes of one tool call.
pub const CALL_BYTES_MAX: usize = 1 << 20;

/// What one event or one whole answer may hold; the reader of the bytes bounds their number.
const LIMITS: Limits =
    Limits { bytes_max: 1 << 26, depth_max: 64, values_max: 1 << 20, key_bytes_max: 1024 };

/// What an answer may hold.
#[derive(Clone, Default, Debug)]
pub struct AnswerRules {
    /// The gate asked for the usage of a stream and the client did not: the event that only reports
    /// it does not leave.
    pub swallow_usage: bool,
    /// The tools that the provider may run, as they were offered: `web_search`, `web_search_20250305`.
    pub hosted_allowed: BTreeSet<String>,
    /// The gate takes events out of the stream or adds some: it numbers all of them.
    pub renumber: bool,
}

/// One event on its way to the agent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its name, if it has one.
    pub event: Option<String>,
    /// Its data: JSON, or `[DONE]`.
    pub data: String,
}

impl Frame {
    /// The bytes: our framing, the data as it is.
    pub fn encode(&self) -> Vec<u8> {
        sse::framed(self.event.as_deref(), None, self.data.as_bytes())
    }

    fn unnamed(data: impl Into<String>) -> Self {
        Self { event: None, data: data.into() }
    }

    fn named(event: &str, data: impl Into<String>) -> Self {
        Self { event: Some(event.to_owned()), data: data.into() }
    }
}

/// What is to be done because of one event.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// The frame may leave.
    Frame {
        /// The frame.
        frame: Frame,
        /// The texts of the model that leave with it and have not left before: content, refusals,
        /// reasoning. None is empty.
        texts: Vec<FrameText>,
    },
    /// A tool call is complete and waits: [`StreamReader::allow`] or [`StreamReader::deny`] gives its frames.
    Call(AnsweredCall),
    /// Nothing leaves yet; the event counts as activity.
    Hold,
}

/// A piece of a text of the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FrameText {
    /// The member or the part that it belongs to: clients put the pieces of one place together.
    pub place: String,
    /// What kind of text it is: clients put the texts of one kind together, whatever comes between.
    pub kind: String,
    /// The piece.
    pub text: String,
}

impl FrameText {
    /// The pieces of a frame that has one, or none.
    fn of((place, kind): (&str, &str), text: String) -> Vec<Self> {
        let (place, kind) = (place.to_owned(), kind.to_owned());
        let piece = (!text.is_empty()).then_some(Self { place, kind, text });
        piece.into_iter().collect()
    }
}

/// A tool call that a model asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnsweredCall {
    /// Its number in the answer, from 0.
    pub index: usize,
    /// The provider's id for it; empty if it has none.
    pub id: String,
    /// The tool; a tool of a namespace is `<namespace>.<name>`.
    pub name: String,
    /// The arguments, as the model wrote them: it is not checked that they are JSON. The free text of a custom tool is
    /// `{"input": …}`, a local shell call is its action.
    pub arguments: String,
    /// Whether the tool takes free text.
    pub custom: bool,
}

/// In which form a denial leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DenialForm {
    /// As a call of [`DENIED_NAME`].
    Call,
    /// As text of the model, instead of the call.
    Text,
}

/// A tool call that does not leave, and what leaves instead.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeniedCall {
    /// The form.
    pub form: DenialForm,
    /// The tool that the model asked for.
    pub tool: String,
    /// The code of the denial.
    pub code: String,
    /// The rule that decided; empty if none did.
    pub rule: String,
    /// What happened and what to do next, in words.
    pub message: String,
    /// The gate's id of the proposal.
    pub call: String,
}

impl DeniedCall {
    /// The arguments of the call that leaves instead: canonical JSON.
    pub fn arguments(&self) -> String {
        canonical::text(&json!({
            "tool": &self.tool, "code": &self.code, "rule": &self.rule,
            "message": &self.message, "call": &self.call,
        }))
    }
}

/// An answer at its end, as it left.
#[derive(Clone, PartialEq, Debug)]
pub struct Assembled {
    /// The answer in the form in which the dialect answers without a stream. That of a stream is put
    /// together; a whole answer is the provider's bytes, with the denials in their places.
    pub json: Vec<u8>,
    /// The model that answered, by its own account.
    pub model: Option<String>,
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// What the provider counted, if it did.
    pub usage: Option<TokenUsage>,
    /// Why the answer ended, in the dialect's words.
    pub stop: String,
    /// Every text of the answer in order: content, refusals, reasoning.
    pub text: String,
}

/// How a tool call leaves.
#[derive(Clone, Debug)]
enum CallForm {
    AsAnswered,
    Arguments(String),
    Denied(String),
    Text(String),
}

impl CallForm {
    fn of(denied: &DeniedCall) -> Self {
        match denied.form {
            DenialForm::Call => Self::Denied(denied.arguments()),
            DenialForm::Text => Self::Text(denied.message.clone()),
        }
    }
}

/// A reader of one dialect's streams.
trait DialectStream: std::fmt::Debug + Send {
    fn event(&mut self, name: Option<&str>, data: &str) -> Result<Vec<Step>, AnswerError>;
    fn leave(&mut self, call: usize, form: CallForm) -> Result<Vec<Frame>, AnswerError>;
    fn finish(self: Box<Self>) -> Result<(Vec<Frame>, Assembled), AnswerError>;
    fn usage(&self) -> Option<TokenUsage>;
    fn is_over(&self) -> bool;
}

/// Reads the events of one streamed answer.
pub fn stream(dialect: Dialect, rules: AnswerRules) -> StreamReader {
    let inner: Box<dyn DialectStream> = match dialect {
        Dialect::Chat => Box::new(chat::ChatStream::new(rules)),
        Dialect::Responses => Box::new(responses::ResponsesStream::new(rules)),
        Dialect::Messages => Box::new(messages::MessagesStream::new(rules)),
        Dialect::Gemini => Box::new(gemini::GeminiStream::new(rules)),
        Dialect::Ollama => Box::new(ollama::OllamaStream::new(&rules)),
    };
    StreamReader { inner, waiting: BTreeSet::new(), broken: false }
}

/// A streamed answer on its way.
#[derive(Debug)]
pub struct StreamReader {
    inner: Box<dyn DialectStream>,
    /// The calls that were neither allowed nor denied.
    waiting: BTreeSet<usize>,
    broken: bool,
}

impl StreamReader {
    /// What the next event demands, in this order. Each call is allowed or denied before the next event.
    ///
    /// # Errors
    /// The answer cannot be passed on from here: nothing of it may leave any more.
    pub fn event(&mut self, event: &sse::Event) -> Result<Vec<Step>, AnswerError> {
        if let Some(call) = self.waiting.first() {
            return Err(AnswerError::Undecided(*call));
        }
        if self.broken {
            return Err(AnswerError::Cut);
        }
        let steps = self.inner.event(event.name.as_deref(), &event.data);
        self.broken = steps.is_err();
        for step in steps.iter().flatten() {
            match step {
                Step::Call(call) => _ = self.waiting.insert(call.index),
                Step::Frame { .. } | Step::Hold => {}
            }
        }
        steps
    }

    /// The frames of a tool call that was allowed.
    ///
    /// # Errors
    /// No such call waits.
    pub fn allow(&mut self, call: usize) -> Result<Vec<Frame>, AnswerError> {
        self.leave(call, CallForm::AsAnswered)
    }

    /// The frames of a tool call that was allowed with other arguments than the model wrote.
    ///
    /// # Errors
    /// No such call waits.
    pub fn allow_with(&mut self, call: usize, arguments: &str) -> Result<Vec<Frame>, AnswerError> {
        self.leave(call, CallForm::Arguments(arguments.to_owned()))
    }

    /// The frames of what leaves instead of a tool call.
    ///
    /// # Errors
    /// No such call waits.
    pub fn deny(&mut self, call: usize, denied: &DeniedCall) -> Result<Vec<Frame>, AnswerError> {
        self.leave(call, CallForm::of(denied))
    }

    fn leave(&mut self, call: usize, form: CallForm) -> Result<Vec<Frame>, AnswerError> {
        if self.broken {
            return Err(AnswerError::Cut);
        }
        if !self.waiting.remove(&call) {
            return Err(AnswerError::UnknownCall(call));
        }
        let frames = self.inner.leave(call, form);
        self.broken = frames.is_err();
        frames
    }

    /// What the provider counted up to here: also of an answer that breaks off.
    pub fn usage(&self) -> Option<TokenUsage> {
        self.inner.usage()
    }

    /// Whether the provider has ended the answer. Clients read nothing behind that.
    pub fn is_over(&self) -> bool {
        self.inner.is_over()
    }

    /// The frames that end the answer, and the answer.
    ///
    /// # Errors
    /// The provider never ended it, or a call waits.
    pub fn finish(self) -> Result<(Vec<Frame>, Assembled), AnswerError> {
        if let Some(call) = self.waiting.first() {
            return Err(AnswerError::Undecided(*call));
        }
        if self.broken {
            return Err(AnswerError::Cut);
        }
        self.inner.finish()
    }
}

/// The texts of a whole answer by their kinds, in their order: what clients put together of it. Tool
/// calls have none.
pub fn texts_by_kind(answer: &Json) -> Vec<(&str, &str)> {
    let is_call = |part: &&Json| {
        let kind = text_of(part, "type").unwrap_or_default();
        kind == "tool_use" || kind.ends_with("_call")
    };
    let parts = ["content", "output"].into_iter().filter_map(|name| answer.get(name)?.as_array());
    let mut found = gemini::whole::texts(answer);
    for part in parts.flatten().filter(|part| !is_call(part)) {
        acting::named_texts(part, &mut found);
    }
    found
}

/// Reads one strict document of a provider.
fn parse(data: &str) -> Result<Json, AnswerError> {
    Json::parse(data.as_bytes(), &LIMITS).map_err(|error| AnswerError::NotJson(error.code))
}

/// A protocol error in these words.
fn broken(words: impl Into<String>) -> AnswerError {
    AnswerError::Protocol(words.into())
}

/// The type of an event, which is its name as well: nothing in it may end a line.
fn kind_of(event: &Json) -> Result<&str, AnswerError> {
    let kind = text_of(event, "type").unwrap_or_default();
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if kind.is_empty() || !kind.chars().all(is_name) {
        return Err(broken("an event without a type"));
    }
    Ok(kind)
}

/// The text of this member, if it is a string that is not empty.
fn text_of<'a>(value: &'a Json, name: &str) -> Option<&'a str> {
    value.get(name).and_then(Json::as_str).filter(|text| !text.is_empty())
}

/// The value of this member, if it is there and not `null`.
fn given<'a>(value: &'a Json, name: &str) -> Option<&'a Json> {
    value.get(name).filter(|value| **value != Json::Null)
}

/// The JSON string of a text.
fn quoted(text: &str) -> String {
    canonical::text(&Json::from(text))
}

/// Free text as arguments.
fn input_arguments(input: &str) -> String {
    canonical::text(&json!({"input": input}))
}

/// Arguments as free text: that of `{"input": …}`, or all of it.
fn free_text(arguments: &str) -> String {
    let read = Json::parse(arguments.as_bytes(), &LIMITS).ok();
    let input = read.as_ref().and_then(|read| read.get("input")).and_then(Json::as_str);
    input.unwrap_or(arguments).to_owned()
}

/// Adds what a later message says about the same thing: texts and lists of pieces grow, other
/// values are replaced, `null` says nothing.
fn grow<'p>(
    members: &mut BTreeMap<String, Json>,
    piece: impl IntoIterator<Item = (&'p String, &'p Json)>,
) {
    for (name, value) in piece {
        match (members.get_mut(name), value) {
            (_, Json::Null) => _ = members.entry(name.clone()).or_default(),
            (Some(Json::String(text)), Json::String(more)) => text.push_str(more),
            (Some(Json::Array(items)), Json::Array(more)) => items.extend(more.iter().cloned()),
            (Some(Json::Object(own)), Json::Object(more)) => grow(own, more),
            (_, value) => _ = members.insert(name.clone(), value.clone()),
        }
    }
}
