//! Masks what the policy masks in the events of a streamed answer, before they are read as one.
//!
//! The texts of an answer come in pieces, and a finding may come in several of them. Each text has a
//! window: a piece leaves once nothing that follows can make it a part of a finding. All else is
//! masked event by event. Tool calls pass: they are masked whole, when they are judged.

use std::collections::{BTreeMap, BTreeSet};

use crate::catalog::llm::answer::AnsweredCall;
use crate::catalog::llm::sse::Event;
use crate::domain::canonical;
use crate::domain::decision::PolicyObligation;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, Limits};
use crate::firewall::{self, RedactWindow, Unmaskable};

/// The items of a response that ask for tools of the agent.
const CALLS: [&str; 3] = ["function_call", "custom_tool_call", "local_shell_call"];
/// The pieces of their arguments.
const ARGUMENTS: [&str; 2] =
    ["response.function_call_arguments.", "response.custom_tool_call_input."];

/// The members of a chunk that hold tool calls.
const CHAT_CALLS: [&str; 2] = ["tool_calls", "function_call"];
/// Members of parts of a message that hold its text. No window follows a text into parts.
const TEXTS: [&str; 7] =
    ["content", "reasoning", "refusal", "summary", "text", "thinking", "transcript"];
/// The events that end a response.
const ENDS: [&str; 3] = ["response.completed", "response.incomplete", "response.failed"];

/// The masks of one streamed answer.
#[derive(Debug)]
pub(super) struct EventMask {
    dialect: Dialect,
    kinds: Vec<String>,
    /// Whether what cannot be looked through may leave.
    opaque: bool,
    /// The texts that have begun, in their order.
    texts: BTreeMap<TextPlace, MaskedText>,
    /// The blocks of a message that ask for tools of the agent.
    tool_uses: BTreeSet<u64>,
    masked: u64,
}

/// Where a text stands: the block or item, the part of it, and the member or the kind of event.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct TextPlace(u64, u64, String);

/// One text of an answer.
#[derive(Debug)]
struct MaskedText {
    window: RedactWindow,
    /// The newest event of it.
    newest: Json,
}

impl EventMask {
    /// The masks that these obligations demand; none if they demand none.
    ///
    /// # Errors
    /// They demand what the firewall cannot find.
    pub fn of(
        dialect: Dialect,
        obligations: &[PolicyObligation],
    ) -> Result<Option<Self>, UnknownKind> {
        let (mut kinds, mut all_opaque, mut masks) = (Vec::new(), true, false);
        for obligation in obligations {
            match obligation {
                PolicyObligation::Redact { kinds: more, opaque } => {
                    kinds.extend(more.iter().cloned());
                    all_opaque &= opaque;
                    masks = true;
                }
                PolicyObligation::CapBytes { .. } => {}
            }
        }
        if let Some(unknown) = kinds.iter().find(|kind| !firewall::is_kind(kind)) {
            return Err(UnknownKind(unknown.clone()));
        }
        let (texts, tool_uses) = (BTreeMap::new(), BTreeSet::new());
        let mask = Self { dialect, kinds, opaque: all_opaque, texts, tool_uses, masked: 0 };
        Ok(masks.then_some(mask))
    }

    /// The number of findings that were masked.
    pub fn masked(&self) -> u64 {
        let texts = self.texts.values().map(|text| text.window.masked());
        texts.fold(self.masked, u64::saturating_add)
    }

