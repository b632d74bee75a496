//! Whether a text fits a template, in a bounded number of steps.
//!
//! A template alternates literals and holes. For each hole the matcher keeps the set of all places
//! where it may begin. A hole fills at most 4,096 bytes, so that set spans at most 4,096 bytes more
//! than the one before, and each step is a sweep over it: no text makes the matcher try anything
//! twice. The number of steps is at most a small multiple of the text, plus `HOLES_MAX²` times
//! 4,096.

use super::InstructionTemplate;
use super::dates;
use super::holes::{Hole, class};

/// Places of a text: `from` and those behind it for which `at` is true.
struct Places {
    from: usize,
    at: Vec<bool>,
}

impl Places {
    const fn new(from: usize) -> Self {
        Self { from, at: Vec::new() }
    }

    fn has(&self, place: usize) -> bool {
        let index = place.checked_sub(self.from);
        index.and_then(|index| self.at.get(index)).copied().unwrap_or(false)
    }

    fn set(&mut self, place: usize) {
        let Some(index) = place.checked_sub(self.from) else { return };
        if index >= self.at.len() {
            self.at.resize(index.saturating_add(1), false);
        }
        if let Some(at) = self.at.get_mut(index) {
            *at = true;
        }
    }

    /// The last place.
    fn last(&self) -> Option<usize> {
        let index = self.at.iter().rposition(|at| *at)?;
        Some(self.from.saturating_add(index))
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        let placed = (self.from..).zip(&self.at);
        placed.filter_map(|(place, at)| at.then_some(place))
    }

    /// The same places from the first one on.
    fn trimmed(mut self) -> Self {
        let before = self.at.iter().position(|at| *at).unwrap_or(self.at.len());
        self.at.drain(..before);
        self.from = self.from.saturating_add(before);
        self
    }
}

/// A text that is matched.
struct Matcher<'a> {
    text: &'a str,
    /// The classes of each byte.
    classes: Vec<u8>,
    /// What it has done: one for each place and byte that a loop has looked at.
    steps: u64,
}

impl InstructionTemplate {
    /// The bytes of this text that it does not fix, if the text fits; and the steps that took.
    pub(super) fn fit(&self, text: &str) -> (Option<u64>, u64) {
        let Some((_, last)) = self.parts.last() else {
            return ((self.head == text).then_some(0), 1);
        };
        if !self.may_have(text.len()) || !text.starts_with(&self.head) || !text.ends_with(last) {
            return (None, 1);
        }
        let mut matcher = Matcher { text, classes: class::of_bytes(text), steps: 0 };
        let loose = matcher.loose(self);
        (loose, matcher.steps)
    }

    /// Whether texts of this length can fit.
    fn may_have(&self, bytes: usize) -> bool {
        let (mut least, mut most) = (self.literal_bytes(), self.literal_bytes());
        for (hole, _) in &self.parts {
            let (short, long) = hole.bytes();
            (least, most) = (least.saturating_add(short), most.saturating_add(long));
        }
        (least..=most).contains(&bytes)
    }
}

