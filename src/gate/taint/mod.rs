//! Taint of runs: what they have read, and what of that is in a later call.
//!
//! Labels come with the answers of tools and are on the ledger. The marks of the answers, by which a
//! copied passage is found again, are in memory only. They find copies and no paraphrases.

mod marks;
mod private;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use marks::{Mark, MarkKey};
use zeroize::Zeroizing;

use crate::catalog::web_url;
use crate::domain::call::ToolCall;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::{Json, Limits};
use crate::domain::pointer;
use crate::domain::taint::{Label, LabelOrigin, TaintSpan};
use crate::policy::flow::{FlowFloor, TaintFacts};
use crate::record::debug_by;

/// The labels whose content is looked for in later calls.
const COMPARED: [Label; 2] = [Label::Untrusted, Label::Private];
/// Marks that a run keeps of what brought one label.
const MARKS_MAX: usize = 4096;
/// Marks that it keeps of one answer.
const ANSWER_MARKS: usize = 2048;
/// Marks of what the agent said itself.
const OWN_MARKS: usize = 4096;
/// Bytes of arguments of which the agent's own words are kept.
const OWN_BYTES: usize = 64 << 10;
/// Bytes that a kept call takes beside its arguments.
const CALL_BYTES: usize = 64;
/// Marks of a call that are looked up one by one, without a table of all that was read.
const LOOKED_UP: usize = 1024;
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
#[derive(Clone, Debug, Default)]
pub struct Taint {
    labels: BTreeMap<Label, LabelOrigin>,
    /// The oldest first.
    sources: VecDeque<Arc<TaintSource>>,
    /// Marks of all of them.
    marks: usize,
    /// Marks of what the agent said before it could have read it.
    own: BTreeSet<u64>,
    /// What it said before it had read anything, the newest last: marks are made once they are needed.
    unread: UnmarkedCalls,
    /// Labels were recovered, and what brought them is not known any more.
    unknown: bool,
    /// The newest order that took labels away.
    cleared: u64,
}

/// Arguments of calls without their marks.
#[derive(Clone, Default)]
struct UnmarkedCalls(VecDeque<Zeroizing<Vec<u8>>>);

debug_by!(UnmarkedCalls);

impl UnmarkedCalls {
    /// Keeps these, and of the others as many as a run has marks of.
    fn push(&mut self, args: &[u8]) {
        self.0.push_back(Zeroizing::new(args.to_vec()));
        let mut left = OWN_BYTES;
        let kept = self.0.iter().rev().take_while(|args| {
            let rest = left.checked_sub(args.len().saturating_add(CALL_BYTES));
            left = rest.unwrap_or_default();
            rest.is_some()
        });
        let kept = kept.count();
        self.0.drain(..self.0.len().saturating_sub(kept));
    }
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

    /// What an answer of a call brings: its labels, and marks of what is not among the agent's own words.
    #[must_use]
    pub fn source(
        &self,
        (run, call): (RunId, CallId),
        labels: &[Label],
        (answer, own): (&[u8], &BTreeSet<u64>),
    ) -> Arc<TaintSource> {
        let mut kept = Vec::new();
        let is_compared = labels.iter().any(|label| COMPARED.contains(label));
        let texts = if is_compared { texts(answer) } else { Vec::new() };
        let all: usize = texts.iter().map(String::len).sum();
        for text in &texts {
            // Each text gets its part of the marks, and small ones what they need.
            let part = ANSWER_MARKS.saturating_mul(text.len()) / all.max(1);
            let of_text = marks::kept(self.key, text, part.max(64));
            kept.extend(of_text.into_iter().filter(|mark| !own.contains(mark)));
        }
        kept.sort_unstable();
        kept.dedup();
        kept.truncate(ANSWER_MARKS);
        let labels = labels.iter().copied().collect();
        Arc::new(TaintSource { origin: LabelOrigin { run, call }, labels, marks: kept.into() })
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
    /// The taint that a new run begins with: that of the run above it, and what lingers of earlier
    /// runs of its caller.
    #[must_use]
    pub fn inherited<'a>(from: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut taint = Self::default();
        from.into_iter().for_each(|other| taint.add(other));
        taint.own.clear();
        taint
    }

    /// These labels, before the answers that bring them.
    #[must_use]
    pub fn labelled(labels: BTreeMap<Label, LabelOrigin>) -> Self {
        Self { labels, ..Self::default() }
    }

    /// The taint of a run of an earlier process.
    #[must_use]
    pub fn recovered(labels: BTreeMap<Label, LabelOrigin>, cleared: u64) -> Self {
        let unknown = !labels.is_empty();
        Self { labels, unknown, cleared, ..Self::default() }
    }

    /// What other runs of the caller have of it; `None`: nothing. The agent's own words stay with the run.
    #[must_use]
    pub fn shared(&self) -> Option<Self> {
        let Self { labels, sources, marks, unknown, .. } = self;
        let (labels, sources) = (!labels.is_empty()).then(|| (labels.clone(), sources.clone()))?;
        Some(Self { labels, sources, marks: *marks, unknown: *unknown, ..Self::default() })
    }

    /// Adds the taint of another run.
    pub fn add(&mut self, other: &Self) {
        for (label, origin) in &other.labels {
            self.labels.entry(*label).or_insert_with(|| origin.clone());
        }
        self.unknown |= other.unknown;
        let known: BTreeSet<_> = self.sources.iter().map(Arc::as_ptr).collect();
        let more = other.sources.iter().filter(|source| !known.contains(&Arc::as_ptr(source)));
        let more: Vec<_> = more.cloned().collect();
        let marks: usize = more.iter().map(|source| source.marks.len()).sum();
        self.marks = self.marks.saturating_add(marks);
        self.sources.extend(more);
        self.forget_old();
    }