    /// The events that leave because of one of the provider.
    ///
    /// # Errors
    /// The answer must end here.
    pub fn event(&mut self, event: Event) -> Result<Vec<Event>, Unmaskable> {
        // What is no JSON within the widest limits is refused where events are read.
        let Ok(json) = Json::parse(event.data.as_bytes(), &Limits::FILE) else {
            return Ok(vec![event]);
        };
        let masked = match self.dialect {
            Dialect::Chat => self.chunk(&json)?,
            Dialect::Messages => self.message_event(&json)?,
            Dialect::Responses => self.response_event(&json)?,
        };
        let Event { name, id, data } = event;
        let framed = masked.into_iter().map(|leaves| {
            // What was not changed keeps its bytes.
            let data = if leaves == json { data.clone() } else { canonical::text(&leaves) };
            let kind = leaves.get("type").and_then(Json::as_str);
            let name = name.as_ref().map(|name| kind.unwrap_or(name).to_owned());
            Event { name, id: id.clone(), data }
        });
        Ok(framed.collect())
    }

    /// The arguments of a tool call, masked; none if they have nothing to mask.
    ///
    /// # Errors
    /// They cannot be masked.
    pub fn arguments(&mut self, arguments: &str) -> Result<Option<String>, Unmaskable> {
        let read = Json::parse(arguments.as_bytes(), &Limits::FILE);
        let is_json = read.is_ok();
        let value = read.unwrap_or_else(|_| Json::from(arguments));
        let masked = self.value(&value)?;
        if masked == value {
            return Ok(None);
        }
        let text = masked.as_str().filter(|_| !is_json).map(str::to_owned);
        Ok(Some(text.unwrap_or_else(|| canonical::text(&masked))))
    }

    /// A text of the gate about a tool call, masked.
    ///
    /// # Errors
    /// It cannot be masked.
    pub fn text(&mut self, text: &str) -> Result<String, Unmaskable> {
        let masked = self.value(&Json::from(text))?;
        Ok(masked.as_str().unwrap_or_default().to_owned())
    }

    /// Refuses a tool call whose id or name has a finding: it leaves under these or not at all.
    ///
    /// # Errors
    /// One of them has one.
    pub fn refuse_named(&self, call: &AnsweredCall) -> Result<(), Unmaskable> {
        for text in [&call.id, &call.name] {
            let done = firewall::redact_text(text, &self.kinds).ok_or(Unmaskable::Endless)?;
            if done.masked > 0 {
                return Err(Unmaskable::Named);
            }
        }
        Ok(())
    }

    /// A whole answer without its single tokens: each is a piece of a text, and no finding by itself.
    pub fn without_tokens(&self, answer: Vec<u8>) -> Vec<u8> {
        // What is no JSON is refused where a result is limited.
        let Ok(mut json) = Json::parse(&answer, &Limits::FILE) else { return answer };
        let before = json.clone();
        match self.dialect {
            Dialect::Chat => {
                if let Some(choice) = at(&mut json, &["choices", "0"]) {
                    set_if(choice, "logprobs", Json::Null);
                }
            }
            Dialect::Responses => {
                if let Some(Json::Array(items)) = at(&mut json, &["output"]) {
                    items.iter_mut().filter(|item| !is_call(item)).for_each(drop_tokens);
                }
            }
            Dialect::Messages => {}
        }
        if json == before { answer } else { canonical::bytes(&json) }
    }

    /// Looks through a whole answer after its parts have left.
    ///
    /// # Errors
    /// It has a finding that was in no part by itself.
    pub fn verify(&self, answer: &[u8]) -> Result<(), Unmaskable> {
        let Ok(json) = Json::parse(answer, &Limits::FILE) else { return Err(Unmaskable::Late) };
        let done = firewall::redact(&json, &self.kinds).ok_or(Unmaskable::Endless)?;
        if done.masked > 0 {
            return Err(Unmaskable::Late);
        }
        if done.unscanned && !self.opaque { Err(Unmaskable::Unscanned) } else { Ok(()) }
    }

    /// A value, masked by itself.
    fn value(&mut self, value: &Json) -> Result<Json, Unmaskable> {
        let done = firewall::redact(value, &self.kinds).ok_or(Unmaskable::Endless)?;
        if done.unscanned && !self.opaque {
            return Err(Unmaskable::Unscanned);
        }
        self.masked = self.masked.saturating_add(done.masked);
        Ok(done.value)
    }

