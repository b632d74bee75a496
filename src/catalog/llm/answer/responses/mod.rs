//! Streams of OpenAI's responses: items that are added, grow and are done, and a last event that repeats them all.
//!
//! An item that asks for a tool is kept until it is done and leaves as few events; from there on the events are
//! numbered anew. The last event must repeat exactly the calls that were judged.

mod item;
pub(super) mod whole;

use std::collections::{BTreeMap, BTreeSet};

use self::item::{Item, ItemKind, answered, released};
use super::acting::{refuse_acting, short, texts};
use super::error::unexpected;
use super::places::{At, SplicedJson};
use super::{
    AnswerError, AnswerRules, Assembled, CALL_BYTES_MAX, CallForm, DialectStream, Frame, FrameText,
    Step, TokenUsage, broken, given, kind_of, parse, text_of,
};
use crate::domain::canonical;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, json};

const OUTPUT: [At<'_>; 2] = [At::Member("response"), At::Member("output")];

/// The largest number that every reader keeps exact.
const NUMBER_MAX: u64 = (1 << 53) - 1;

/// A stream of a response.
#[derive(Debug)]
pub(super) struct ResponsesStream {
    rules: AnswerRules,
    /// The items by their places in the output.
    items: BTreeMap<u64, Item>,
    /// The places of the calls that are complete.
    calls: Vec<u64>,
    numbers: Numbers,
    /// The last event: its data, and the response in it.
    last: Option<(String, Json)>,
    id: Option<String>,
    model: Option<String>,
    usage: Option<TokenUsage>,
    text: String,
}

/// The numbers of the events that leave.
#[derive(Default, Debug)]
struct Numbers {
    last: Option<u64>,
    /// Whether the provider numbers its events.
    is_used: bool,
    /// Whether other events leave than came.
    is_changed: bool,
}

impl Numbers {
    /// The event under its number.
    fn frame(&mut self, kind: &str, event: &Json, data: String) -> Result<Frame, AnswerError> {
        let came = event.get("sequence_number").and_then(Json::as_u64);
        self.is_used |= came.is_some();
        let mut data = SplicedJson(data);
        if self.is_changed && self.is_used {
            let number = self.last.map_or(0, |last| last.saturating_add(1).min(NUMBER_MAX));
            if came != Some(number) {
                data.put(&[], "sequence_number", &number.to_string())?;
            }
            self.last = Some(number);
        } else {
            self.last = came.or(self.last);
        }
        Ok(Frame::named(kind, data.0))
    }

    /// An event of our own.
    fn own(&mut self, event: &Json) -> Result<Frame, AnswerError> {
        let kind = text_of(event, "type").unwrap_or_default();
        self.frame(kind, event, canonical::text(event))
    }
}

impl ResponsesStream {
    pub(super) const fn new(rules: AnswerRules) -> Self {
        let numbers = Numbers { last: None, is_used: false, is_changed: rules.renumber };
        Self {
            rules,
            items: BTreeMap::new(),
            calls: Vec::new(),
            numbers,
            last: None,
            id: None,
            model: None,
            usage: None,
            text: String::new(),
        }
    }

    /// Lets an event leave. Most events of the end of a part repeat what came in pieces: only texts that are new count.
    fn pass(&mut self, kind: &str, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        let mut found = Vec::new();
        texts(event, &mut found);
        let is_piece = kind.ends_with(".delta");
        let mut text = String::new();
        for piece in found {
            if is_piece || !self.text.contains(piece) {
                text.push_str(piece);
                self.text.push_str(piece);
            }
        }
        let frame = self.numbers.frame(kind, event, data.to_owned())?;
        let of = kind.strip_suffix(".delta").or(kind.strip_suffix(".done")).unwrap_or(kind);
        Ok(vec![Step::Frame { frame, texts: FrameText::of((&part_of(event), of), text) }])
    }

    /// Nothing leaves of this event.
    fn hold(&mut self, event: &Json) -> Vec<Step> {
        self.numbers.is_used |= event.get("sequence_number").and_then(Json::as_u64).is_some();
        self.numbers.is_changed = true;
        vec![Step::Hold]
    }

    /// An event that tells the state of the response before its end.
    fn begun(&mut self, kind: &str, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        let response = given(event, "response").ok_or_else(|| unexpected(kind))?;
        let output = given(response, "output");
        if output.is_some_and(|output| output.as_array().is_none_or(|items| !items.is_empty())) {
            return Err(unexpected(kind));
        }
        self.known(response);
        let frame = self.numbers.frame(kind, event, data.to_owned())?;
        Ok(vec![Step::Frame { frame, texts: Vec::new() }])
    }

    fn known(&mut self, response: &Json) {
        let word = |name: &str| text_of(response, name).map(str::to_owned);
        self.id = word("id").or_else(|| self.id.take());
        self.model = word("model").or_else(|| self.model.take());
        let usage = given(response, "usage");
        let usage = usage.and_then(|usage| TokenUsage::read(Dialect::Responses, usage));
        self.usage = usage.or(self.usage);
    }

    fn added(&mut self, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        const KIND: &str = "response.output_item.added";
        let (place, item) = place_and_item(event).ok_or_else(|| unexpected(KIND))?;
        let kind = ItemKind::of(item, &self.rules.hosted_allowed)?;
        let mut new = Item::new(kind, item);
        if self.items.contains_key(&place) {
            return Err(unexpected(KIND));
        }
        if kind.is_call() {
            data.clone_into(&mut new.added);
            self.items.insert(place, new);
            return Ok(self.hold(event));
        }
        self.items.insert(place, new);
        self.pass(KIND, event, data)
    }

    /// Pieces of the arguments of a call, and the arguments again at their end.
    fn arguments(
        &mut self,
        kind: &str,
        event: &Json,
        data: &str,
    ) -> Result<Vec<Step>, AnswerError> {
        let place = event.get("output_index").and_then(Json::as_u64);
        let item = place.and_then(|place| self.items.get_mut(&place));
        let item = item.filter(|item| item.kind.is_call() && !item.is_done);
        let item = item.ok_or_else(|| unexpected(kind))?;
        let of_custom = kind.contains("custom_tool_call");
        if of_custom != (item.kind == ItemKind::Custom) || item.kind == ItemKind::Shell {
            return Err(unexpected(kind));
        }
        if kind.ends_with(".delta") {
            item.pieces.push_str(text_of(event, "delta").unwrap_or_default());
            if item.pieces.len() > CALL_BYTES_MAX {
                return Err(AnswerError::CallTooLarge);
            }
        } else {
            let member = if of_custom { "input" } else { "arguments" };
            let whole = event.get(member).and_then(Json::as_str).ok_or_else(|| unexpected(kind))?;
            item.repeat(whole)?;
            data.clone_into(&mut item.arguments_done);
        }
        Ok(self.hold(event))
    }

    fn done(&mut self, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        const KIND: &str = "response.output_item.done";
        let (place, json) = place_and_item(event).ok_or_else(|| unexpected(KIND))?;
        let kind = ItemKind::of(json, &self.rules.hosted_allowed)?;
        let item = self.items.entry(place).or_insert_with(|| Item::new(kind, json));
        if item.is_done || item.kind != kind {
            return Err(unexpected(KIND));
        }
        item.is_done = true;
        if !kind.is_call() {
            item.json = json.clone();
            return self.pass(KIND, event, data);
        }
        if data.len() > CALL_BYTES_MAX {
            return Err(AnswerError::CallTooLarge);
        }
        item.complete(json)?;
        data.clone_into(&mut item.done);
        let call = answered(kind, json, self.calls.len())?;
        self.calls.push(place);
        let _held = self.hold(event);
        Ok(vec![Step::Call(call)])
    }

    /// The last event.
    fn end(&mut self, kind: &str, event: &Json, data: &str) -> Result<Vec<Step>, AnswerError> {
        let response = given(event, "response").ok_or_else(|| unexpected(kind))?;
        if self.items.values().any(|item| item.kind.is_call() && !item.is_done) {
            return Err(AnswerError::Cut);
        }
        let mut repeated = BTreeSet::new();
        for json in output_of(response)? {
            let kind = ItemKind::of(json, &self.rules.hosted_allowed)?;
            if kind.is_call() {
                self.judged(json, &mut repeated)?;
                continue;
            }
            let mut found = Vec::new();
            texts(json, &mut found);
            if found.into_iter().any(|text| !self.text.contains(text)) {
                return Err(broken("the last event repeats a text that never came"));
            }
        }
        self.known(response);
        self.last = Some((data.to_owned(), event.clone()));
        Ok(vec![Step::Hold])
    }

    /// The judged call that an item repeats. Of two equal calls each is repeated once: only one of them may be denied.
    fn judged(&self, json: &Json, repeated: &mut BTreeSet<u64>) -> Result<&Item, AnswerError> {
        let mut items = self.items.iter().filter(|(place, _)| !repeated.contains(*place));
        let found = items.find(|(_, item)| item.kind.is_call() && item.repeats(json));
        let Some((place, item)) = found else {
            return Err(broken("the last event repeats a tool call that never came"));
        };
        repeated.insert(*place);
        Ok(item)
    }

    /// The last event as it leaves, and the response in it.
    fn last_event(&self, data: String, event: &Json) -> Result<(String, String), AnswerError> {
        let mut data = SplicedJson(data);
        let response = given(event, "response").ok_or(AnswerError::Cut)?;
        let mut repeated = BTreeSet::new();
        for (number, json) in output_of(response)?.iter().enumerate() {
            if !ItemKind::of(json, &self.rules.hosted_allowed)?.is_call() {
                continue;
            }
            if let Some(released) = &self.judged(json, &mut repeated)?.released {
                let place = [&OUTPUT[..], &[At::Item(number)]].concat();
                data.set(&place, &canonical::text(released))?;
            }
        }
        let response = data.at(&[At::Member("response")]).unwrap_or_default().to_owned();
        Ok((data.0, response))
    }

    /// The frames of a call whose item leaves changed.
    fn changed(
        &mut self,
        place: u64,
        kind: ItemKind,
        item: &Json,
    ) -> Result<Vec<Frame>, AnswerError> {
        let (begun, arguments) = item::begun(kind, item);
        let id = given(item, "id").cloned().unwrap_or_default().to_serde();
        let mut events = vec![json!({
            "type": "response.output_item.added", "output_index": place, "item": begun.to_serde(),
        })];
        if let Some((stem, member)) = kind.argument_events() {
            events.push(json!({
                "type": format!("{stem}.delta"), "output_index": place, "item_id": id, "delta": arguments,
            }));
            events.push(json!({
                "type": format!("{stem}.done"), "output_index": place, "item_id": id, member: arguments,
            }));
        }
        events.push(json!({
            "type": "response.output_item.done", "output_index": place, "item": item.to_serde(),
        }));
        events.iter().map(|event| self.numbers.own(event)).collect()
    }

    /// The frames of a call that leaves as it came, its arguments in one piece.
    fn unchanged(&mut self, place: u64, item: &Item) -> Result<Vec<Frame>, AnswerError> {
        let (begun, arguments) = item::begun(item.kind, &item.json);
        let mut frames = Vec::new();
        let kind = "response.output_item.added";
        if item.added.is_empty() {
            frames.push(self.numbers.own(&json!({
                "type": kind, "output_index": place, "item": begun.to_serde(),
            }))?);
        } else {
            let mut added = SplicedJson(item.added.clone());
            if let Some((_, member)) = item.kind.argument_events() {
                added.put(&[At::Member("item")], member, "\"\"")?;
            }
            // What was judged is the action at its end, and no other leaves.
            if item.kind == ItemKind::Shell {
                let action = given(&item.json, "action").map(canonical::text);
                let action = action.unwrap_or_else(|| "null".to_owned());
                added.put(&[At::Member("item")], "action", &action)?;
            }
            frames.push(self.numbers.frame(kind, &parse(&added.0)?, added.0)?);
        }
        if let Some((stem, member)) = item.kind.argument_events() {
            let id = given(&item.json, "id").cloned().unwrap_or_default().to_serde();
            frames.push(self.numbers.own(&json!({
                "type": format!("{stem}.delta"), "output_index": place, "item_id": id, "delta": arguments,
            }))?);
            let (kind, done) = (format!("{stem}.done"), &item.arguments_done);
            frames.push(if done.is_empty() {
                self.numbers.own(&json!({
                    "type": kind, "output_index": place, "item_id": id, member: arguments,
                }))?
            } else {
                self.numbers.frame(&kind, &parse(done)?, done.clone())?
            });
        }
        let done = item.done.clone();
        frames.push(self.numbers.frame("response.output_item.done", &parse(&done)?, done)?);
        Ok(frames)
    }

    /// The frames of a text that leaves instead of a call.
    fn instead(&mut self, place: u64, item: &Json, text: &str) -> Result<Vec<Frame>, AnswerError> {
        let id = text_of(item, "id").unwrap_or_default();
        let at = |kind: &str, name: &str, value: &Json| {
            json!({
                "type": kind, "output_index": place, "content_index": 0, "item_id": id,
                name: value.to_serde(),
            })
        };
        let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
        let begun = json!({
            "type": "message", "id": id, "role": "assistant", "status": "in_progress", "content": [],
        });
        let events = [
            json!({"type": "response.output_item.added", "output_index": place, "item": begun.to_serde()}),
            at("response.content_part.added", "part", &part("")),
            at("response.output_text.delta", "delta", &text.into()),
            at("response.output_text.done", "text", &text.into()),
            at("response.content_part.done", "part", &part(text)),
            json!({"type": "response.output_item.done", "output_index": place, "item": item.to_serde()}),
        ];
        self.text.push_str(text);
        events.iter().map(|event| self.numbers.own(event)).collect()
    }
}

impl DialectStream for ResponsesStream {
    fn event(&mut self, name: Option<&str>, data: &str) -> Result<Vec<Step>, AnswerError> {
        if self.last.is_some() {
            // Some servers write the end of the other dialect as well.
            return if data == "[DONE]" { Ok(vec![Step::Hold]) } else { Err(unexpected("event")) };
        }
        let event = parse(data)?;
        let error = given(&event, "error");
        let is_error = text_of(&event, "type") == Some("error") || name == Some("error");
        if is_error || (event.get("type").is_none() && error.is_some()) {
            return Err(AnswerError::provider(error.unwrap_or(&event)));
        }
        let kind = kind_of(&event)?;
        if name.is_some_and(|name| name != kind) {
            return Err(broken("an event whose name is not its type"));
        }
        match kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.begun(kind, &event, data)
            }
            "response.output_item.added" => self.added(&event, data),
            "response.output_item.done" => self.done(&event, data),
            "response.function_call_arguments.delta"
            | "response.function_call_arguments.done"
            | "response.custom_tool_call_input.delta"
            | "response.custom_tool_call_input.done" => self.arguments(kind, &event, data),
            "response.completed" | "response.incomplete" => self.end(kind, &event, data),
            "response.failed" => {
                let error = given(&event, "response").and_then(|response| given(response, "error"));
                Err(AnswerError::provider(error.unwrap_or(&Json::Null)))
            }
            kind => {
                let place = event.get("output_index").and_then(Json::as_u64);
                let item = place.and_then(|place| self.items.get(&place)).map(|item| item.kind);
                if item.is_some_and(ItemKind::is_call) {
                    return Err(unexpected(kind));
                }
                if item != Some(ItemKind::Hosted) {
                    refuse_acting(kind, &event)?;
                }
                self.pass(kind, &event, data)
            }
        }
    }

    fn leave(&mut self, call: usize, form: CallForm) -> Result<Vec<Frame>, AnswerError> {
        let unknown = AnswerError::UnknownCall(call);
        let place = *self.calls.get(call).ok_or_else(|| unknown.clone())?;
        let item = self.items.get_mut(&place).ok_or(unknown)?;
        if let CallForm::AsAnswered = form {
            let item = item.clone();
            return self.unchanged(place, &item);
        }
        let (kind, json) = released(item.kind, &item.json, &form);
        item.released = Some(json.clone());
        if let CallForm::Text(text) = form {
            return self.instead(place, &json, &text);
        }
        self.changed(place, kind, &json)
    }

    fn finish(mut self: Box<Self>) -> Result<(Vec<Frame>, Assembled), AnswerError> {
        let (data, event) = self.last.take().ok_or(AnswerError::Cut)?;
        let kind = text_of(&event, "type").unwrap_or_default();
        let (data, mut response) = self.last_event(data, &event)?;
        let whole = given(&event, "response").ok_or(AnswerError::Cut)?;
        if output_of(whole)?.is_empty() && !self.items.is_empty() {
            // Some servers do not repeat the items: the record needs them.
            let items = self.items.values();
            let items = items.map(|item| item.released.as_ref().unwrap_or(&item.json).clone());
            let mut text = SplicedJson(response);
            text.put(&[], "output", &canonical::text(&items.collect()))?;
            response = text.0;
        }
        let stop = whole::stop(whole);
        let frame = self.numbers.frame(kind, &event, data)?;
        let Self { id, model, usage, text, .. } = *self;
        Ok((vec![frame], Assembled { json: response.into(), model, id, usage, stop, text }))
    }

    fn usage(&self) -> Option<TokenUsage> {
        self.usage
    }

    fn is_over(&self) -> bool {
        self.last.is_some()
    }
}

/// The part of the output that an event is about.
fn part_of(event: &Json) -> String {
    let number = |name: &str| event.get(name).and_then(Json::as_u64).unwrap_or_default();
    let [item, content, summary] = ["output_index", "content_index", "summary_index"].map(number);
    format!("{item}/{content}/{summary}")
}

fn place_and_item(event: &Json) -> Option<(u64, &Json)> {
    Some((event.get("output_index")?.as_u64()?, given(event, "item")?))
}

/// The items of a response.
fn output_of(response: &Json) -> Result<&[Json], AnswerError> {
    given(response, "output").map_or(Ok(&[]), |output| {
        output.as_array().ok_or_else(|| broken(format!("`{}` is no list", short("output"))))
    })
}
