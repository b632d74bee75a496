//! Taint of runs: what they have read, and what of that is in a later call.
//!
//! Labels come with the answers of tools and are on the ledger. The marks of the answers, by which a
//! copied passage is found again, are in memory only. They find copies and no paraphrases.

mod marks;
mod own;
mod private;
mod reading;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use marks::{Mark, MarkKey};
use own::{OwnMarks, UnmarkedCalls};
use parking_lot::Mutex;
pub use reading::{Reading, ReadingCopy, SharedReading, add_labels};

use crate::catalog::web_url;
use crate::domain::call::ToolCall;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::{Json, Limits};
use crate::domain::pointer;
use crate::domain::taint::{Label, LabelOrigin, TaintSpan};
use crate::policy::flow::{FlowFloor, TaintFacts};

/// The labels whose content is looked for in later calls.
const COMPARED: [Label; 2] = [Label::Untrusted, Label::Private];
/// Marks that a run keeps of what brought one label.
const MARKS_MAX: usize = 4096;
/// Marks that it keeps of one answer.
const ANSWER_MARKS: usize = 2048;
/// Bytes of arguments of which the agent's own words are kept.
const OWN_BYTES: usize = 64 << 10;
/// Marks of a call that are looked up at a time: other runs of the caller wait meanwhile.
const LOOKED_UP: usize = 4096;
/// Passages that are found in one call.
const SPANS_MAX: usize = 64;

/// The marks of answers and calls of this process.
#[derive(Debug)]
pub struct Marker {
    key: MarkKey,
}

/// What the answer of one call brought, with its marks.
#[derive(Debug)]
pub struct TaintSource {
    origin: LabelOrigin,
    labels: BTreeSet<Label>,
    marks: Box<[u64]>,
}

/// The taint of one run.
#[derive(Debug, Default)]
pub struct Taint {
    /// What it has read, with the other runs that know it.
    reading: SharedReading,
    /// What the agent said before it could have read it.
    own: OwnMarks,
    /// What it said before it had read anything, the newest last: marks are made once they are needed.
    unread: UnmarkedCalls,
    /// The newest order that took labels away.
    cleared: u64,
}

/// The texts of a call, each with its marks.
#[derive(Debug, Default)]
pub struct CallMarks {
    texts: Vec<MarkedText>,
}

#[derive(Debug)]
struct MarkedText {
    path: String,
    marks: Vec<Mark>,
    /// Whether the marks have places in the text at this path.
    has_places: bool,
    len: usize,
}

impl Marker {
    /// With a secret of this process.
    #[must_use]
    pub fn new(secret: &[u8]) -> Self {
        Self { key: MarkKey::of(&Digest::of(&[b"wicketgate/taint/1\0", secret])) }
    }

    /// The marks of the arguments of a call.
    #[must_use]
    pub fn call(&self, call: &ToolCall) -> CallMarks {
        self.of(call.args())
    }

    fn of(&self, args: &Json) -> CallMarks {
        let mut marks = CallMarks::default();
        self.value(args, "", &mut marks);
        marks
    }

    fn value(&self, value: &Json, path: &str, found: &mut CallMarks) {
        match value {
            Json::Null | Json::Bool(_) => {}
            Json::Int(_) | Json::Float(_) => {
                self.text(&scalar(value).unwrap_or_default(), path, false, found);
            }
            Json::String(text) => {
                self.text(text, path, true, found);
                let plain = text.contains('%').then(|| web_url::unescaped(text));
                if let Some(plain) = plain.filter(|plain| plain != text) {
                    self.text(&plain, path, false, found);
                }
            }
            Json::Array(items) => {
                self.row(items.iter(), path, found);
                for (i, item) in items.iter().enumerate().filter(|(_, item)| may_have_marks(item)) {
                    self.value(item, &format!("{path}/{i}"), found);
                }
            }
            Json::Object(members) => {
                self.row(members.values(), path, found);
                for (name, member) in members {
                    // WHY at the object: a name that is a copy must not be in an entry.
                    let before = found.texts.len();
                    self.text(name, path, false, found);
                    let is_plain = found.texts.len() == before;
                    if may_have_marks(member) {
                        let below = is_plain.then(|| format!("{path}/{}", pointer::step(name)));
                        self.value(member, below.as_deref().unwrap_or(path), found);
                    }
                }
            }
        }
    }