impl Matcher<'_> {
    fn loose(&mut self, template: &InstructionTemplate) -> Option<u64> {
        let mut begins = Vec::with_capacity(template.parts.len());
        let mut places = Places::new(template.head.len());
        places.set(template.head.len());
        for (hole, literal) in &template.parts {
            let ends = self.behind_hole(*hole, &places);
            begins.push(places);
            places = self.behind_literal(literal, &ends)?;
        }
        let mut end = self.text.len();
        if !places.has(end) {
            return None;
        }
        // Back from the end: which bytes are in which hole.
        let mut loose = 0_u64;
        for ((hole, literal), begins) in template.parts.iter().zip(&begins).rev() {
            end = end.checked_sub(literal.len())?;
            let begin = self.last_begin(*hole, begins, end)?;
            if hole.is_loose() {
                let filled = u64::try_from(end.saturating_sub(begin)).unwrap_or(u64::MAX);
                loose = loose.saturating_add(filled);
            }
            end = begin;
        }
        Some(loose)
    }

    fn step(&mut self, bytes: usize) {
        self.steps = self.steps.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    fn has_class(&self, byte: usize, class: u8) -> bool {
        self.classes.get(byte).is_some_and(|classes| classes & class != 0)
    }

    fn rest(&self, place: usize) -> &str {
        self.text.get(place..).unwrap_or_default()
    }

    /// The places where a hole may end that begins at one of these.
    fn behind_hole(&mut self, hole: Hole, begins: &Places) -> Places {
        let (least, most) = hole.bytes();
        let mut ends = Places::new(begins.from);
        let Some(last) = begins.last() else { return ends };
        if hole == Hole::Date {
            for begin in begins.all() {
                self.steps = self.steps.saturating_add(dates::FORMS_COUNT);
                dates::lengths(self.rest(begin))
                    .for_each(|bytes| ends.set(begin.saturating_add(bytes)));
            }
            return ends;
        }
        let exact = least == most;
        let last = last.saturating_add(most).min(self.text.len());
        self.step(last.saturating_sub(begins.from));
        // The nearest place before where the hole may begin, and where its characters begin to have
        // its class. The nearest one is enough: the characters up to the others include its own.
        let (mut nearest, mut run) = (None, begins.from);
        for end in begins.from..=last {
            if end > begins.from && !self.has_class(end.saturating_sub(1), hole.class()) {
                (nearest, run) = (None, end);
            }
            if begins.has(end) && hole.begins(self.rest(end)) && least == 0 {
                nearest = Some(end);
            }
            let fits = if exact {
                end.checked_sub(most).is_some_and(|begin| begin >= run && begins.has(begin))
            } else {
                nearest.is_some_and(|begin: usize| end.saturating_sub(begin) <= most)
            };
            if fits && self.text.is_char_boundary(end) {
                ends.set(end);
            }
            if begins.has(end) && hole.begins(self.rest(end)) {
                nearest = Some(end);
            }
        }
        ends
    }

    /// The places behind this literal where it begins at one of these; none if there is no such place.
    fn behind_literal(&mut self, literal: &str, begins: &Places) -> Option<Places> {
        let last = begins.last()?;
        let mut behind = Places::new(begins.from.saturating_add(literal.len()));
        let reached = last.saturating_add(literal.len()).min(self.text.len());
        let bytes = self.text.as_bytes().get(begins.from..reached)?;
        self.step(bytes.len().saturating_add(literal.len()));
        let mut found = false;
        let mut keep = |at: usize| {
            let begin = begins.from.saturating_add(at);
            if begins.has(begin) {
                behind.set(begin.saturating_add(literal.len()));
                found = true;
            }
        };
        if literal.is_empty() {
            (0..=bytes.len()).for_each(&mut keep);
        } else {
            occurrences(bytes, literal.as_bytes(), &mut keep);
        }
        found.then(|| behind.trimmed())
    }

    /// The last of these places where this hole can begin and end here.
    fn last_begin(&mut self, hole: Hole, begins: &Places, end: usize) -> Option<usize> {
        let (least, most) = hole.bytes();
        let fits = |begin: &usize| {
            hole != Hole::Date
                || dates::lengths(self.rest(*begin)).any(|bytes| begin.saturating_add(bytes) == end)
        };
        let nearest = end.checked_sub(least)?;
        let class_ends = |begin: &usize| !self.has_class(*begin, hole.class());
        let run = (end.saturating_sub(most)..end).rev().find(class_ends);
        let first = run.map_or(end.saturating_sub(most), |byte| byte.saturating_add(1));
        let begin = (first..=nearest)
            .rev()
            .find(|begin| begins.has(*begin) && hole.begins(self.rest(*begin)) && fits(begin));
        self.step(most);
        begin
    }
}

/// Calls `keep` with each place of `literal` in `bytes`, overlapping ones too (Knuth, Morris, Pratt).
fn occurrences(bytes: &[u8], literal: &[u8], keep: &mut impl FnMut(usize)) {
    let at = |index: usize| literal.get(index).copied();
    let mut fallback: Vec<usize> = vec![0; literal.len()];
    let back = |matched: usize, fallback: &[usize]| {
        matched.checked_sub(1).and_then(|last| fallback.get(last)).copied().unwrap_or(0)
    };
    let mut matched = 0_usize;
    for index in 1..literal.len() {
        while matched > 0 && at(index) != at(matched) {
            matched = back(matched, &fallback);
        }
        if at(index) == at(matched) {
            matched = matched.saturating_add(1);
        }
        if let Some(slot) = fallback.get_mut(index) {
            *slot = matched;
        }
    }
    matched = 0;
    for (index, byte) in bytes.iter().enumerate() {
        while matched > 0 && at(matched) != Some(*byte) {
            matched = back(matched, &fallback);
        }
        if at(matched) == Some(*byte) {
            matched = matched.saturating_add(1);
        }
        if matched == literal.len() {
            keep(index.saturating_add(1).saturating_sub(literal.len()));
            matched = back(matched, &fallback);
        }
    }
}
