//! Where each open run stands, and which entry may follow: the call automaton on the writing side.

use std::collections::BTreeMap;

use super::chain::Counts;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::time::Timestamp;
use crate::record::call::{CallAuthorized, CallHeld};
use crate::record::run::RunOpened;
use crate::record::{Draft, Entry, Kind};

/// How far a call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Waits for an approval until this instant.
    Held(Timestamp),
    /// Waits until this instant, and an approval is on the books.
    Approved(Timestamp),
    /// Somebody refused it: what is left is its denial.
    Refused(Timestamp),
    /// Allowed, the outcome is owed.
    Authorized,
    /// Over, by this kind of entry.
    Over(Kind),
}

/// The end of one open run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RunTail {
    /// `run_seq` of the next entry.
    pub next_seq: u64,
    /// Leaf hash of the last entry.
    pub prev: Digest,
    /// Every call of the run.
    pub calls: BTreeMap<CallId, Phase>,
    /// The run that delegated to it.
    pub parent: Option<RunId>,
}

impl RunTail {
    /// Calls by how they stand: `completed`, `denied`, …
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        for phase in self.calls.values() {
            let word = match phase {
                Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_) => "held",
                Phase::Authorized => "authorized",
                Phase::Over(kind) => kind.as_str().strip_prefix("call.").unwrap_or("other"),
            };
            let count = counts.entry(word).or_default();
            *count = count.saturating_add(1);
        }
        counts
    }

    /// Rebuilds the tail of a run from its entries, ascending. `None` if they are no run.
    #[must_use]
    pub fn rebuild(entries: &[(Entry, Digest)]) -> Option<Self> {
        let mut tails = Tails::default();
        let run = entries.first()?.0.draft.run?;
        for (i, (entry, leaf)) in entries.iter().enumerate() {
            // Its parent is not among its entries; that it was open is for whoever admitted the first.
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
    /// The call id is taken.
    #[error("the call id is taken")]
    CallTaken,
    /// The call waits for an approval, and none is on the books.
    #[error("no approval of the call is on the books")]
    NotApproved,
    /// The call is not where this entry could follow.
    #[error("the call is not open")]
    CallNotOpen,
    /// Calls of the run are still open.
    #[error("calls of the run are still open")]
    CallsOpen,
    /// Runs that the run delegated to are still open.
    #[error("runs that the run delegated to are still open")]
    DelegatesOpen,
    /// The entry would be longer than any reader accepts.
    #[error("the entry would be too long")]
    TooLong,
}

/// The ends of all open runs.
#[derive(Debug, Default)]
pub struct Tails {
    runs: BTreeMap<RunId, RunTail>,
    /// Open runs below an open run, of those that have any.
    below: BTreeMap<RunId, usize>,
}

/// The run that delegated to the one that this draft opens.
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
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether no run is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(super) fn insert(&mut self, run: RunId, tail: RunTail) {
        self.lodge(tail.parent);
        self.runs.insert(run, tail);
    }

    fn lodge(&mut self, parent: Option<RunId>) {
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
            let open = tail.calls.values().any(|phase| !matches!(phase, Phase::Over(_)));
            return match open {
                true => Err(TailError::CallsOpen),
                false if self.below.contains_key(&run) => Err(TailError::DelegatesOpen),
                false => Ok(()),
            };
        }
        let Some(call) = &draft.call else { return Ok(()) };
        let phase = tail.calls.get(call);
        // Under break-glass nobody has to have approved it.
        let broken = draft.get::<CallAuthorized>().is_some_and(|call| call.break_glass.is_some());
        if broken && matches!(phase, Some(Phase::Held(_))) {
            return Ok(());
        }
        Self::follows(draft.kind(), phase)
    }

    /// Whether an entry of this kind may follow where its call is.
    fn follows(kind: Kind, phase: Option<&Phase>) -> Result<(), TailError> {
        match kind {
            Kind::CallAuthorized => match phase {
                None | Some(Phase::Approved(_)) => Ok(()),
                Some(Phase::Held(_) | Phase::Refused(_)) => Err(TailError::NotApproved),
                Some(Phase::Authorized | Phase::Over(_)) => Err(TailError::CallTaken),
            },
            Kind::CallDenied => match phase {
                None | Some(Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_)) => Ok(()),
                Some(Phase::Authorized | Phase::Over(_)) => Err(TailError::CallTaken),
            },
            Kind::ApprovalGranted | Kind::ApprovalRefused => match phase {
                Some(Phase::Held(_) | Phase::Approved(_)) => Ok(()),
                None | Some(Phase::Refused(_) | Phase::Authorized | Phase::Over(_)) => {
                    Err(TailError::CallNotOpen)
                }
            },
            Kind::CallHeld => phase.map_or(Ok(()), |_| Err(TailError::CallTaken)),
            Kind::CallCompleted | Kind::CallFailed | Kind::CallUnknown => {
                if phase == Some(&Phase::Authorized) { Ok(()) } else { Err(TailError::CallNotOpen) }
            }
            Kind::CallCancelled => match phase {
                Some(
                    Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_) | Phase::Authorized,
                ) => Ok(()),
                None | Some(Phase::Over(_)) => Err(TailError::CallNotOpen),
            },
            Kind::CallExpired => match phase {
                Some(Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_)) => Ok(()),
                None | Some(Phase::Authorized | Phase::Over(_)) => Err(TailError::CallNotOpen),
            },
            Kind::ChainGenesis
            | Kind::WriterStarted
            | Kind::WriterStopped
            | Kind::Heartbeat
            | Kind::ClockStep
            | Kind::PolicyActivated
            | Kind::ManifestBound
            | Kind::ManifestRefused
            | Kind::SignersBound
            | Kind::ConfigChanged
            | Kind::RequestRejected
            | Kind::HealthChanged
            | Kind::RunOpened
            | Kind::RunSealed
            | Kind::LedgerRecovered
            | Kind::ChainEnrolled
            | Kind::ChainCheckpoint
            | Kind::ChainRetired
            | Kind::KeyRotated
            | Kind::KeyRevoked
            | Kind::AnchorObserved
            | Kind::EvidenceExported
            | Kind::PayloadErased
            | Kind::HoldPlaced
            | Kind::HoldLifted
            | Kind::RetentionPruned
            | Kind::ControlSet
            | Kind::ControlApplied
            | Kind::ControlRefused
            | Kind::AmendmentProposed
            | Kind::AmendmentApproved
            | Kind::AmendmentRefused
            | Kind::EnforcementTested
            | Kind::WriterEnrolled
            | Kind::PostureObserved => Ok(()),
        }
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
        self.lodge(parent);
        let fresh = RunTail { next_seq: 0, prev: leaf, calls: BTreeMap::new(), parent };
        let tail = self.runs.entry(run).or_insert(fresh);
        tail.next_seq = tail.next_seq.saturating_add(1);
        tail.prev = leaf;
        if let Some(call) = &draft.call {
            if draft.kind() == Kind::CallAuthorized {
                tail.calls.insert(call.clone(), Phase::Authorized);
            } else if let Some(held) = draft.get::<CallHeld>() {
                // A hold without an end has ended.
                let expires = held.expires.unwrap_or(Timestamp::from_millis(0));
                tail.calls.insert(call.clone(), Phase::Held(expires));
            } else if let Some(Phase::Held(expires) | Phase::Approved(expires)) =
                tail.calls.get(call).copied()
                && matches!(draft.kind(), Kind::ApprovalGranted | Kind::ApprovalRefused)
            {
                let granted = draft.kind() == Kind::ApprovalGranted;
                let phase =
                    if granted { Phase::Approved(expires) } else { Phase::Refused(expires) };
                tail.calls.insert(call.clone(), phase);
            } else if draft.kind().ends_call() {
                tail.calls.insert(call.clone(), Phase::Over(draft.kind()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    /// Which of these entries, one after the other, were refused.
    fn refused(entries: &[(Kind, Option<&str>)]) -> Vec<TailError> {
        let mut tails = Tails::default();
        let mut wrong = Vec::new();
        for (kind, call) in entries {
            let draft = draft(*kind, *call);
            match tails.admit(&draft) {
                Ok(()) => tails.advance(&draft, Digest::of(&[b"leaf"])),
                Err(error) => wrong.push(error),
            }
        }
        wrong
    }

    const OPENED: (Kind, Option<&str>) = (Kind::RunOpened, None);
    const A: Option<&str> = Some("a");

    #[test]
    fn a_call_id_is_taken_once() {
        for second in [Kind::CallAuthorized, Kind::CallDenied, Kind::CallHeld] {
            let wrong = refused(&[OPENED, (Kind::CallAuthorized, A), (second, A)]);
            assert_eq!(wrong, [TailError::CallTaken], "{second:?}");
            let wrong = refused(&[OPENED, (Kind::CallDenied, A), (second, A)]);
            assert_eq!(wrong, [TailError::CallTaken], "{second:?}");
        }
    }

    #[test]
    fn a_call_ends_once_and_only_if_it_began() {
        let ends = [Kind::CallCompleted, Kind::CallFailed, Kind::CallUnknown, Kind::CallCancelled];
        for end in ends {
            assert_eq!(refused(&[OPENED, (end, A)]), [TailError::CallNotOpen], "{end:?}");
            let twice = [OPENED, (Kind::CallAuthorized, A), (end, A), (end, A)];
            assert_eq!(refused(&twice), [TailError::CallNotOpen], "{end:?}");
        }
        let expired = [OPENED, (Kind::CallAuthorized, A), (Kind::CallExpired, A)];
        assert_eq!(refused(&expired), [TailError::CallNotOpen]);
        assert_eq!(refused(&[OPENED, (Kind::CallHeld, A), (Kind::CallExpired, A)]), []);
        let unheld = [OPENED, (Kind::CallHeld, A), (Kind::CallCompleted, A)];
        assert_eq!(refused(&unheld), [TailError::CallNotOpen]);
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