    /// What may leave of a text with this piece.
    fn push(&mut self, place: TextPlace, piece: &str, event: &Json) -> Result<String, Unmaskable> {
        let (kinds, opaque) = (&self.kinds, self.opaque);
        let text = self.texts.entry(place).or_insert_with(|| MaskedText {
            window: RedactWindow::new(kinds, opaque),
            newest: Json::Null,
        });
        text.newest = event.clone();
        text.window.push(piece)
    }

    /// Ends the texts of a block, of one part of it or of all: the events with their rests.
    fn flush(
        &mut self,
        is_over: impl Fn(&TextPlace) -> bool,
        with: impl Fn(&mut Json, &TextPlace, Json),
    ) -> Result<Vec<Json>, Unmaskable> {
        let mut events = Vec::new();
        for (place, text) in self.texts.iter_mut().filter(|(place, _)| is_over(place)) {
            let rest = text.window.flush()?;
            if !rest.is_empty() {
                let mut event = text.newest.clone();
                with(&mut event, place, Json::from(rest));
                events.push(event);
            }
        }
        Ok(events)
    }

    /// A chunk of a chat. Its message has one text for each member that is one.
    fn chunk(&mut self, chunk: &Json) -> Result<Vec<Json>, Unmaskable> {
        let mut other = chunk.clone();
        let choice = at(&mut other, &["choices", "0"]);
        let Some(Json::Object(choice)) = choice else { return Ok(vec![self.value(chunk)?]) };
        // Each of its tokens is a piece of the text.
        let had_tokens = choice.insert("logprobs".into(), Json::Null).is_some();
        if !had_tokens {
            choice.remove("logprobs");
        }
        // Some servers say in every chunk that the message goes on: with an empty reason.
        let goes_on = |reason: &Json| *reason == Json::Null || *reason == Json::from("");
        let is_last = choice.get("finish_reason").is_some_and(|reason| !goes_on(reason));
        // Some servers end a message without a delta: the rests of its texts leave in one.
        if is_last && choice.get("delta").is_none_or(|delta| *delta == Json::Null) {
            choice.insert("delta".into(), Json::Object(BTreeMap::new()));
        }
        let Some(Json::Object(delta)) = choice.get_mut("delta") else {
            return Ok(vec![self.value(&other)?]);
        };
        let is_cut = |(name, value): (&String, &Json)| {
            !CHAT_CALLS.contains(&name.as_str()) && has_nested_text(value)
        };
        if !self.opaque && delta.iter().any(is_cut) {
            return Err(Unmaskable::Unscanned);
        }
        let is_text = |(name, value): &(&String, &mut Json)| {
            matches!(value, Json::String(text) if !text.is_empty()) && *name != "role"
        };
        let mut given = BTreeMap::new();
        for (name, value) in delta.iter_mut().filter(is_text) {
            if let Json::String(text) = std::mem::take(value) {
                given.insert(name.clone(), text);
            }
        }
        let calls: BTreeMap<String, Json> = CHAT_CALLS
            .into_iter()
            .filter_map(|name| delta.remove_entry(name))
            .filter(|(_, calls)| *calls != Json::Null)
            .collect();
        let said = self.said(&given, is_last || !calls.is_empty())?;
        let is_needed = is_last || !calls.is_empty() || has_more(&other);
        if said.is_empty() && !given.is_empty() && !is_needed {
            return Ok(Vec::new());
        }
        let mut masked = self.value(&other)?;
        if let Some(Json::Object(delta)) = at(&mut masked, &["choices", "0", "delta"]) {
            delta.extend(given.into_keys().map(|name| (name, Json::from(""))));
            delta.extend(said.into_iter().map(|(name, text)| (name, Json::from(text))));
            delta.extend(calls);
        }
        Ok(vec![masked])
    }

