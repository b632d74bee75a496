//! Masks what the policy masks in the events of a streamed answer, before they are read as one.
//!
//! The texts of an answer come in pieces, and a finding may come in several of them. Each text has a
//! window: a piece leaves once nothing that follows can make it a part of a finding. Clients put the
//! texts of one kind together, so a window goes on from one block to the next. What ends a block waits,
//! with all behind it, until the text that follows shows that no finding goes on there. All else is
//! masked event by event. Tool calls pass: they are masked whole, when they are judged.

mod chat;
mod gemini;
mod messages;
mod ollama;
mod responses;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::exchange::length;
use crate::catalog::llm::answer::AnsweredCall;
use crate::catalog::llm::sse::Event;
use crate::domain::canonical;
use crate::domain::decision::PolicyObligation;
use crate::domain::dialect::Dialect;
use crate::domain::json::{Json, Limits};
use crate::firewall::{self, RedactWindow, Unmaskable};

/// The items of a response that ask for tools of the agent.
const CALLS: [&str; 3] = ["function_call", "custom_tool_call", "local_shell_call"];
/// Members of parts of a message that hold its text. No window follows a text into parts.
const TEXTS: [&str; 7] =
    ["content", "reasoning", "refusal", "summary", "text", "thinking", "transcript"];

/// The answers of a dialect, as they are masked. Each has its own module.
trait MaskedDialect: std::fmt::Debug + Sync {
    /// What may leave because of an event.
    fn event(&self, mask: &mut EventMask, event: &Json) -> Result<Vec<Json>, Unmaskable>;

    /// Whether no text of the answer follows an event. WHY any: a text pauses only where it ends, unless
    /// its blocks have ends of their own.
    fn is_end(&self, _event: &Json) -> bool {
        true
    }

    /// Takes the single tokens out of a whole answer.
    fn drop_tokens(&self, _answer: &mut Json) {}
}

fn masked(dialect: Dialect) -> &'static dyn MaskedDialect {
    match dialect {
        Dialect::Chat => &chat::ChatMask,
        Dialect::Responses => &responses::ResponsesMask,
        Dialect::Messages => &messages::MessagesMask,
        Dialect::Gemini => &gemini::GeminiMask,
        Dialect::Ollama => &ollama::OllamaMask,
    }
}

/// The masks of one streamed answer.
#[derive(Debug)]
pub(super) struct EventMask {
    dialect: &'static dyn MaskedDialect,
    kinds: Vec<String>,
    /// Whether what cannot be looked through may leave.
    opaque: bool,
    /// The texts that have begun, by the member or the kind of event that they are in.
    texts: BTreeMap<String, MaskedText>,
    /// Where texts stood that went on elsewhere.
    behind: BTreeSet<(String, TextPlace)>,
    /// The blocks of a message that ask for tools of the agent.
    tool_uses: BTreeSet<u64>,
    /// The events behind a text that paused.
    waiting: VecDeque<Event>,
    /// Bytes of these. WHY counted: they are asked for with every event, and many may wait.
    waiting_bytes: u64,
    masked: u64,
}

/// Where a text stands: the block or item, and the part of it.
type TextPlace = (u64, u64);

/// One text of an answer, in all its blocks.
#[derive(Debug)]
struct MaskedText {
    window: RedactWindow,
    /// Where it goes on.
    place: TextPlace,
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
        for (more, opaque) in obligations.iter().filter_map(PolicyObligation::redacts) {
            kinds.extend(more.iter().cloned());
            all_opaque &= opaque;
            masks = true;
        }
        if let Some(unknown) = kinds.iter().find(|kind| !firewall::is_kind(kind)) {
            return Err(UnknownKind(unknown.clone()));
        }
        let mask = Self {
            dialect: masked(dialect),
            kinds,
            opaque: all_opaque,
            texts: BTreeMap::new(),
            behind: BTreeSet::new(),
            tool_uses: BTreeSet::new(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            masked: 0,
        };
        Ok(masks.then_some(mask))
    }

    /// The number of findings that were masked.
    pub fn masked(&self) -> u64 {
        let texts = self.texts.values().map(|text| text.window.masked());
        texts.fold(self.masked, u64::saturating_add)
    }

