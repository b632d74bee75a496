//! Streams of Anthropic's messages: a start, blocks one after the other, a delta with the stop reason, a stop.
//!
//! A block of `tool_use` is kept from its start to its stop and leaves as three events. The events of the end wait.

mod block;
pub(super) mod whole;

use std::collections::{BTreeMap, BTreeSet};

use self::block::{answered, begun_input, block_kind, grow_block, refuse_block, released, said};
use super::acting::refuse_acting;
use super::error::unexpected;
use super::places::{At, SplicedJson};
use super::{
    AnswerError, AnswerRules, Assembled, CALL_BYTES_MAX, CallForm, DialectStream, Frame, FrameText,
    Step, TokenUsage, broken, given, kind_of, parse, quoted, text_of, usage,
};
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, json};

/// A stream of a message.
#[derive(Debug)]
pub(super) struct MessagesStream {
    rules: AnswerRules,
    /// The message as it began; `None` before that.
    message: Option<BTreeMap<String, Json>>,
    /// The blocks in order; `null` is a call that waits.
    content: Vec<Json>,
    indexes: BTreeSet<u64>,
    open: Option<Block>,
    calls: Vec<ToolUse>,
    released: usize,
    usage: Json,
    stop: Option<String>,
    end: Vec<Frame>,
    is_done: bool,
    text: String,
}

/// The block that is not at its end.
#[derive(Debug)]
enum Block {
    /// It leaves as it comes.
    Passing { index: u64, block: Json, is_hosted: bool, input: String },
    /// It waits.
    ToolUse(ToolUse),
}

#[derive(Clone, Debug)]
struct ToolUse {
    index: u64,
    /// The data of the event that begins it.
    start: String,
    /// The data of the event that ends it.
    stop: String,
    block: Json,
    input: String,
    /// Where it stands in the content.
    slot: usize,
}