    /// What a message says with these pieces, by member; `pauses`: all of it.
    fn said(
        &mut self,
        given: &BTreeMap<String, String>,
        pauses: bool,
    ) -> Result<BTreeMap<String, String>, Unmaskable> {
        let mut said = BTreeMap::new();
        for (name, piece) in given {
            let text = self.push(TextPlace(0, 0, name.clone()), piece, &Json::Null)?;
            said.insert(name.clone(), text);
        }
        for (TextPlace(_, _, name), text) in self.texts.iter_mut().filter(|_| pauses) {
            let rest = text.window.flush()?;
            said.entry(name.clone()).or_default().push_str(&rest);
        }
        said.retain(|_, text| !text.is_empty());
        Ok(said)
    }

    /// An event of a message.
    fn message_event(&mut self, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        let kind = event.get("type").and_then(Json::as_str).unwrap_or_default();
        let index = event.get("index").and_then(Json::as_u64).unwrap_or_default();
        let member = match kind {
            "content_block_start" => "content_block",
            "content_block_delta" => "delta",
            "content_block_stop" => {
                let mut events = self.flush(|place| place.0 == index, delta_of_block)?;
                events.push(self.value(event)?);
                return Ok(events);
            }
            _other => return Ok(vec![self.value(event)?]),
        };
        let block = event.get(member);
        if kind == "content_block_start" && block.is_some_and(|block| is_kind(block, "tool_use")) {
            self.tool_uses.insert(index);
        }
        if self.tool_uses.contains(&index) {
            return Ok(vec![event.clone()]);
        }
        let (mut other, mut said, mut given) = (event.clone(), BTreeMap::new(), false);
        for (name, piece) in block.and_then(Json::as_object).into_iter().flatten() {
            // A block begins with names and ids beside its texts; a delta has its piece alone.
            let is_piece = match kind {
                "content_block_start" => ["text", "thinking"].contains(&name.as_str()),
                _delta => !["type", "signature"].contains(&name.as_str()),
            };
            let Some(piece) = piece.as_str().filter(|_| is_piece) else { continue };
            let text = self.push(TextPlace(index, 0, name.clone()), piece, event)?;
            given |= !piece.is_empty();
            if let Some(place) = at(&mut other, &[member, name.as_str()]) {
                *place = Json::from("");
            }
            said.insert(name.as_str(), text);
        }
        if kind == "content_block_delta" && given && said.values().all(String::is_empty) {
            return Ok(Vec::new());
        }
        let mut masked = self.value(&other)?;
        for (name, text) in said {
            if let Some(place) = at(&mut masked, &[member, name]) {
                *place = Json::from(text);
            }
        }
        Ok(vec![masked])
    }

    /// An event of a response.
    fn response_event(&mut self, event: &Json) -> Result<Vec<Json>, Unmaskable> {
        let kind = event.get("type").and_then(Json::as_str).unwrap_or_default();
        if ARGUMENTS.iter().any(|stem| kind.starts_with(stem)) {
            return Ok(vec![event.clone()]);
        }
        let number = |name: &str| event.get(name).and_then(Json::as_u64);
        let (item, part) = (
            number("output_index"),
            number("content_index").or(number("summary_index")).unwrap_or_default(),
        );
        let piece = event.get("delta").and_then(Json::as_str);
        if let (Some(stem), Some(piece)) = (kind.strip_suffix(".delta"), piece) {
            let place = TextPlace(item.unwrap_or_default(), part, stem.to_owned());
            let mut other = event.clone();
            set(&mut other, "delta", "".into());
            drop_tokens(&mut other);
            let text = self.push(place, piece, &other)?;
            if text.is_empty() && !piece.is_empty() {
                return Ok(Vec::new());
            }
            let mut masked = self.value(&other)?;
            set(&mut masked, "delta", Json::from(text));
            return Ok(vec![masked]);
        }
        let stem = kind.strip_suffix(".done");
        let ends = kind.starts_with("response.output_item.") || ENDS.contains(&kind);
        let is_over = |place: &TextPlace| {
            let is_here = item.is_none_or(|item| item == place.0);
            is_here && (ends || stem == Some(place.2.as_str()) && place.1 == part)
        };
        let mut events = self.flush(is_over, |event, _, rest| set(event, "delta", rest))?;
        events.push(self.repeated(event)?);
        Ok(events)
    }