    /// Short values side by side.
    fn row<'a>(
        &self,
        values: impl Iterator<Item = &'a Json> + Clone,
        path: &str,
        found: &mut CallMarks,
    ) {
        if is_row(values.clone()) {
            self.text(&joined(values), path, false, found);
        }
    }

    fn text(&self, text: &str, path: &str, has_places: bool, found: &mut CallMarks) {
        if text.len() < marks::BYTES_MIN {
            return;
        }
        let marks = marks::every(self.key, text);
        if !marks.is_empty() {
            let (path, len) = (path.to_owned(), text.len());
            found.texts.push(MarkedText { path, marks, has_places, len });
        }
    }

    /// What an answer of a call brings: its labels, and marks of what it holds.
    #[must_use]
    pub fn source(
        &self,
        (run, call): (RunId, CallId),
        labels: &[Label],
        answer: &[u8],
    ) -> TaintSource {
        let mut kept = Vec::new();
        let is_compared = labels.iter().any(|label| COMPARED.contains(label));
        let texts = if is_compared { texts(answer) } else { Vec::new() };
        let all: usize = texts.iter().map(String::len).sum();
        for text in &texts {
            // Each text gets its part of the marks, and small ones what they need.
            let part = ANSWER_MARKS.saturating_mul(text.len()) / all.max(1);
            kept.extend(marks::kept(self.key, text, part.max(64)));
        }
        kept.sort_unstable();
        kept.dedup();
        let labels = labels.iter().copied().collect();
        TaintSource { origin: LabelOrigin { run, call }, labels, marks: kept.into() }
    }
}

/// Every text of an answer: its strings, its long numbers, and rows of values as one text.
fn texts(answer: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    match Json::parse(answer, &Limits::FILE) {
        Ok(value) => collect(&value, &mut all),
        Err(_) => all.push(String::from_utf8_lossy(answer).into_owned()),
    }
    all
}

fn collect(value: &Json, all: &mut Vec<String>) {
    match value {
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) => all.extend(scalar(value)),
        Json::String(text) => all.push(text.clone()),
        Json::Array(items) => {
            all.extend(is_row(items.iter()).then(|| joined(items.iter())));
            items.iter().for_each(|item| collect(item, all));
        }
        Json::Object(members) => {
            all.extend(is_row(members.values()).then(|| joined(members.values())));
            members.values().for_each(|member| collect(member, all));
        }
    }
}

fn scalar(value: &Json) -> Option<String> {
    match value {
        Json::Int(number) => Some(number.to_string()),
        Json::Float(number) => Some(number.to_string()),
        Json::String(text) => Some(text.clone()),
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Whether something in it is long enough for a mark.
fn may_have_marks(value: &Json) -> bool {
    match value {
        Json::Null | Json::Bool(_) => false,
        Json::Int(_) | Json::Float(_) | Json::Array(_) | Json::Object(_) => true,
        Json::String(text) => text.len() >= marks::BYTES_MIN,
    }
}

/// Whether these are two short values or more.
fn is_row<'a>(values: impl Iterator<Item = &'a Json>) -> bool {
    let is_short = |value: &&Json| match value {
        Json::Int(_) | Json::Float(_) => true,
        Json::String(text) => text.len() < marks::SHINGLE,
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => false,
    };
    values.filter(is_short).nth(1).is_some()
}

/// Short values side by side: a row, whose values alone are too short for a mark.
fn joined<'a>(values: impl Iterator<Item = &'a Json>) -> String {
    let short = values.filter_map(scalar).filter(|text| text.len() < marks::SHINGLE);
    short.collect::<Vec<_>>().join(" ")
}

impl Taint {
    /// The taint of a run that knows this.
    #[must_use]
    pub fn knowing(reading: Reading) -> Self {
        Self { reading: Arc::new(Mutex::new(reading)), ..Self::default() }
    }

    /// The taint of a run of an earlier process.
    #[must_use]
    pub fn recovered(labels: BTreeMap<Label, LabelOrigin>, cleared: u64) -> Self {
        let mut reading = Reading::default();
        reading.add(&ReadingCopy::recovered(labels));
        Self { cleared, ..Self::knowing(reading) }
    }

    /// What the run has read.
    #[must_use]
    pub const fn reading(&self) -> &SharedReading {
        &self.reading
    }

    /// The labels of that, each with the first call that brought it.
    #[must_use]
    pub fn labels(&self) -> BTreeMap<Label, LabelOrigin> {
        self.reading.lock().labels().clone()
    }

