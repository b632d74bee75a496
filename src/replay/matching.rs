//! Which recorded call a call is: the first with the same tool and arguments that was not asked for yet,
//! once everything is answered that had been answered before it.
//!
//! Only causes count, not the order in which calls side by side happen to arrive: two that ran at the same
//! time may be asked in any order, and a call that waited for an answer has to wait for it again.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::domain::digest::Digest;

/// Steps that are looked at when a call is none of them.
const LOOKED_AT: usize = 64;

/// What is known of one step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known {
    /// Names tool and arguments, without what is volatile.
    pub key: Digest,
    /// Highest `run_seq` that had been answered when it was asked.
    pub after: u64,
    /// `run_seq` of its last entry.
    pub end: u64,
}

/// What a call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// This step.
    Step(usize),
    /// A step whose causes are being answered: ask again when something was.
    Wait,
    /// The first step, and the second had been answered before it and was not even asked.
    Early(usize, usize),
    /// None.
    Unknown,
}

/// The steps of a recording, and how far they were played. Steps are counted from 0.
#[derive(Debug, Default)]
pub struct Matching {
    steps: Vec<Known>,
    by_key: BTreeMap<Digest, VecDeque<usize>>,
    /// By the end of their calls.
    unasked: BTreeSet<(u64, usize)>,
    unanswered: BTreeSet<(u64, usize)>,
    left: BTreeSet<usize>,
}

impl Matching {
    /// Nothing is played yet.
    #[must_use]
    pub fn of(steps: Vec<Known>) -> Self {
        let mut by_key: BTreeMap<Digest, VecDeque<usize>> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            by_key.entry(step.key).or_default().push_back(at);
        }
        let ends: BTreeSet<(u64, usize)> =
            steps.iter().enumerate().map(|(at, step)| (step.end, at)).collect();
        let left = (0..steps.len()).collect();
        Self { steps, by_key, unasked: ends.clone(), unanswered: ends, left }
    }

    /// The first of these that ended before this step was asked.
    fn cause(&self, of: &BTreeSet<(u64, usize)>, step: usize) -> Option<usize> {
        let after = self.steps.get(step)?.after;
        of.first().filter(|(end, _)| *end <= after).map(|(_, at)| *at)
    }

    /// Which step a call with this key is now.
    #[must_use]
    pub fn find(&self, key: &Digest) -> Found {
        let Some(step) = self.by_key.get(key).and_then(|steps| steps.front()).copied() else {
            return Found::Unknown;
        };
        let in_flight = self.unanswered.len() > self.unasked.len();
        match (self.cause(&self.unasked, step), self.cause(&self.unanswered, step)) {
            (None, None) => Found::Step(step),
            // What is in flight may make the agent ask for the other.
            (Some(_), _) | (None, Some(_)) if in_flight => Found::Wait,
            (Some(before), _) => Found::Early(step, before),
            (None, Some(_)) => Found::Wait,
        }
    }

    /// Steps that could be asked for now, the first ones.
    pub fn expected(&self) -> impl Iterator<Item = usize> {
        let free = |step: &usize| self.cause(&self.unanswered, *step).is_none();
        self.left.iter().copied().filter(free).take(LOOKED_AT)
    }

    /// Steps nobody asked for.
    pub fn left(&self) -> impl Iterator<Item = usize> {
        self.left.iter().copied()
    }

    /// How many steps there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.steps.len()
    }

    /// The step was asked for.
    pub fn ask(&mut self, step: usize) {
        let Some(known) = self.steps.get(step) else { return };
        self.unasked.remove(&(known.end, step));
        self.left.remove(&step);
        if let Some(steps) = self.by_key.get_mut(&known.key) {
            steps.retain(|at| *at != step);
        }
    }

    /// The step was answered.
    pub fn answer(&mut self, step: usize) {
        let Some(known) = self.steps.get(step) else { return };
        self.unanswered.remove(&(known.end, step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Digest {
        Digest::of(&[name.as_bytes()])
    }

    fn steps(all: &[(&str, u64, u64)]) -> Matching {
        let known = |(name, after, end): &(&str, u64, u64)| Known {
            key: key(name),
            after: *after,
            end: *end,
        };
        Matching::of(all.iter().map(known).collect())
    }

    fn play(matching: &mut Matching, name: &str) -> Found {
        let found = matching.find(&key(name));
        if let Found::Step(step) = found {
            matching.ask(step);
        }
        found
    }

    #[test]
    fn calls_one_after_the_other_are_found_in_their_order() {
        let mut played = steps(&[("a", 0, 2), ("b", 2, 4), ("a", 4, 6)]);
        assert_eq!(play(&mut played, "a"), Found::Step(0));
        played.answer(0);
        assert_eq!(played.find(&key("a")), Found::Early(2, 1));
        assert_eq!(play(&mut played, "b"), Found::Step(1));
        // Nobody knows yet what the agent does with the answer.
        assert_eq!(played.find(&key("a")), Found::Wait);
        played.answer(1);
        assert_eq!(play(&mut played, "a"), Found::Step(2));
        assert_eq!(played.find(&key("a")), Found::Unknown);
        assert_eq!(played.left().count(), 0);
    }

    #[test]
    fn calls_side_by_side_may_come_in_any_order() {
        let mut played = steps(&[("a", 0, 3), ("b", 0, 4), ("c", 4, 6)]);
        assert_eq!(play(&mut played, "b"), Found::Step(1));
        assert_eq!(play(&mut played, "a"), Found::Step(0));
        assert_eq!(played.find(&key("c")), Found::Wait);
        played.answer(1);
        assert_eq!(played.find(&key("c")), Found::Wait);
        played.answer(0);
        assert_eq!(play(&mut played, "c"), Found::Step(2));
    }

    #[test]
    fn a_call_waits_only_for_what_is_on_its_way() {
        let mut played = steps(&[("a", 0, 2), ("b", 2, 4)]);
        assert_eq!(played.find(&key("b")), Found::Early(1, 0));
        assert_eq!(play(&mut played, "a"), Found::Step(0));
        assert_eq!(played.find(&key("b")), Found::Wait);
        assert_eq!(played.expected().next(), None);
        played.answer(0);
        assert_eq!(played.expected().collect::<Vec<_>>(), [1]);
        assert_eq!(played.find(&key("x")), Found::Unknown);
        assert_eq!(played.len(), 2);
    }
}
