//! Streams of chat completions: chunks, then `[DONE]`.
//!
//! A tool call comes in pieces under one index. It is complete when another begins or the choice ends, and leaves as
//! one chunk of our own. The chunk with the finish reason and everything behind it wait for the end.

mod call;
pub(super) mod whole;

use std::collections::BTreeMap;

use self::call::OpenCall;
use super::acting::{refuse_acting_member, texts};
use super::error::unexpected;
use super::places::{At, SplicedJson};
use super::{
    AnswerError, AnswerRules, Assembled, CallForm, DialectStream, Frame, FrameText, Step,
    TokenUsage, broken, given, grow, parse, quoted, text_of, usage,
};
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, json};

/// What all chunks of a stream repeat.
const HEAD: [&str; 5] = ["id", "created", "model", "system_fingerprint", "service_tier"];
const CHOICE: [At<'_>; 2] = [At::Member("choices"), At::Item(0)];
const DELTA: [At<'_>; 3] = [At::Member("choices"), At::Item(0), At::Member("delta")];

/// A stream of chat completion chunks.
#[derive(Debug)]
pub(super) struct ChatStream {
    rules: AnswerRules,
    head: BTreeMap<String, Json>,
    /// The message so far, without its tool calls.
    message: BTreeMap<String, Json>,
    logprobs: BTreeMap<String, Json>,
    /// The call whose pieces come.
    open: Option<OpenCall>,
    /// The calls that are complete.
    calls: Vec<OpenCall>,
    /// The calls as they left, in the form of whole answers.
    released: Vec<Json>,
    released_function: Option<Json>,
    usage: Json,
    finish: Option<String>,
    /// The frames that end the stream.
    end: Vec<Frame>,
    is_done: bool,
    text: String,
}

/// What a chunk holds beside tool calls.
struct Rest {
    data: SplicedJson,
    /// Whether anything of it is to leave.
    is_some: bool,
    texts: Vec<FrameText>,
}

impl ChatStream {
    pub(super) const fn new(rules: AnswerRules) -> Self {
        Self {
            rules,
            head: BTreeMap::new(),
            message: BTreeMap::new(),
            logprobs: BTreeMap::new(),
            open: None,
            calls: Vec::new(),
            released: Vec::new(),
            released_function: None,
            usage: Json::Null,
            finish: None,
            end: Vec::new(),
            is_done: false,
            text: String::new(),
        }
    }

    /// `[DONE]`.
    fn done(&mut self) -> Result<Vec<Step>, AnswerError> {
        if self.finish.is_none() {
            return Err(AnswerError::Cut);
        }
        self.is_done = true;
        self.end.push(Frame::unnamed("[DONE]"));
        Ok(vec![Step::Hold])
    }

    /// A chunk without a choice: usage, or something of the provider's own.
    fn without_choice(&mut self, chunk: &Json, data: &str) -> Vec<Step> {
        if self.rules.swallow_usage && given(chunk, "usage").is_some() {
            return vec![Step::Hold];
        }
        if self.finish.is_some() {
            self.end.push(Frame::unnamed(data));
            return vec![Step::Hold];
        }
        vec![self.pass(data.to_owned(), FrameText::of(("", ""), said(chunk)))]
    }

    fn pass(&mut self, data: String, texts: Vec<FrameText>) -> Step {
        self.text.extend(texts.iter().map(|piece| piece.text.as_str()));
        Step::Frame { frame: Frame::unnamed(data), texts }
    }

    /// The choice of a chunk.
    fn choice(
        &mut self,
        chunk: &Json,
        choice: &Json,
        data: &str,
    ) -> Result<Vec<Step>, AnswerError> {
        let empty = Json::Object(BTreeMap::new());
        let delta = given(choice, "delta").unwrap_or(&empty);
        let Some(members) = delta.as_object() else { return Err(unexpected("delta")) };
        let mut steps = Vec::new();
        self.take_calls(delta, &mut steps)?;
        let rest = rest(members, data)?;
        let finish = given(choice, "finish_reason").map(|reason| reason.as_str().ok_or(reason));
        let finish = finish.transpose().map_err(|_other| unexpected("finish_reason"))?;
        // Some servers say so in every chunk that the message goes on.
        let finish = finish.filter(|reason| !reason.is_empty());
        let is_late = self.finish.is_some();
        if is_late && (!steps.is_empty() || self.open.is_some() || !rest.texts.is_empty()) {
            return Err(broken("the message goes on after its finish reason"));
        }
        self.say(members);
        if let Some(Json::Object(logprobs)) = choice.get("logprobs") {
            grow(&mut self.logprobs, logprobs);
        }
        if is_late {
            self.end.push(Frame::unnamed(rest.data.0));
            steps.push(Step::Hold);
        } else if let Some(reason) = finish {
            self.complete(&mut steps)?;
            self.finish = Some(reason.to_owned());
            self.finish_frames(chunk, rest, &mut steps)?;
        } else if rest.is_some
            || given(delta, "tool_calls").or(given(delta, "function_call")).is_none()
        {
            // What a message says comes before its calls.
            steps.insert(0, self.pass(rest.data.0, rest.texts));
        } else if steps.is_empty() {
            steps.push(Step::Hold);
        }
        Ok(steps)
    }

    /// Adds the members of a delta to the message.
    fn say(&mut self, delta: &BTreeMap<String, Json>) {
        // Some servers repeat it in every chunk.
        let has_role = self.message.contains_key("role");
        let is_said = |name: &str| match name {
            "tool_calls" | "function_call" => false,
            "role" => !has_role,
            _other => true,
        };
        grow(&mut self.message, delta.iter().filter(|(name, _)| is_said(name)));
    }

    /// The chunk with the finish reason waits. What it holds of the message leaves before.
    fn finish_frames(
        &mut self,
        chunk: &Json,
        rest: Rest,
        steps: &mut Vec<Step>,
    ) -> Result<(), AnswerError> {
        let mut last = rest.data.clone();
        if rest.is_some {
            let mut first = rest.data;
            first.put(&CHOICE, "finish_reason", "null")?;
            // Some clients add up what several chunks report.
            if given(chunk, "usage").is_some() {
                first.remove(&[], "usage")?;
            }
            steps.insert(0, self.pass(first.0, rest.texts));
            last.put(&CHOICE, "delta", "{}")?;
        } else if steps.is_empty() {
            steps.push(Step::Hold);
        }
        self.end.push(Frame::unnamed(last.0));
        Ok(())
    }

    /// The pieces of tool calls.
    fn take_calls(&mut self, delta: &Json, steps: &mut Vec<Step>) -> Result<(), AnswerError> {
        if let Some(function) = given(delta, "function_call") {
            self.take(None, &json!({"function": function.to_serde()}), steps)?;
        }
        let Some(pieces) = given(delta, "tool_calls") else { return Ok(()) };
        let pieces = pieces.as_array().ok_or_else(|| unexpected("tool_calls"))?;
        for piece in pieces {
            let index = match given(piece, "index") {
                Some(index) => index.as_u64().ok_or_else(|| unexpected("index"))?,
                // Some servers number nothing: an id begins a call, and pieces without one go on with it.
                None => self.unnumbered(piece),
            };
            self.take(Some(index), piece, steps)?;
        }
        Ok(())
    }

    fn unnumbered(&self, piece: &Json) -> u64 {
        let last = self.open.as_ref().or(self.calls.last());
        let index = last.and_then(|call| call.index);
        let is_new = text_of(piece, "id").is_some_and(|id| last.is_none_or(|call| call.id != id));
        index.map_or(0, |index| index.saturating_add(u64::from(is_new)))
    }

    fn take(
        &mut self,
        index: Option<u64>,
        piece: &Json,
        steps: &mut Vec<Step>,
    ) -> Result<(), AnswerError> {
        if self.open.as_ref().is_none_or(|open| open.index != index) {
            self.complete(steps)?;
            let is_mixed = self.calls.iter().any(|call| call.index.is_none() || index.is_none());
            if is_mixed || self.calls.iter().any(|call| call.index == index) {
                return Err(broken("a tool call goes on after another began"));
            }
            self.open = Some(OpenCall::new(index));
        }
        match &mut self.open {
            Some(open) => open.grow(piece),
            None => Err(unexpected("tool_calls")),
        }
    }

    /// Completes the call whose pieces came.
    fn complete(&mut self, steps: &mut Vec<Step>) -> Result<(), AnswerError> {
        let Some(call) = self.open.take() else { return Ok(()) };
        let answered = call.answered(self.calls.len())?;
        self.calls.push(call);
        steps.push(Step::Call(answered));
        Ok(())
    }

    /// A chunk of our own.
    fn chunk(&self, delta: Json) -> Frame {
        let mut chunk = self.head.clone();
        chunk.insert("object".into(), "chat.completion.chunk".into());
        let mut choice = BTreeMap::from([("delta".to_owned(), delta)]);
        choice.insert("index".into(), Json::Int(0));
        choice.insert("finish_reason".into(), Json::Null);
        chunk.insert("choices".into(), vec![Json::Object(choice)].into());
        Frame::unnamed(canonical::text(&Json::Object(chunk)))
    }

    /// The text in the place of a call, and its frame.
    fn instead(&mut self, text: &str) -> Frame {
        let before = self.message.get("content").and_then(Json::as_str).unwrap_or_default();
        let text = after(before, text);
        let piece = BTreeMap::from([("content".to_owned(), Json::from(text.as_str()))]);
        grow(&mut self.message, &piece);
        self.text.push_str(&text);
        self.chunk(Json::Object(piece))
    }

    fn assembled(self) -> Assembled {
        let mut message = self.message;
        message.entry("role".into()).or_insert_with(|| "assistant".into());
        message.entry("content".into()).or_default();
        if !self.released.is_empty() {
            message.insert("tool_calls".into(), self.released.into());
        }
        if let Some(function) = self.released_function {
            message.insert("function_call".into(), function);
        }
        let stop = self.finish.unwrap_or_default();
        let mut choice = BTreeMap::from([("message".to_owned(), Json::Object(message))]);
        choice.insert("index".into(), Json::Int(0));
        choice.insert("finish_reason".into(), stop.as_str().into());
        if !self.logprobs.is_empty() {
            choice.insert("logprobs".into(), Json::Object(self.logprobs));
        }
        let word = |name: &str| self.head.get(name).and_then(Json::as_str).map(str::to_owned);
        let (model, id) = (word("model"), word("id"));
        let mut json = self.head;
        json.insert("object".into(), "chat.completion".into());
        json.insert("choices".into(), vec![Json::Object(choice)].into());
        let usage = TokenUsage::read(Dialect::Chat, &self.usage);
        if self.usage != Json::Null {
            json.insert("usage".into(), self.usage);
        }
        let json = canonical::bytes(&Json::Object(json));
        Assembled { json, model, id, usage, stop, text: self.text }
    }
}

impl DialectStream for ChatStream {
    fn event(&mut self, name: Option<&str>, data: &str) -> Result<Vec<Step>, AnswerError> {
        if self.is_done {
            return Err(broken("an event after `[DONE]`"));
        }
        if data == "[DONE]" {
            return self.done();
        }
        let chunk = parse(data)?;
        if let Some(error) = given(&chunk, "error") {
            return Err(AnswerError::provider(error));
        }
        if name == Some("error") {
            return Err(AnswerError::provider(&chunk));
        }
        let Json::Object(members) = &chunk else { return Err(unexpected("chunk")) };
        for (name, value) in members {
            if HEAD.contains(&name.as_str()) {
                // Some servers begin with a chunk about the request, whose members are empty.
                let own = self.head.entry(name.clone()).or_default();
                if matches!(own, Json::Null | Json::Int(0)) || own.as_str() == Some("") {
                    own.clone_from(value);
                }
            } else if !["choices", "usage"].contains(&name.as_str()) {
                refuse_acting_member(name, value)?;
            }
        }
        usage::merge(&mut self.usage, chunk.get("usage").unwrap_or(&Json::Null));
        match given(&chunk, "choices").map(|choices| choices.as_array().ok_or(choices)) {
            None | Some(Ok([])) => Ok(self.without_choice(&chunk, data)),
            Some(Ok([choice])) => {
                refuse_other_choices(choice, "delta")?;
                let mut steps = self.choice(&chunk, choice, data)?;
                if let Some(Step::Frame { texts, .. }) = steps.first_mut() {
                    texts.extend(said_again(choice));
                }
                Ok(steps)
            }
            Some(Ok(_)) => Err(AnswerError::Choices),
            Some(Err(_)) => Err(unexpected("choices")),
        }
    }

    fn leave(&mut self, call: usize, form: CallForm) -> Result<Vec<Frame>, AnswerError> {
        let call = self.calls.get(call).ok_or(AnswerError::UnknownCall(call))?.clone();
        let Some(json) = call.released(&form) else {
            let CallForm::Text(text) = form else { return Ok(Vec::new()) };
            return Ok(vec![self.instead(&text)]);
        };
        if call.index.is_none() {
            self.released_function = Some(json.clone());
            return Ok(vec![self.chunk(Json::object([("function_call", json)]))]);
        }
        let index = u64::try_from(self.released.len()).unwrap_or(u64::MAX);
        let mut piece = json.clone();
        if let Json::Object(members) = &mut piece {
            members.insert("index".into(), index.into());
        }
        self.released.push(json);
        Ok(vec![self.chunk(Json::object([("tool_calls", Json::from(vec![piece]))]))])
    }

    fn finish(mut self: Box<Self>) -> Result<(Vec<Frame>, Assembled), AnswerError> {
        if !self.is_done {
            return Err(AnswerError::Cut);
        }
        if self.released.is_empty() && self.released_function.is_none() {
            for frame in self.end.iter_mut().filter(|frame| frame.data != "[DONE]") {
                let mut data = SplicedJson(std::mem::take(&mut frame.data));
                agree(&mut data)?;
                frame.data = data.0;
            }
            if self.finish.as_deref().is_some_and(asks_for_calls) {
                self.finish = Some("stop".into());
            }
        }
        let end = std::mem::take(&mut self.end);
        Ok((end, self.assembled()))
    }

    fn usage(&self) -> Option<TokenUsage> {
        TokenUsage::read(Dialect::Chat, &self.usage)
    }

    fn is_over(&self) -> bool {
        self.is_done
    }
}

/// Refuses a choice that is not the first, and members of it by which a tool could be called.
/// `message` is where the message stands.
fn refuse_other_choices(choice: &Json, message: &str) -> Result<(), AnswerError> {
    if given(choice, "index").is_some_and(|index| index.as_u64() != Some(0)) {
        return Err(AnswerError::Choices);
    }
    let Json::Object(members) = choice else { return Err(unexpected("choices")) };
    let known = [message, "index", "finish_reason", "logprobs"];
    for (name, value) in members.iter().filter(|(name, _)| !known.contains(&name.as_str())) {
        refuse_acting_member(name, value)?;
    }
    for (name, value) in given(choice, message).and_then(Json::as_object).into_iter().flatten() {
        if !["tool_calls", "function_call"].contains(&name.as_str()) {
            refuse_acting_member(name, value)?;
        }
    }
    Ok(())
}

/// A chunk without its tool calls.
fn rest(delta: &BTreeMap<String, Json>, data: &str) -> Result<Rest, AnswerError> {
    let mut data = SplicedJson(data.to_owned());
    let (mut is_some, mut texts) = (false, Vec::new());
    for (name, value) in delta {
        match (name.as_str(), value) {
            (_, Json::Null) => {}
            ("tool_calls" | "function_call", _) => data.remove(&DELTA, name)?,
            ("role", _) => is_some = true,
            (_, value) => {
                is_some |= *value != Json::from("") && *value != Json::from(Vec::new());
                texts.extend(FrameText::of((name, name), said(value)));
            }
        }
    }
    Ok(Rest { data, is_some, texts })
}

/// The texts of a member of a message.
fn said(value: &Json) -> String {
    if let Json::String(text) = value {
        return text.clone();
    }
    let mut found = Vec::new();
    texts(value, &mut found);
    found.concat()
}

/// The texts of a message that some servers send beside the delta: all that was said, again and again.
fn said_again(choice: &Json) -> impl Iterator<Item = FrameText> {
    let members = given(choice, "message").and_then(Json::as_object).into_iter().flatten();
    members.filter(|(name, _)| *name != "role").flat_map(|(name, value)| {
        let place = format!("message.{name}");
        FrameText::of((&place, &place), said(value))
    })
}

/// A text behind another of the same message.
pub(super) fn after(before: &str, text: &str) -> String {
    if before.is_empty() { text.to_owned() } else { format!("\n\n{text}") }
}

fn asks_for_calls(reason: &str) -> bool {
    ["tool_calls", "function_call"].contains(&reason)
}

/// Makes the finish reason agree with an answer that has no tool call.
fn agree(data: &mut SplicedJson) -> Result<(), AnswerError> {
    let path = [At::Member("choices"), At::Item(0), At::Member("finish_reason")];
    let reason = data.at(&path).map(parse).transpose()?;
    if reason.as_ref().and_then(Json::as_str).is_some_and(asks_for_calls) {
        data.set(&path, &quoted("stop"))?;
    }
    Ok(())
}