    /// An event that repeats what came in pieces, masked but for its tool calls.
    fn repeated(&mut self, event: &Json) -> Result<Json, Unmaskable> {
        let mut other = event.clone();
        let mut calls = BTreeMap::new();
        if let Some(item) = at(&mut other, &["item"]).filter(|item| is_call(item)) {
            calls.insert(None, std::mem::take(item));
        }
        if let Some(Json::Array(items)) = at(&mut other, &["response", "output"]) {
            let found = items.iter_mut().enumerate().filter(|(_, item)| is_call(item));
            calls.extend(found.map(|(number, item)| (Some(number), std::mem::take(item))));
        }
        drop_tokens(&mut other);
        let mut masked = self.value(&other)?;
        for (number, call) in calls {
            let place = match number {
                None => at(&mut masked, &["item"]),
                Some(number) => match at(&mut masked, &["response", "output"]) {
                    Some(Json::Array(items)) => items.get_mut(number),
                    Some(_) | None => None,
                },
            };
            if let Some(place) = place {
                *place = call;
            }
        }
        Ok(masked)
    }
}

/// The policy masks what the firewall cannot find.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the answer must be masked of `{0}`, an unknown kind")]
pub(super) struct UnknownKind(String);

fn is_kind(value: &Json, kind: &str) -> bool {
    value.get("type").and_then(Json::as_str) == Some(kind)
}

/// Whether an item of a response asks for a tool of the agent.
fn is_call(item: &Json) -> bool {
    CALLS.iter().any(|kind| is_kind(item, kind))
}

/// Empties the lists of tokens in a part of an answer: each token is a piece of its text.
fn drop_tokens(part: &mut Json) {
    match part {
        Json::Object(members) => {
            for (name, value) in members {
                if name == "logprobs" && *value != Json::Null {
                    *value = Json::from(Vec::new());
                } else {
                    drop_tokens(value);
                }
            }
        }
        Json::Array(items) => items.iter_mut().for_each(drop_tokens),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => {}
    }
}

/// Whether a member of a message has text in parts of it.
fn has_nested_text(value: &Json) -> bool {
    let has = |value: &Json| value.as_str().is_some_and(|text| !text.is_empty());
    match value {
        Json::Array(items) => items.iter().any(|item| has(item) || has_nested_text(item)),
        Json::Object(members) => members.iter().any(|(name, value)| {
            TEXTS.contains(&name.as_str()) && has(value) || has_nested_text(value)
        }),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => false,
    }
}

/// Whether a chunk whose texts were taken out has something to say.
fn has_more(chunk: &Json) -> bool {
    let usage = chunk.get("usage").is_some_and(|usage| *usage != Json::Null);
    let choice = chunk.get("choices").and_then(Json::as_array).and_then(<[Json]>::first);
    let delta = choice.and_then(|choice| choice.get("delta")).and_then(Json::as_object);
    let is_something = |value: &Json| *value != Json::Null && *value != Json::from("");
    usage || delta.is_some_and(|delta| delta.values().any(is_something))
}

/// The rest of a text of a block, as an event of its own.
fn delta_of_block(event: &mut Json, place: &TextPlace, rest: Json) {
    let TextPlace(index, _, member) = place;
    let kind = event.get("delta").and_then(|delta| delta.get("type")).and_then(Json::as_str);
    let kind = kind.map_or_else(|| format!("{member}_delta"), str::to_owned);
    let delta = Json::object([("type", Json::from(kind)), (member.as_str(), rest)]);
    *event = Json::object([
        ("type", Json::from("content_block_delta")),
        ("index", Json::from(*index)),
        ("delta", delta),
    ]);
}