    /// Bytes of the events that came and wait for what follows.
    pub const fn waiting(&self) -> u64 {
        self.waiting_bytes
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
        let masked = self.dialect.event(self, &json)?;
        let Event { name, id, data } = event;
        let is_error = is_error(name.as_deref(), &json);
        let framed = masked.into_iter().map(|leaves| {
            // What was not changed keeps its bytes.
            let data = if leaves == json { data.clone() } else { canonical::text(&leaves) };
            let kind = leaves.get("type").and_then(Json::as_str);
            let name = name.as_ref().map(|name| kind.unwrap_or(name).to_owned());
            Event { name, id: id.clone(), data }
        });
        // The answer is over: nothing of what waits leaves.
        if is_error {
            return Ok(framed.collect());
        }
        for event in framed {
            self.waiting_bytes = self.waiting_bytes.saturating_add(length(&event.data));
            self.waiting.push_back(event);
        }
        let mut texts = self.texts.iter();
        if texts.any(|(kind, text)| is_open(kind, &text.window)) && !self.dialect.is_end(&json) {
            return Ok(Vec::new());
        }
        self.waiting_bytes = 0;
        Ok(std::mem::take(&mut self.waiting).into())
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
        self.dialect.drop_tokens(&mut json);
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

    /// Looks through the texts of a whole answer before it is masked text by text.
    ///
    /// # Errors
    /// A finding goes on from one of them into the next.
    pub fn joined(&self, texts: &[(&str, &str)]) -> Result<(), Unmaskable> {
        let mut windows: BTreeMap<&str, RedactWindow> = BTreeMap::new();
        for &(kind, text) in texts {
            let window = windows.entry(kind);
            let window = window.or_insert_with(|| RedactWindow::new(&self.kinds, self.opaque));
            window.push(text)?;
            window.flush()?;
        }
        Ok(())
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
    fn push(
        &mut self,
        kind: &str,
        place: TextPlace,
        piece: &str,
        event: &Json,
    ) -> Result<String, Unmaskable> {
        let (kinds, opaque) = (&self.kinds, self.opaque);
        let text = self.texts.entry(kind.to_owned()).or_insert_with(|| MaskedText {
            window: RedactWindow::new(kinds, opaque),
            place,
            newest: Json::Null,
        });
        if text.place != place {
            self.behind.insert((kind.to_owned(), text.place));
            // WHY: the window follows one text. Where two of a kind come in turns, it sees neither.
            if self.behind.contains(&(kind.to_owned(), place)) {
                return Err(Unmaskable::Mixed);
            }
            text.place = place;
        }
        text.newest = event.clone();
        text.window.push(piece)
    }

    /// Ends the texts of a block, of one part of it or of all: the events with their rests.
    fn flush(
        &mut self,
        is_over: impl Fn(&str, TextPlace) -> bool,
        with: impl Fn(&mut Json, (&str, TextPlace), Json),
    ) -> Result<Vec<Json>, Unmaskable> {
        let mut events = Vec::new();
        for (kind, text) in self.texts.iter_mut().filter(|(kind, text)| is_over(kind, text.place)) {
            let rest = text.window.flush()?;
            if !rest.is_empty() {
                let mut event = text.newest.clone();
                with(&mut event, (kind, text.place), Json::from(rest));
                events.push(event);
            }
        }
        Ok(events)
    }

    /// Refuses texts that no window follows.
    fn refuse(&self, has_texts: impl FnOnce() -> bool) -> Result<(), Unmaskable> {
        if !self.opaque && has_texts() { Err(Unmaskable::Unscanned) } else { Ok(()) }
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
        Json::Object(members) => members.iter().any(says),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => false,
    }
}

/// Whether what comes behind a text has to wait. WHY not behind any word of what a model thinks: it
/// seldom goes on, and its answer would wait for its end. A word is no more than a name in front of an
/// address, which does not leave.
fn is_open(kind: &str, window: &RedactWindow) -> bool {
    let is_thought = ["thinking", "reasoning"].iter().any(|thought| kind.contains(thought));
    if is_thought { window.is_open_behind_more_than_a_word() } else { window.is_open() }
}

/// Whether a member of an answer holds a text of it, by its name or in parts of it.
fn says((name, value): (&String, &Json)) -> bool {
    match value {
        Json::String(text) => TEXTS.contains(&name.as_str()) && !text.is_empty(),
        Json::Array(items) => items.iter().any(|item| says((name, item))),
        Json::Object(members) => members.iter().any(says),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => false,
    }
}

/// Whether an event reports an error in place of the rest of the answer.
fn is_error(name: Option<&str>, event: &Json) -> bool {
    let kind = event.get("type").and_then(Json::as_str);
    let is_bare = kind.is_none() && event.get("error").is_some_and(|error| *error != Json::Null);
    name == Some("error") || kind == Some("error") || is_bare
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