const BLOCK: [At<'_>; 1] = [At::Member("content_block")];

impl MessagesStream {
    pub(super) const fn new(rules: AnswerRules) -> Self {
        Self {
            rules,
            message: None,
            content: Vec::new(),
            indexes: BTreeSet::new(),
            open: None,
            calls: Vec::new(),
            released: 0,
            usage: Json::Null,
            stop: None,
            end: Vec::new(),
            is_done: false,
            text: String::new(),
        }
    }

    /// Lets an event leave. `of`: the type of the block whose text it has.
    fn pass(&mut self, kind: &str, data: &str, (of, text): (&str, String)) -> Vec<Step> {
        self.text.push_str(&text);
        // One block follows another: none goes on behind the next one, but its text may.
        vec![Step::Frame { frame: Frame::named(kind, data), texts: FrameText::of((of, of), text) }]
    }

    fn start(&mut self, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        let message = given(event, "message").and_then(Json::as_object);
        let message = message.ok_or_else(|| unexpected("message_start"))?.clone();
        let is_empty = |name: &str| match message.get(name) {
            None | Some(Json::Null) => true,
            Some(value) => value.as_array().is_some_and(<[Json]>::is_empty),
        };
        if self.message.is_some() || !is_empty("content") || !is_empty("stop_reason") {
            return Err(unexpected("message_start"));
        }
        usage::merge(&mut self.usage, message.get("usage").unwrap_or(&Json::Null));
        self.message = Some(message);
        Ok(self.pass("message_start", data, Default::default()))
    }

    fn block_start(&mut self, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        const KIND: &str = "content_block_start";
        let index = event.get("index").and_then(Json::as_u64).ok_or_else(|| unexpected(KIND))?;
        let block = given(event, "content_block").ok_or_else(|| unexpected(KIND))?.clone();
        let is_first = self.message.is_some() && self.stop.is_none() && self.open.is_none();
        if !is_first || !self.indexes.insert(index) {
            return Err(unexpected(KIND));
        }
        if block_kind(&block)? == "tool_use" {
            let call = ToolUse {
                index,
                start: data.to_owned(),
                stop: String::new(),
                input: begun_input(data)?,
                block,
                slot: 0,
            };
            self.open = Some(Block::ToolUse(call));
            return Ok(vec![Step::Hold]);
        }
        let is_hosted = refuse_block(&block, &self.rules.hosted_allowed)?;
        let (of, text) = (block_kind(&block)?.to_owned(), said(&block));
        self.open = Some(Block::Passing { index, block, is_hosted, input: String::new() });
        Ok(self.pass(KIND, data, (&of, text)))
    }

    fn block_delta(&mut self, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        const KIND: &str = "content_block_delta";
        let at = event.get("index").and_then(Json::as_u64);
        let delta = given(event, "delta").ok_or_else(|| unexpected(KIND))?;
        let kind = text_of(delta, "type").ok_or_else(|| unexpected(KIND))?;
        match &mut self.open {
            Some(Block::ToolUse(call)) if at == Some(call.index) && kind == "input_json_delta" => {
                call.input.push_str(text_of(delta, "partial_json").unwrap_or_default());
                if call.input.len().saturating_add(call.start.len()) > CALL_BYTES_MAX {
                    return Err(AnswerError::CallTooLarge);
                }
                Ok(vec![Step::Hold])
            }
            Some(Block::Passing { index, block, is_hosted, input }) if at == Some(*index) => {
                if !*is_hosted {
                    refuse_acting(kind, delta)?;
                }
                input.push_str(text_of(delta, "partial_json").unwrap_or_default());
                grow_block(block, kind, delta);
                let of = block_kind(block)?.to_owned();
                Ok(self.pass(KIND, data, (&of, said(delta))))
            }
            Some(Block::ToolUse(_) | Block::Passing { .. }) | None => Err(unexpected(KIND)),
        }
    }

    fn block_stop(&mut self, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        const KIND: &str = "content_block_stop";
        let at = event.get("index").and_then(Json::as_u64);
        match self.open.take() {
            Some(Block::ToolUse(mut call)) if at == Some(call.index) => {
                data.clone_into(&mut call.stop);
                call.slot = self.content.len();
                self.content.push(Json::Null);
                let answered = answered(&call.block, &call.input, self.calls.len())?;
                self.calls.push(call);
                Ok(vec![Step::Call(answered)])
            }
            Some(Block::Passing { index, mut block, input, .. }) if at == Some(index) => {
                if let (Json::Object(members), Ok(input)) = (&mut block, parse(&input)) {
                    members.insert("input".into(), input);
                }
                self.content.push(block);
                Ok(self.pass(KIND, data, Default::default()))
            }
            Some(Block::ToolUse(_) | Block::Passing { .. }) | None => Err(unexpected(KIND)),
        }
    }

    fn delta(&mut self, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        let message = self.message.as_mut().filter(|_| self.open.is_none());
        let message = message.ok_or_else(|| unexpected("message_delta"))?;
        refuse_acting("message_delta", event)?;
        usage::merge(&mut self.usage, event.get("usage").unwrap_or(&Json::Null));
        for (name, value) in given(event, "delta").and_then(Json::as_object).into_iter().flatten() {
            message.insert(name.clone(), value.clone());
            if name == "stop_reason" && self.stop.is_none() {
                self.stop = value.as_str().map(str::to_owned);
            }
        }
        self.end.push(Frame::named("message_delta", data));
        Ok(vec![Step::Hold])
    }

    fn stop(&mut self, data: &str) -> Result<Vec<Step>, AnswerError> {
        if self.stop.is_none() {
            return Err(AnswerError::Cut);
        }
        self.is_done = true;
        self.end.push(Frame::named("message_stop", data));
        Ok(vec![Step::Hold])
    }
}

impl DialectStream for MessagesStream {
    fn event(&mut self, name: Option<&str>, data: &str) -> Result<Vec<Step>, AnswerError> {
        if self.is_done {
            // Some servers write the end of the other dialect as well.
            let is_known = data == "[DONE]" || name == Some("ping");
            return if is_known { Ok(vec![Step::Hold]) } else { Err(unexpected("event")) };
        }
        let event = parse(data)?;
        if name == Some("error") {
            return Err(AnswerError::provider(given(&event, "error").unwrap_or(&event)));
        }
        let kind = kind_of(&event)?;
        // Some clients go by the name, others by the type.
        if name.is_some_and(|name| name != kind) {
            return Err(broken("an event whose name is not its type"));
        }
        match kind {
            "message_start" => self.start(&event, data),
            "content_block_start" => self.block_start(&event, data),
            "content_block_delta" => self.block_delta(&event, data),
            "content_block_stop" => self.block_stop(&event, data),
            "message_delta" => self.delta(&event, data),
            "message_stop" => self.stop(data),
            "error" => Err(AnswerError::provider(given(&event, "error").unwrap_or(&event))),
            kind => {
                refuse_acting(kind, &event)?;
                Ok(self.pass(kind, data, ("", said(&event))))
            }
        }
    }

    fn leave(&mut self, call: usize, form: CallForm) -> Result<Vec<Frame>, AnswerError> {
        let call = self.calls.get(call).ok_or(AnswerError::UnknownCall(call))?.clone();
        let block = released(&call.block, &call.input, &form);
        let input = match form {
            // What was judged was the empty input.
            CallForm::AsAnswered if call.input.is_empty() => "{}".to_owned(),
            CallForm::AsAnswered => call.input,
            CallForm::Arguments(arguments) | CallForm::Denied(arguments) => arguments,
            CallForm::Text(text) => {
                self.text.push_str(&text);
                self.put(call.slot, block);
                return Ok(text_frames(call.index, &text, &call.stop));
            }
        };
        let mut start = SplicedJson(call.start);
        start.put(&BLOCK, "input", "{}")?;
        if let Some(name) =
            text_of(&block, "name").filter(|name| Some(*name) != text_of(&call.block, "name"))
        {
            start.put(&BLOCK, "name", &quoted(name))?;
        }
        self.put(call.slot, block);
        self.released = self.released.saturating_add(1);
        let delta = json!({"type": "input_json_delta", "partial_json": input});
        Ok(vec![
            Frame::named("content_block_start", start.0),
            delta_frame(call.index, &delta),
            Frame::named("content_block_stop", call.stop),
        ])
    }

    fn finish(mut self: Box<Self>) -> Result<(Vec<Frame>, Assembled), AnswerError> {
        let (Some(mut message), true) = (self.message.take(), self.is_done) else {
            return Err(AnswerError::Cut);
        };
        let mut stop = self.stop.unwrap_or_default();
        if self.released == 0 {
            let path = [At::Member("delta"), At::Member("stop_reason")];
            for frame in &mut self.end {
                let mut data = SplicedJson(std::mem::take(&mut frame.data));
                agree(&mut data, &path)?;
                frame.data = data.0;
            }
            if stop == "tool_use" {
                stop = "end_turn".to_owned();
            }
        }
        message.insert("stop_reason".into(), stop.as_str().into());
        message.insert("content".into(), self.content.into());
        let word = |name: &str| message.get(name).and_then(Json::as_str).map(str::to_owned);
        let (model, id) = (word("model"), word("id"));
        let usage = TokenUsage::read(Dialect::Messages, &self.usage);
        message.insert("usage".into(), self.usage);
        let json = canonical::bytes(&Json::Object(message));
        Ok((self.end, Assembled { json, model, id, usage, stop, text: self.text }))
    }

    fn usage(&self) -> Option<TokenUsage> {
        TokenUsage::read(Dialect::Messages, &self.usage)
    }

    fn is_over(&self) -> bool {
        self.is_done
    }
}

impl MessagesStream {
    fn put(&mut self, slot: usize, block: Json) {
        if let Some(place) = self.content.get_mut(slot) {
            *place = block;
        }
    }
}

fn delta_frame(index: u64, delta: &Json) -> Frame {
    let event = json!({"type": "content_block_delta", "index": index, "delta": delta.to_serde()});
    Frame::named("content_block_delta", canonical::text(&event))
}

fn text_frames(index: u64, text: &str, stop: &str) -> Vec<Frame> {
    let start = json!({
        "type": "content_block_start", "index": index,
        "content_block": {"type": "text", "text": ""},
    });
    vec![
        Frame::named("content_block_start", canonical::text(&start)),
        delta_frame(index, &json!({"type": "text_delta", "text": text})),
        Frame::named("content_block_stop", stop),
    ]
}

/// Makes the stop reason agree with an answer that has no tool call.
fn agree(data: &mut SplicedJson, path: &[At<'_>]) -> Result<(), AnswerError> {
    if data.at(path) == Some("\"tool_use\"") {
        data.set(path, "\"end_turn\"")?;
    }
    Ok(())
}
