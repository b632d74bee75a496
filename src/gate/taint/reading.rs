//! What runs have read: labels, and the answers that brought them, by their marks.
//!
//! One reading is shared by all runs that know the same, so that an answer is added once however many they are.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{COMPARED, MARKS_MAX, TaintSource};
use crate::domain::taint::{Label, LabelOrigin};

/// What several runs have read.
pub type SharedReading = Arc<Mutex<Reading>>;

/// Marks are keyed hashes already, so their own bits do.
#[derive(Default)]
pub(super) struct MarkHasher(u64);

impl Hasher for MarkHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, mark: u64) {
        self.0 = mark;
    }
}

/// Something by mark.
#[expect(clippy::disallowed_types, reason = "marks are looked up for each call, and never listed")]
pub(super) type MarkSet<T> = std::collections::HashMap<u64, T, BuildHasherDefault<MarkHasher>>;

/// What runs have read.
#[derive(Debug, Default)]
pub struct Reading {
    labels: BTreeMap<Label, LabelOrigin>,
    sources: BTreeMap<Label, SourcesOfLabel>,
    /// Labels were recovered, and what brought them is not known any more.
    unknown: bool,
}

/// What others get of a reading.
#[derive(Debug, Default)]
pub struct ReadingCopy {
    labels: BTreeMap<Label, LabelOrigin>,
    sources: Vec<Arc<TaintSource>>,
    unknown: bool,
}

/// Adds labels; where one is known, the call that brought it first stays.
pub fn add_labels(known: &mut BTreeMap<Label, LabelOrigin>, more: &BTreeMap<Label, LabelOrigin>) {
    for (label, origin) in more {
        known.entry(*label).or_insert_with(|| origin.clone());
    }
}

impl ReadingCopy {
    /// These labels, before the answers that bring them.
    #[must_use]
    pub fn labelled(labels: BTreeMap<Label, LabelOrigin>) -> Self {
        Self { labels, ..Self::default() }
    }

    /// What a run of an earlier process had read: the answers are not known any more.
    #[must_use]
    pub fn recovered(labels: BTreeMap<Label, LabelOrigin>) -> Self {
        let unknown = !labels.is_empty();
        Self { labels, unknown, ..Self::default() }
    }

    /// The labels, each with the first call that brought it.
    #[must_use]
    pub const fn labels(&self) -> &BTreeMap<Label, LabelOrigin> {
        &self.labels
    }
}

impl Reading {
    /// All of it.
    #[must_use]
    pub fn copy(&self) -> ReadingCopy {
        let mut known = BTreeSet::new();
        let all = self.sources.values().flat_map(|of| &of.sources);
        let sources = all.filter(|source| known.insert(Arc::as_ptr(source))).cloned().collect();
        ReadingCopy { labels: self.labels.clone(), sources, unknown: self.unknown }
    }

    /// Adds what others have read.
    pub fn add(&mut self, other: &ReadingCopy) {
        self.unknown |= other.unknown;
        add_labels(&mut self.labels, &other.labels);
        if other.sources.is_empty() {
            return;
        }
        let all = self.sources.values().flat_map(|of| &of.sources);
        let known: BTreeSet<_> = all.map(Arc::as_ptr).collect();
        let more = other.sources.iter().filter(|source| !known.contains(&Arc::as_ptr(source)));
        more.for_each(|source| self.keep(source));
    }

    /// Adds what an answer brought.
    pub fn bring(&mut self, source: &Arc<TaintSource>) {
        for label in &source.labels {
            self.labels.entry(*label).or_insert_with(|| source.origin.clone());
        }
        self.keep(source);
    }

    fn keep(&mut self, source: &Arc<TaintSource>) {
        if !source.marks.is_empty() {
            for label in COMPARED.iter().filter(|label| source.labels.contains(label)) {
                self.sources.entry(*label).or_default().keep(source);
            }
        }
    }

    /// The labels, each with the first call that brought it.
    #[must_use]
    pub const fn labels(&self) -> &BTreeMap<Label, LabelOrigin> {
        &self.labels
    }

    /// Whether some of what was read is not known any more: everything may be a copy of it.
    #[must_use]
    pub const fn is_unknown(&self) -> bool {
        self.unknown
    }

    /// An answer with this label and this mark: the first one, or the newest once that is forgotten.
    pub(super) fn source(&self, label: Label, mark: u64) -> Option<&Arc<TaintSource>> {
        self.sources.get(&label)?.of(mark)
    }

    /// Whether the marks of an answer with this label are known.
    pub(super) fn has_sources(&self, label: Label) -> bool {
        self.sources.get(&label).is_some_and(|of| !of.sources.is_empty())
    }

    #[cfg(test)]
    pub(super) fn marks(&self, label: Label) -> usize {
        self.sources.get(&label).map_or(0, |of| of.marks)
    }
}

/// The newest answers with one label. WHY by label: what is untrusted must not push out what is private.
#[derive(Debug, Default)]
struct SourcesOfLabel {
    /// The oldest first.
    sources: VecDeque<Arc<TaintSource>>,
    /// How many were forgotten: the number of the oldest.
    forgotten: usize,
    /// Marks of all of them.
    marks: usize,
    by_mark: MarkSet<Holders>,
}

/// The numbers of the first and of the last answer with a mark.
#[derive(Debug)]
struct Holders {
    first: usize,
    last: usize,
}

impl SourcesOfLabel {
    fn keep(&mut self, source: &Arc<TaintSource>) {
        if self.sources.back().is_some_and(|last| last.origin == source.origin) {
            return;
        }
        let number = self.forgotten.saturating_add(self.sources.len());
        for mark in &source.marks {
            let holders = self.by_mark.entry(*mark);
            holders.or_insert(Holders { first: number, last: number }).last = number;
        }
        self.marks = self.marks.saturating_add(source.marks.len());
        self.sources.push_back(Arc::clone(source));
        while self.marks > MARKS_MAX {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.sources.pop_front() else { return };
        let number = self.forgotten;
        self.forgotten = number.saturating_add(1);
        self.marks = self.marks.saturating_sub(oldest.marks.len());
        for mark in &oldest.marks {
            match self.by_mark.get_mut(mark) {
                Some(holders) if holders.last == number => drop(self.by_mark.remove(mark)),
                Some(holders) if holders.first == number => holders.first = holders.last,
                Some(_) | None => {}
            }
        }
    }

    fn of(&self, mark: u64) -> Option<&Arc<TaintSource>> {
        let first = self.by_mark.get(&mark)?.first;
        self.sources.get(first.checked_sub(self.forgotten)?)
    }
}