    /// Adds what an answer brought.
    pub fn bring(&mut self, source: &Arc<TaintSource>) {
        for label in &source.labels {
            self.labels.entry(*label).or_insert_with(|| source.origin.clone());
        }
        let is_known = self.sources.iter().any(|known| known.origin == source.origin);
        if !source.marks.is_empty() && !is_known {
            self.marks = self.marks.saturating_add(source.marks.len());
            self.sources.push_back(Arc::clone(source));
            self.forget_old();
        }
    }

    /// Keeps the newest marks of each label.
    fn forget_old(&mut self) {
        if self.marks <= MARKS_MAX {
            return;
        }
        // WHY by label: what is untrusted must not push out what is private.
        let mut kept: BTreeMap<Label, usize> = BTreeMap::new();
        let mut stay = VecDeque::new();
        while let Some(source) = self.sources.pop_back() {
            let mut stays = false;
            for label in &source.labels {
                let all = kept.entry(*label).or_default();
                *all = all.saturating_add(source.marks.len());
                stays |= *all <= MARKS_MAX;
            }
            if stays {
                stay.push_front(source);
            }
        }
        self.marks = stay.iter().map(|source| source.marks.len()).sum();
        self.sources = stay;
    }

    /// Notes what the agent says in a call, as far as it is no copy of what it read.
    pub fn note(&mut self, call: &CallMarks, args_bytes: usize) {
        if args_bytes > OWN_BYTES {
            return;
        }
        let read: BTreeSet<u64> =
            self.sources.iter().flat_map(|source| source.marks.iter().copied()).collect();
        self.say(call, |hash| !read.contains(&hash));
    }

    fn say(&mut self, call: &CallMarks, is_own: impl Fn(u64) -> bool) {
        let said = call.texts.iter().flat_map(|text| &text.marks).map(|mark| mark.hash);
        self.own.extend(said.filter(|hash| is_own(*hash)));
        while self.own.len() > OWN_MARKS {
            self.own.pop_first();
        }
    }

    /// Keeps the canonical arguments of a call of a run that has read nothing: no mark of it is looked up.
    pub fn keep(&mut self, args: &[u8]) {
        if (marks::BYTES_MIN..=OWN_BYTES).contains(&args.len()) {
            self.unread.push(args);
        }
    }

    /// Marks of what the agent said itself.
    pub fn own_words(&mut self, marker: &Marker) -> BTreeSet<u64> {
        for args in std::mem::take(&mut self.unread).0 {
            if let Ok(args) = Json::parse(&args, &Limits::FILE) {
                self.say(&marker.of(&args), |_| true);
            }
        }
        self.own.clone()
    }

    /// The labels, each with the first call that brought it.
    #[must_use]
    pub const fn labels(&self) -> &BTreeMap<Label, LabelOrigin> {
        &self.labels
    }

    /// Takes everything away, by the order of this number.
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
        let mut spans = Vec::new();
        if !self.labels.is_empty() {
            for label in COMPARED {
                self.spans(label, call, &mut spans);
            }
        }
        TaintFacts {
            labels: self.labels.clone(),
            spans,
            unknown: self.unknown,
            floor,
            recorded: None,
        }
    }

    fn spans(&self, label: Label, call: &CallMarks, spans: &mut Vec<TaintSpan>) {
        let of: Vec<&Arc<TaintSource>> =
            self.sources.iter().filter(|source| source.labels.contains(&label)).collect();
        // The first answer with a passage is the one that is named.
        let in_turn = |hash: u64| {
            let has = |source: &&&Arc<TaintSource>| source.marks.binary_search(&hash).is_ok();
            of.iter().find(has).map(|source| &source.origin)
        };
        let marks: usize = call.texts.iter().map(|text| text.marks.len()).sum();
        let mut known: BTreeMap<u64, &LabelOrigin> = BTreeMap::new();
        if marks > LOOKED_UP {
            for source in &of {
                for mark in &source.marks {
                    known.entry(*mark).or_insert(&source.origin);
                }
            }
        }
        let origin = |hash: u64| match marks > LOOKED_UP {
            true => known.get(&hash).copied(),
            false => in_turn(hash),
        };
        let most = spans.len().saturating_add(SPANS_MAX);
        for text in &call.texts {
            let mut hits: Vec<(&Mark, &LabelOrigin)> =
                text.marks.iter().filter_map(|mark| Some((mark, origin(mark.hash)?))).collect();
            hits.sort_by_key(|(mark, _)| (mark.start, mark.end));
            let first = spans.len();
            for (mark, origin) in hits {
                let (start, end) = match text.has_places {
                    true => (number(mark.start), number(mark.end)),
                    false => (0, number(text.len)),
                };
                // Neighbours are one passage.
                let same = spans.get_mut(first..).and_then(<[TaintSpan]>::last_mut);
                if let Some(same) = same.filter(|last| start <= last.end && last.origin == *origin)
                {
                    same.end = same.end.max(end);
                } else if spans.len() < most {
                    let (path, origin) = (text.path.clone(), origin.clone());
                    spans.push(TaintSpan { path, start, end, label, origin });
                }
            }
        }
    }
}

fn number(place: usize) -> u64 {
    u64::try_from(place).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
