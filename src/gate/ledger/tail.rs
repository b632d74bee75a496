//! The end of each open run, and the rule for the entry that may follow.

use std::collections::BTreeMap;

use super::chain::Counts;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::record::calls::{Calls, Misplaced};
use crate::record::run::RunOpened;
use crate::record::{Draft, Entry, Kind};

/// The end of one open run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunTail {
    /// `run_seq` of the next entry.
    pub next_seq: u64,
    /// Leaf hash of the last entry.
    pub prev: Digest,
    /// Every call of the run.
    pub calls: Calls,
    /// The run that delegated to it.
    pub parent: Option<RunId>,
}

impl RunTail {
    /// Counts calls by state: `completed`, `denied`, …
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for (_, phase) in self.calls.iter() {
            let count = counts.entry(phase.as_str()).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }

    /// Rebuilds the tail of a run from its ascending entries. `None` if they do not form a run.
    #[must_use]
    pub fn rebuild(entries: &[(Entry, Digest)]) -> Option<Self> {
        let mut tails = Tails::default();
        let run = entries.first()?.0.draft.run?;
        for (i, (entry, leaf)) in entries.iter().enumerate() {
            // The parent's entries are not here. The writer that admitted the opening checked that
            // the parent was open.
            if i > 0 || entry.draft.kind() != Kind::RunOpened {
                tails.admit(&entry.draft).ok()?;
            }
            tails.advance(&entry.draft, *leaf);
        }
        tails.runs.remove(&run)
    }
}

/// Why an entry may not follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TailError {
    /// The run is not open.
    #[error("the run is not open")]
    RunNotOpen,
    /// The run is open already.
    #[error("the run is open already")]
    RunOpen,
    /// The entry does not follow those of its call.
    #[error(transparent)]
    Call(#[from] Misplaced),
    /// Calls of the run are still open.
    #[error("calls of the run are still open")]
    CallsOpen,
    /// Runs to which the run delegated are still open.
    #[error("runs that the run delegated to are still open")]
    DelegatesOpen,
    /// The entry would exceed the length that readers accept.
    #[error("the entry would be too long")]
    TooLong,
}

/// The ends of all open runs.
#[derive(Debug, Default)]
pub struct Tails {
    runs: BTreeMap<RunId, RunTail>,
    /// The number of open children of an open run, for runs that have any.
    below: BTreeMap<RunId, usize>,
}

/// The parent of the run that this draft opens.
fn parent(draft: &Draft) -> Option<RunId> {
    draft.get::<RunOpened>().and_then(|opened| opened.parent)
}

impl Tails {
    /// The end of this run, if it is open.
    #[must_use]
    pub fn get(&self, run: &RunId) -> Option<&RunTail> {
        self.runs.get(run)
    }