    /// What others get of that.
    #[must_use]
    pub fn copy(&self) -> ReadingCopy {
        self.reading.lock().copy()
    }

    /// Lets the run know what others know, in place of what it knew.
    pub fn share(&mut self, reading: &SharedReading) {
        self.reading = Arc::clone(reading);
    }

    /// Notes what the agent says in a call, as far as it is no copy of what it read.
    pub fn note(&mut self, call: &CallMarks, args_bytes: usize) {
        if args_bytes > OWN_BYTES {
            return;
        }
        for marks in call.marks().collect::<Vec<_>>().chunks(LOOKED_UP) {
            let reading = self.reading.lock();
            let is_read =
                |hash| COMPARED.iter().any(|label| reading.source(*label, hash).is_some());
            self.own.extend(marks.iter().copied().filter(|hash| !is_read(*hash)));
        }
    }

    /// Keeps the canonical arguments of a call of a run that has read nothing: no mark of it is looked up.
    pub fn keep(&mut self, args: &[u8]) {
        if (marks::BYTES_MIN..=OWN_BYTES).contains(&args.len()) {
            self.unread.push(args);
        }
    }

    /// What an answer brings that the agent did not say itself.
    pub fn unsaid(&mut self, marker: &Marker, source: TaintSource) -> Arc<TaintSource> {
        for args in self.unread.take() {
            if let Ok(args) = Json::parse(&args, &Limits::FILE) {
                self.own.extend(marker.of(&args).marks());
            }
        }
        let TaintSource { origin, labels, marks } = source;
        let mut marks = marks.into_vec();
        marks.retain(|mark| !self.own.has(*mark));
        marks.truncate(ANSWER_MARKS);
        Arc::new(TaintSource { origin, labels, marks: marks.into() })
    }

    /// Takes everything away, by the order of this number. Others keep what they know.
    pub fn clear(&mut self, order: u64) {
        *self = Self { cleared: order, ..Self::default() };
    }

    /// The number of the newest order that took labels away; 0 if none did.
    #[must_use]
    pub const fn cleared(&self) -> u64 {
        self.cleared
    }

    /// What the run has read, and what of that is in this call.
    #[must_use]
    pub fn facts(&self, call: &CallMarks, floor: FlowFloor) -> TaintFacts {
        let (labels, unknown) = {
            let reading = self.reading.lock();
            (reading.labels().clone(), reading.is_unknown())
        };
        let mut spans = Vec::new();
        if !labels.is_empty() {
            for label in COMPARED {
                self.spans(label, call, &mut spans);
            }
        }
        TaintFacts { labels, spans, unknown, floor, recorded: None }
    }

    fn spans(&self, label: Label, call: &CallMarks, spans: &mut Vec<TaintSpan>) {
        let most = spans.len().saturating_add(SPANS_MAX);
        for text in &call.texts {
            let mut hits = self.hits(label, &text.marks);
            hits.sort_by_key(|(mark, _)| (mark.start, mark.end));
            let first = spans.len();
            for (mark, source) in hits {
                let (start, end) = match text.has_places {
                    true => (number(mark.start), number(mark.end)),
                    false => (0, number(text.len)),
                };
                // Neighbours are one passage.
                let same = spans.get_mut(first..).and_then(<[TaintSpan]>::last_mut);
                let is_same =
                    |last: &&mut TaintSpan| start <= last.end && last.origin == source.origin;
                if let Some(same) = same.filter(is_same) {
                    same.end = same.end.max(end);
                } else if spans.len() < most {
                    let (path, origin) = (text.path.clone(), source.origin.clone());
                    spans.push(TaintSpan { path, start, end, label, origin });
                }
            }
        }
    }

    /// The marks that an answer with this label had, each with that answer.
    fn hits<'a>(&self, label: Label, marks: &'a [Mark]) -> Vec<(&'a Mark, Arc<TaintSource>)> {
        let mut hits = Vec::new();
        for some in marks.chunks(LOOKED_UP) {
            let reading = self.reading.lock();
            let of = |mark: &'a Mark| Some((mark, Arc::clone(reading.source(label, mark.hash)?)));
            hits.extend(some.iter().filter_map(of));
        }
        hits
    }
}

impl CallMarks {
    fn marks(&self) -> impl Iterator<Item = u64> {
        self.texts.iter().flat_map(|text| &text.marks).map(|mark| mark.hash)
    }
}

fn number(place: usize) -> u64 {
    u64::try_from(place).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
