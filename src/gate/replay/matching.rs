//! Matches calls with recorded steps: the first step with the same tool and arguments that was not
//! made yet, once everything is answered that had been answered before it.
//!
//! Only causes count, not the order in which parallel calls arrive: calls that ran at the same time
//! may be made in any order, and a call that waited for an answer has to wait for it again. Each
//! run has its own causes, because a child and its parent have no order between them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::domain::digest::Digest;

/// How many steps are examined when a call matches none of them.
const LOOKED_AT: usize = 64;

/// The facts of one step that matching needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StepFacts {
    /// The run it belongs to, by its place among the recorded ones.
    pub run: usize,
    /// Digest of tool and arguments, without the volatile ones.
    pub key: Digest,
    /// Highest `run_seq` that had been answered when the call was made.
    pub after: u64,
    /// `run_seq` of its last entry.
    pub end: u64,
}

/// The result of matching a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepMatch {
    /// This step.
    Step(usize),
    /// A step whose causes are still being answered: match again after the next answer.
    Wait,
    /// The first step; the second had been answered before it and was not made yet.
    Early(usize, usize),
    /// No step.
    Unknown,
}

/// Steps of one run, by the ends of their calls.
#[derive(Clone, Debug, Default)]
struct Open {
    unasked: BTreeSet<(u64, usize)>,
    unanswered: BTreeSet<(u64, usize)>,
}

/// The steps of a recording, and how far they were played. Counted from 0.
#[derive(Debug, Default)]
pub struct Matching {
    steps: Vec<StepFacts>,
    by_key: BTreeMap<(usize, Digest), VecDeque<usize>>,
    by_run: BTreeMap<usize, Open>,
    remaining: BTreeSet<usize>,
}

/// The first of these that ended before this step was made.
fn cause(of: &BTreeSet<(u64, usize)>, step: &StepFacts) -> Option<usize> {
    of.first().filter(|(end, _)| *end <= step.after).map(|(_, at)| *at)
}

impl Matching {
    /// Starts with no step played.
    pub fn of(steps: Vec<StepFacts>) -> Self {
        let mut by_key: BTreeMap<(usize, Digest), VecDeque<usize>> = BTreeMap::new();
        let mut by_run: BTreeMap<usize, Open> = BTreeMap::new();
        for (at, step) in steps.iter().enumerate() {
            by_key.entry((step.run, step.key)).or_default().push_back(at);
            let open = by_run.entry(step.run).or_default();
            open.unasked.insert((step.end, at));
            open.unanswered.insert((step.end, at));
        }
        let remaining = (0..steps.len()).collect();
        Self { steps, by_key, by_run, remaining }
    }

    /// The step that a call of this run with this key matches now.
    #[must_use]
    pub fn find(&self, run: usize, key: &Digest) -> StepMatch {
        let step = self.by_key.get(&(run, *key)).and_then(|steps| steps.front()).copied();
        let known = step.and_then(|step| self.steps.get(step));
        let (Some(step), Some(known), Some(open)) = (step, known, self.by_run.get(&run)) else {
            return StepMatch::Unknown;
        };
        let in_flight = open.unanswered.len() > open.unasked.len();
        match (cause(&open.unasked, known), cause(&open.unanswered, known)) {
            (None, None) => StepMatch::Step(step),
            // The answer to a call in flight may make the agent make the other one.
            (Some(_), _) | (None, Some(_)) if in_flight => StepMatch::Wait,
            (Some(before), _) => StepMatch::Early(step, before),
            (None, Some(_)) => StepMatch::Wait,
        }
    }

    /// The first steps of a run that may be made now.
    pub fn expected(&self, run: usize) -> impl Iterator<Item = usize> {
        let open = self.by_run.get(&run);
        let free = move |step: &usize| {
            let known = self.steps.get(*step).zip(open);
            known.is_some_and(|(known, open)| cause(&open.unanswered, known).is_none())
        };
        self.remaining_of(run).filter(free).take(LOOKED_AT)
    }

    /// Steps of a run that the agent has not made.
    pub fn remaining_of(&self, run: usize) -> impl Iterator<Item = usize> {
        let of_run = move |step: &usize| self.steps.get(*step).is_some_and(|s| s.run == run);
        self.remaining().filter(of_run)
    }