    /// Open runs.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether no run is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn insert(&mut self, run: RunId, tail: RunTail) {
        self.enter(tail.parent);
        self.runs.insert(run, tail);
    }

    fn enter(&mut self, parent: Option<RunId>) {
        let Some(parent) = parent else { return };
        let open = self.below.entry(parent).or_default();
        *open = open.saturating_add(1);
    }

    fn leave(&mut self, parent: Option<RunId>) {
        let Some(parent) = parent else { return };
        let Some(open) = self.below.get_mut(&parent) else { return };
        *open = open.saturating_sub(1);
        if *open == 0 {
            self.below.remove(&parent);
        }
    }

    /// Whether this draft may follow.
    pub(super) fn admit(&self, draft: &Draft) -> Result<(), TailError> {
        let Some(run) = draft.run else { return Ok(()) };
        let tail = self.runs.get(&run);
        if draft.kind() == Kind::RunOpened {
            let orphan = parent(draft).is_some_and(|parent| !self.runs.contains_key(&parent));
            return match tail {
                Some(_) => Err(TailError::RunOpen),
                None if orphan => Err(TailError::RunNotOpen),
                None => Ok(()),
            };
        }
        let tail = tail.ok_or(TailError::RunNotOpen)?;
        if draft.kind() == Kind::RunSealed {
            return match tail.calls.any_open() {
                true => Err(TailError::CallsOpen),
                false if self.below.contains_key(&run) => Err(TailError::DelegatesOpen),
                false => Ok(()),
            };
        }
        Ok(tail.calls.admit(draft)?)
    }

    /// Moves the run's end past an admitted entry.
    pub(super) fn advance(&mut self, draft: &Draft, leaf: Digest) {
        let Some(run) = draft.run else { return };
        if draft.kind() == Kind::RunSealed {
            let sealed = self.runs.remove(&run);
            self.leave(sealed.and_then(|tail| tail.parent));
            return;
        }
        let parent = (draft.kind() == Kind::RunOpened).then(|| parent(draft)).flatten();
        self.enter(parent);
        let fresh = RunTail { next_seq: 0, prev: leaf, calls: Calls::default(), parent };
        let tail = self.runs.entry(run).or_insert(fresh);
        tail.next_seq = tail.next_seq.saturating_add(1);
        tail.prev = leaf;
        tail.calls.advance(draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::CallId;
    use crate::domain::json::Json;
    use crate::record::sample::body;

    fn draft(kind: Kind, call: Option<&str>) -> Draft {
        Draft {
            run: Some(RunId::from_random([7; 16])),
            call: call.and_then(CallId::parse),
            ..Draft::of(if kind == Kind::CallHeld {
                body(kind, [("expires", "2026-11-21T20:05:03.123Z".into())])
            } else {
                body(kind, [])
            })
        }
    }

    /// Which of these entries, in sequence, were refused.
    fn refused(entries: &[(Kind, Option<&str>)]) -> Vec<TailError> {
        let mut tails = Tails::default();
        let mut errors = Vec::new();
        for (kind, call) in entries {
            let draft = draft(*kind, *call);
            match tails.admit(&draft) {
                Ok(()) => tails.advance(&draft, Digest::of(&[b"leaf"])),
                Err(error) => errors.push(error),
            }
        }
        errors
    }

    const OPENED: (Kind, Option<&str>) = (Kind::RunOpened, None);
    const A: Option<&str> = Some("a");

    #[test]
    fn a_call_id_is_taken_once() {
        for second in [Kind::CallAuthorized, Kind::CallDenied, Kind::CallHeld] {
            let errors = refused(&[OPENED, (Kind::CallAuthorized, A), (second, A)]);
            assert_eq!(errors, [TailError::Call(Misplaced::CallTaken)], "{second:?}");
            let errors = refused(&[OPENED, (Kind::CallDenied, A), (second, A)]);
            assert_eq!(errors, [TailError::Call(Misplaced::CallTaken)], "{second:?}");
        }
    }

    #[test]
    fn a_call_ends_once_and_only_if_it_began() {
        let ends = [Kind::CallCompleted, Kind::CallFailed, Kind::CallUnknown, Kind::CallCancelled];
        for end in ends {
            assert_eq!(
                refused(&[OPENED, (end, A)]),
                [TailError::Call(Misplaced::CallNotOpen)],
                "{end:?}"
            );
            let twice = [OPENED, (Kind::CallAuthorized, A), (end, A), (end, A)];
            assert_eq!(refused(&twice), [TailError::Call(Misplaced::CallNotOpen)], "{end:?}");
        }
        let expired = [OPENED, (Kind::CallAuthorized, A), (Kind::CallExpired, A)];
        assert_eq!(refused(&expired), [TailError::Call(Misplaced::CallNotOpen)]);
        assert_eq!(refused(&[OPENED, (Kind::CallHeld, A), (Kind::CallExpired, A)]), []);
        let unheld = [OPENED, (Kind::CallHeld, A), (Kind::CallCompleted, A)];
        assert_eq!(refused(&unheld), [TailError::Call(Misplaced::CallNotOpen)]);
    }

    #[test]
    fn a_child_is_opened_and_sealed_while_its_parent_is_open() {
        let run = |n: u8| RunId::from_random([n; 16]);
        let opened = |n: u8, parent: Option<u8>| {
            let parent = parent.map(|n| ("parent", Json::from(run(n).to_string())));
            Draft { run: Some(run(n)), ..Draft::of(body(Kind::RunOpened, parent)) }
        };
        let sealed = |n: u8| Draft { run: Some(run(n)), ..Draft::of(body(Kind::RunSealed, [])) };
        let leaf = Digest::of(&[b"leaf"]);
        let mut tails = Tails::default();
        assert_eq!(tails.admit(&opened(2, Some(1))), Err(TailError::RunNotOpen));
        for draft in [opened(1, None), opened(2, Some(1)), opened(3, Some(1))] {
            tails.admit(&draft).unwrap();
            tails.advance(&draft, leaf);
        }
        for child in [2, 3] {
            assert_eq!(tails.admit(&sealed(1)), Err(TailError::DelegatesOpen));
            tails.admit(&sealed(child)).unwrap();
            tails.advance(&sealed(child), leaf);
        }
        assert_eq!(tails.admit(&sealed(1)), Ok(()));
        tails.advance(&sealed(1), leaf);
        assert_eq!(tails.admit(&opened(4, Some(1))), Err(TailError::RunNotOpen));
    }

    #[test]
    fn a_run_is_sealed_once_and_only_when_no_call_is_open() {
        for open in [Kind::CallAuthorized, Kind::CallHeld] {
            let early = [OPENED, (open, A), (Kind::RunSealed, None)];
            assert_eq!(refused(&early), [TailError::CallsOpen], "{open:?}");
        }
        let late = [OPENED, (Kind::RunSealed, None), (Kind::CallAuthorized, A)];
        assert_eq!(refused(&late), [TailError::RunNotOpen]);
        assert_eq!(refused(&[OPENED, (Kind::RunSealed, None), (Kind::RunSealed, None)]).len(), 1);
        assert_eq!(refused(&[OPENED, OPENED]), [TailError::RunOpen]);
    }
}