/// The value at a place: members by name, items by number.
fn at<'a>(value: &'a mut Json, path: &[&str]) -> Option<&'a mut Json> {
    path.iter().try_fold(value, |value, step| match value {
        Json::Object(members) => members.get_mut(*step),
        Json::Array(items) => items.get_mut(step.parse::<usize>().ok()?),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => None,
    })
}

fn set(value: &mut Json, name: &str, member: Json) {
    if let Json::Object(members) = value {
        members.insert(name.to_owned(), member);
    }
}

fn set_if(value: &mut Json, name: &str, member: Json) {
    if let Some(place) = at(value, &[name]) {
        *place = member;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::catalog::llm::answer::{self, AnswerRules, Assembled, Step};
    use crate::domain::json::json;

    const TEXT: &str = "Write to ann@example.com, or pay with 4111 1111 1111 1111 in 2026: thanks.";
    const MASKED: &str = "Write to [REDACTED:email], or pay with [REDACTED:card] in 2026: thanks.";

    fn mask(dialect: Dialect) -> EventMask {
        let kinds = vec!["card".to_owned(), "email".to_owned()];
        let obligations = [PolicyObligation::Redact { kinds, opaque: false }];
        EventMask::of(dialect, &obligations).unwrap().unwrap()
    }

    fn event(name: Option<&str>, data: &Json) -> Event {
        Event { name: name.map(str::to_owned), id: None, data: canonical::text(data) }
    }

    /// A stream in this dialect whose one text comes in these pieces.
    fn events(dialect: Dialect, pieces: &[String]) -> Vec<Event> {
        let text = pieces.concat();
        let all = match dialect {
            Dialect::Chat => {
                let chunk = |delta: Json, finish: Json| {
                    let choice = Json::object([
                        ("index", Json::from(0_u64)),
                        ("delta", delta),
                        ("finish_reason", finish),
                    ]);
                    json!({"id": "c", "choices": [choice.to_serde()]})
                };
                let delta = |piece: &String| json!({"content": piece});
                let mut all: Vec<Json> =
                    pieces.iter().map(|piece| chunk(delta(piece), Json::Null)).collect();
                all.push(chunk(json!({}), "stop".into()));
                let mut all: Vec<Event> = all.iter().map(|chunk| event(None, chunk)).collect();
                all.push(Event { name: None, id: None, data: "[DONE]".into() });
                return all;
            }
            Dialect::Messages => {
                let mut all = vec![
                    json!({"type": "message_start", "message": {"id": "m", "content": []}}),
                    json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
                ];
                all.extend(pieces.iter().map(|piece| {
                    json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})
                }));
                all.push(json!({"type": "content_block_stop", "index": 0}));
                all.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}));
                all.push(json!({"type": "message_stop"}));
                all
            }
            Dialect::Responses => {
                let item = json!({"type": "message", "id": "i", "content": [{"type": "output_text", "text": text}]});
                let mut all = vec![
                    json!({"type": "response.created", "response": {"id": "r", "output": []}}),
                    json!({"type": "response.output_item.added", "output_index": 0, "item": {"type": "message", "id": "i"}}),
                ];
                all.extend(pieces.iter().map(|piece| {
                    json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": piece})
                }));
                all.push(json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": text}));
                all.push(json!({"type": "response.output_item.done", "output_index": 0, "item": item.to_serde()}));
                all.push(json!({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [item.to_serde()]}}));
                all
            }
        };
        let named = all.iter().map(|one| event(one.get("type").and_then(Json::as_str), one));
        named.collect()
    }

    /// What leaves of a stream, and what it is at its end.
    fn left(dialect: Dialect, events: Vec<Event>) -> (String, Assembled) {
        let mut mask = mask(dialect);
        let mut reader =
            answer::stream(dialect, AnswerRules { renumber: true, ..AnswerRules::default() });
        let mut said = String::new();
        for event in events {
            for event in mask.event(event).unwrap() {
                for step in reader.event(&event).unwrap() {
                    match step {
                        Step::Frame { texts, .. } => {
                            said.extend(texts.into_iter().map(|piece| piece.text));
                        }
                        Step::Call(_) | Step::Hold => {}
                    }
                }
            }
        }
        let (_, assembled) = reader.finish().unwrap();
        mask.verify(&assembled.json).unwrap();
        (said, assembled)
    }

    fn cut(text: &str, sizes: &[usize]) -> Vec<String> {
        let mut chars = text.chars();
        let pieces = sizes.iter().cycle().map(|size| chars.by_ref().take(*size).collect());
        pieces.take_while(|piece: &String| !piece.is_empty()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn a_stream_in_any_pieces_is_the_answer_masked_as_a_whole(
            sizes in prop::collection::vec(1_usize..20, 1..6),
        ) {
            for dialect in Dialect::ALL {
                let (said, assembled) = left(*dialect, events(*dialect, &cut(TEXT, &sizes)));
                prop_assert_eq!(&said, MASKED);
                let (_, whole) = left(*dialect, events(*dialect, &[TEXT.to_owned()]));
                prop_assert_eq!(&assembled, &whole, "{:?}", dialect);
                let json = String::from_utf8(assembled.json).unwrap();
                prop_assert!(json.contains(MASKED), "{}", json);
            }
        }
    }

    #[test]
    fn the_tokens_of_a_text_do_not_leave_beside_it() {
        let mut mask = mask(Dialect::Chat);
        let tokens = json!({"content": [{"token": "ann@"}, {"token": "example.com"}]});
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": "ann@example.com is"},
            "logprobs": tokens.to_serde()}]});
        let left = mask.event(event(None, &chunk)).unwrap();
        let data = &left.first().unwrap().data;
        assert!(data.contains("[REDACTED:email] ") && !data.contains("example"), "{data}");
        assert_eq!(mask.masked(), 1);
    }

    #[test]
    fn the_tokens_of_a_response_leave_in_no_event_and_in_no_whole_answer() {
        let tokens = json!([{"token": "ann@"}, {"token": "example.com"}]);
        let part = json!({"type": "output_text", "text": "hello", "logprobs": tokens.to_serde()});
        let item = json!({"type": "message", "id": "i", "content": [part.to_serde()]});
        let response = json!({"id": "r", "output": [item.to_serde()]});
        let events = [
            json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0,
                "delta": "hello there", "logprobs": tokens.to_serde()}),
            json!({"type": "response.content_part.done", "output_index": 0, "part": part.to_serde()}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item.to_serde()}),
            json!({"type": "response.completed", "response": response.to_serde()}),
        ];
        let of_chat = mask(Dialect::Chat);
        let mut mask = mask(Dialect::Responses);
        for one in &events {
            let left = mask.event(event(None, one)).unwrap();
            assert!(!left.is_empty(), "{one:?}");
            for event in left {
                assert!(!event.data.contains("ann@"), "{event:?}");
                assert!(event.data.contains("\"logprobs\":[]"), "{event:?}");
            }
        }
        let whole = mask.without_tokens(canonical::bytes(&response));
        assert!(!String::from_utf8(whole).unwrap().contains("ann@"));
        let chat = json!({"choices": [{"index": 0, "logprobs": {"content": tokens.to_serde()}}]});
        let whole = String::from_utf8(of_chat.without_tokens(canonical::bytes(&chat))).unwrap();
        assert_eq!(whole, r#"{"choices":[{"index":0,"logprobs":null}]}"#);
    }

    #[test]
    fn the_rest_of_a_text_leaves_with_a_finish_reason_that_has_no_delta() {
        let ends = [
            r#"{"index":0,"finish_reason":"stop"}"#,
            r#"{"index":0,"delta":null,"finish_reason":"stop"}"#,
        ];
        for end in ends {
            let mut mask = mask(Dialect::Chat);
            let chunk = json!({"choices": [{"index": 0, "delta": {"content": "so long"}}]});
            let left = mask.event(event(None, &chunk)).unwrap();
            assert!(!left.first().unwrap().data.contains("long"), "{left:?}");
            let data = format!("{{\"choices\":[{end}]}}");
            let left = mask.event(Event { name: None, id: None, data }).unwrap();
            assert!(left.first().unwrap().data.contains("\"content\":\"long\""), "{left:?}");
        }
    }

    #[test]
    fn an_event_of_more_values_than_a_request_may_have_is_masked() {
        let pad = "[],".repeat(1_000_001);
        let choice = r#"{"index":0,"delta":{"content":"ann@example.com is"}}"#;
        let data = format!("{{\"pad\":[{pad}[]],\"choices\":[{choice}]}}");
        let left = mask(Dialect::Chat).event(Event { name: None, id: None, data }).unwrap();
        assert!(!left.first().unwrap().data.contains("ann@"));
    }

    #[test]
    fn a_tool_call_does_not_leave_under_a_name_that_must_be_masked_nor_its_denial() {
        let call = |id: &str, name: &str| AnsweredCall {
            index: 0,
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: "{}".to_owned(),
            custom: false,
        };
        let mut mask = mask(Dialect::Chat);
        assert_eq!(mask.refuse_named(&call("call_1", "bash")), Ok(()));
        for named in [call("call_1", "4111-1111-1111-1111"), call("ann@example.com", "bash")] {
            assert_eq!(mask.refuse_named(&named), Err(Unmaskable::Named));
        }
        let words = mask.text("the tool 4111-1111-1111-1111 is not known").unwrap();
        assert_eq!(words, "the tool [REDACTED:card] is not known");
        assert_eq!(mask.masked(), 1);
    }

    #[test]
    fn a_tool_call_passes_as_it_is_and_its_arguments_are_masked_apart() {
        let mut mask = mask(Dialect::Messages);
        let start = json!({"type": "content_block_start", "index": 1,
            "content_block": {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}});
        let delta = json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "input_json_delta", "partial_json": "{\"to\":\"ann@example.com\"}"}});
        for part in [start, delta] {
            let came = event(part.get("type").and_then(Json::as_str), &part);
            assert_eq!(mask.event(came.clone()).unwrap(), [came]);
        }
        let masked = mask.arguments(r#"{"to": "ann@example.com"}"#).unwrap();
        assert_eq!(masked.as_deref(), Some(r#"{"to":"[REDACTED:email]"}"#));
        assert_eq!(mask.arguments(r#"{"to": "ann"}"#).unwrap(), None);
        assert_eq!(mask.arguments("to ann@example.com").unwrap().unwrap(), "to [REDACTED:email]");
    }

    #[test]
    fn a_text_in_parts_of_a_member_does_not_leave() {
        let parts = json!([{"type": "text", "text": "ann@"}]);
        let chunk = json!({"choices": [{"index": 0, "delta": {"content": parts.to_serde()}}]});
        let left = mask(Dialect::Chat).event(event(None, &chunk));
        assert_eq!(left.unwrap_err(), Unmaskable::Unscanned);
        let bare = json!({"choices": [{"index": 0, "delta": {"annotations": [{"url": "u"}]}}]});
        assert_eq!(mask(Dialect::Chat).event(event(None, &bare)).unwrap().len(), 1);
    }

    #[test]
    fn a_kind_that_cannot_be_found_lets_nothing_leave() {
        let obligations =
            [PolicyObligation::Redact { kinds: vec!["tarot".to_owned()], opaque: true }];
        assert!(EventMask::of(Dialect::Chat, &obligations).is_err());
        assert!(EventMask::of(Dialect::Chat, &[]).unwrap().is_none());
    }
}