    /// Steps that the agent has not made.
    pub fn remaining(&self) -> impl Iterator<Item = usize> {
        self.remaining.iter().copied()
    }

    /// How many steps there are.
    pub const fn len(&self) -> usize {
        self.steps.len()
    }

    /// Marks the step as made.
    pub fn mark_made(&mut self, step: usize) {
        let Some(known) = self.steps.get(step) else { return };
        self.remaining.remove(&step);
        if let Some(open) = self.by_run.get_mut(&known.run) {
            open.unasked.remove(&(known.end, step));
        }
        if let Some(steps) = self.by_key.get_mut(&(known.run, known.key)) {
            steps.retain(|at| *at != step);
        }
    }

    /// Marks the step as answered.
    pub fn answer(&mut self, step: usize) {
        let Some(known) = self.steps.get(step) else { return };
        if let Some(open) = self.by_run.get_mut(&known.run) {
            open.unanswered.remove(&(known.end, step));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Digest {
        Digest::of(&[name.as_bytes()])
    }

    fn steps(all: &[(&str, u64, u64)]) -> Matching {
        let known = |(name, after, end): &(&str, u64, u64)| StepFacts {
            run: 0,
            key: key(name),
            after: *after,
            end: *end,
        };
        Matching::of(all.iter().map(known).collect())
    }

    fn play(matching: &mut Matching, name: &str) -> StepMatch {
        let found = matching.find(0, &key(name));
        if let StepMatch::Step(step) = found {
            matching.mark_made(step);
        }
        found
    }

    #[test]
    fn calls_one_after_the_other_are_found_in_their_order() {
        let mut played = steps(&[("a", 0, 2), ("b", 2, 4), ("a", 4, 6)]);
        assert_eq!(play(&mut played, "a"), StepMatch::Step(0));
        played.answer(0);
        assert_eq!(played.find(0, &key("a")), StepMatch::Early(2, 1));
        assert_eq!(play(&mut played, "b"), StepMatch::Step(1));
        // The agent has not reacted to the answer yet.
        assert_eq!(played.find(0, &key("a")), StepMatch::Wait);
        played.answer(1);
        assert_eq!(play(&mut played, "a"), StepMatch::Step(2));
        assert_eq!(played.find(0, &key("a")), StepMatch::Unknown);
        assert_eq!(played.remaining().count(), 0);
    }

    #[test]
    fn calls_side_by_side_may_come_in_any_order() {
        let mut played = steps(&[("a", 0, 3), ("b", 0, 4), ("c", 4, 6)]);
        assert_eq!(play(&mut played, "b"), StepMatch::Step(1));
        assert_eq!(play(&mut played, "a"), StepMatch::Step(0));
        assert_eq!(played.find(0, &key("c")), StepMatch::Wait);
        played.answer(1);
        assert_eq!(played.find(0, &key("c")), StepMatch::Wait);
        played.answer(0);
        assert_eq!(play(&mut played, "c"), StepMatch::Step(2));
    }

    #[test]
    fn a_call_waits_only_for_what_is_on_its_way() {
        let mut played = steps(&[("a", 0, 2), ("b", 2, 4)]);
        assert_eq!(played.find(0, &key("b")), StepMatch::Early(1, 0));
        assert_eq!(play(&mut played, "a"), StepMatch::Step(0));
        assert_eq!(played.find(0, &key("b")), StepMatch::Wait);
        assert_eq!(played.expected(0).next(), None);
        played.answer(0);
        assert_eq!(played.expected(0).collect::<Vec<_>>(), [1]);
        assert_eq!(played.find(0, &key("x")), StepMatch::Unknown);
        assert_eq!(played.len(), 2);
    }

    #[test]
    fn each_run_waits_only_for_its_own_calls() {
        let known = |run, name: &str, after, end| StepFacts { run, key: key(name), after, end };
        let mut played =
            Matching::of(vec![known(0, "a", 0, 2), known(1, "a", 0, 2), known(0, "b", 2, 4)]);
        assert_eq!(played.find(1, &key("a")), StepMatch::Step(1));
        played.mark_made(1);
        assert_eq!(played.find(0, &key("b")), StepMatch::Early(2, 0));
        assert_eq!(played.find(1, &key("a")), StepMatch::Unknown);
        assert_eq!(played.find(0, &key("a")), StepMatch::Step(0));
        assert_eq!(played.remaining_of(1).count(), 0);
    }
}
