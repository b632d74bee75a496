//! The state of a run's calls: the one fold of its entries.
//!
//! The writer admits entries by it; a starting gate, operators and commands rebuild runs with it.
//! Only the evidence verifier has its own, so that a mistake here is noticed there.

use std::collections::BTreeMap;

use super::call::{CallAuthorized, CallHeld, CallProgress};
use super::{Draft, Entry, Kind};
use crate::domain::id::CallId;
use crate::domain::time::Timestamp;

/// The state of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Waits for an approval until this instant.
    Held(Timestamp),
    /// Waits until this instant, and an approval is recorded.
    Approved(Timestamp),
    /// Waits until this instant, and an approver refused it: only its denial can follow.
    Refused(Timestamp),
    /// Allowed; its outcome must follow.
    Authorized,
    /// Ended by an entry of this kind.
    Over(Kind),
}

impl Phase {
    /// The end of its wait for an approval; `None` if it does not wait.
    pub const fn held_until(self) -> Option<Timestamp> {
        match self {
            Self::Held(until) | Self::Approved(until) | Self::Refused(until) => Some(until),
            Self::Authorized | Self::Over(_) => None,
        }
    }

    /// `held`, `authorized`, `completed`, `denied`, …
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Held(_) | Self::Approved(_) | Self::Refused(_) => "held",
            Self::Authorized => "authorized",
            Self::Over(kind) => kind.as_str().strip_prefix("call.").unwrap_or("other"),
        }
    }

    /// The phase of a call after this entry; `None` if the entry does not change it.
    fn after(before: Option<Self>, draft: &Draft) -> Option<Self> {
        let kind = draft.kind();
        if kind == Kind::CallAuthorized {
            return Some(Self::Authorized);
        }
        if let Some(held) = draft.get::<CallHeld>() {
            // A hold without an end has already ended.
            return Some(Self::Held(held.expires.unwrap_or(Timestamp::from_millis(0))));
        }
        match (before, kind) {
            (Some(Self::Held(until) | Self::Approved(until)), Kind::ApprovalGranted) => {
                Some(Self::Approved(until))
            }
            (Some(Self::Held(until) | Self::Approved(until)), Kind::ApprovalRefused) => {
                Some(Self::Refused(until))
            }
            (_, kind) => kind.ends_call().then_some(Self::Over(kind)),
        }
    }
}

/// Why an entry must not follow those of its call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Misplaced {
    /// The call id is taken.
    #[error("the call id is taken")]
    CallTaken,
    /// The call waits for an approval, and none is recorded.
    #[error("no approval of the call is recorded")]
    NotApproved,
    /// The phase of the call does not permit this entry.
    #[error("the call is not open")]
    CallNotOpen,
    /// Progress that is not beyond the progress recorded before.
    #[error("the progress of the call does not grow")]
    NoProgress,
}

/// How much of an answer left, as the newest `call.progress` records it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Coverage {
    bytes: u64,
    pieces: u64,
}

impl Coverage {
    fn of(progress: &CallProgress) -> Self {
        Self { bytes: progress.bytes.get(), pieces: progress.pieces.get() }
    }

    /// Whether more bytes and more pieces left than before.
    fn exceeds(self, before: Self) -> bool {
        self.bytes > before.bytes && self.pieces > before.pieces
    }
}

/// Every call of a run, with its phase.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Calls {
    phases: BTreeMap<CallId, Phase>,
    /// The running calls with progress.
    covered: BTreeMap<CallId, Coverage>,
}

impl Calls {
    /// Reads them from the ascending entries of one run.
    pub fn of<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Self {
        let mut calls = Self::default();
        entries.into_iter().for_each(|entry| calls.advance(&entry.draft));
        calls
    }

    /// Checks that this entry may follow.
    ///
    /// # Errors
    /// The phase of its call does not permit it.
    pub fn admit(&self, draft: &Draft) -> Result<(), Misplaced> {
        let Some(call) = &draft.call else { return Ok(()) };
        let phase = self.phases.get(call);
        // Under break-glass no approval is needed.
        let broken = draft.get::<CallAuthorized>().is_some_and(|call| call.break_glass.is_some());
        if broken && matches!(phase, Some(Phase::Held(_))) {
            return Ok(());
        }
        follows(draft.kind(), phase)?;
        let Some(progress) = draft.get::<CallProgress>() else { return Ok(()) };
        let before = self.covered.get(call).copied().unwrap_or_default();
        let grows = Coverage::of(progress).exceeds(before);
        if grows { Ok(()) } else { Err(Misplaced::NoProgress) }
    }

    /// Moves past one entry.
    pub fn advance(&mut self, draft: &Draft) {
        let Some(call) = &draft.call else { return };
        if let Some(progress) = draft.get::<CallProgress>() {
            self.covered.insert(call.clone(), Coverage::of(progress));
        }
        if let Some(phase) = Phase::after(self.phases.get(call).copied(), draft) {
            if matches!(phase, Phase::Over(_)) {
                self.covered.remove(call);
            }
            self.phases.insert(call.clone(), phase);
        }
    }

    /// Number of bytes that the newest `call.progress` of a running call covers; `None` if it has none.
    pub fn covered_bytes(&self, call: &CallId) -> Option<u64> {
        self.covered.get(call).map(|covered| covered.bytes)
    }

    /// The phase of this call; `None` if no entry decided or held it.
    pub fn get(&self, call: &CallId) -> Option<Phase> {
        self.phases.get(call).copied()
    }

    /// Every call, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&CallId, Phase)> {
        self.phases.iter().map(|(call, phase)| (call, *phase))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.phases.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.phases.is_empty()
    }

    /// Calls that wait for an approval, with the end of each wait.
    pub fn held(&self) -> impl Iterator<Item = (&CallId, Timestamp)> {
        self.iter().filter_map(|(call, phase)| Some((call, phase.held_until()?)))
    }

    /// How many calls may be running.
    pub fn in_flight(&self) -> usize {
        self.phases.values().filter(|phase| **phase == Phase::Authorized).count()
    }

    /// Whether one has not ended.
    #[must_use]
    pub fn any_open(&self) -> bool {
        self.phases.values().any(|phase| !matches!(phase, Phase::Over(_)))
    }
}

/// Whether an entry of this kind may follow in this phase of its call.
fn follows(kind: Kind, phase: Option<&Phase>) -> Result<(), Misplaced> {
    match kind {
        Kind::CallAuthorized => match phase {
            None | Some(Phase::Approved(_)) => Ok(()),
            Some(Phase::Held(_) | Phase::Refused(_)) => Err(Misplaced::NotApproved),
            Some(Phase::Authorized | Phase::Over(_)) => Err(Misplaced::CallTaken),
        },
        Kind::CallDenied => match phase {
            None | Some(Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_)) => Ok(()),
            Some(Phase::Authorized | Phase::Over(_)) => Err(Misplaced::CallTaken),
        },
        Kind::ApprovalGranted | Kind::ApprovalRefused => match phase {
            Some(Phase::Held(_) | Phase::Approved(_)) => Ok(()),
            None | Some(Phase::Refused(_) | Phase::Authorized | Phase::Over(_)) => {
                Err(Misplaced::CallNotOpen)
            }
        },
        Kind::CallHeld => phase.map_or(Ok(()), |_| Err(Misplaced::CallTaken)),
        Kind::CallProgress | Kind::CallCompleted | Kind::CallFailed | Kind::CallUnknown => {
            if phase == Some(&Phase::Authorized) { Ok(()) } else { Err(Misplaced::CallNotOpen) }
        }
        Kind::CallCancelled => match phase {
            Some(Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_) | Phase::Authorized) => {
                Ok(())
            }
            None | Some(Phase::Over(_)) => Err(Misplaced::CallNotOpen),
        },
        Kind::CallExpired => match phase {
            Some(Phase::Held(_) | Phase::Approved(_) | Phase::Refused(_)) => Ok(()),
            None | Some(Phase::Authorized | Phase::Over(_)) => Err(Misplaced::CallNotOpen),
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
        | Kind::PayloadViewed
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
        | Kind::PostureObserved
        | Kind::TaintCleared
        | Kind::AlertRaised => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Json;
    use crate::sample::body;

    fn draft(kind: Kind, more: &[(&'static str, u64)]) -> Draft {
        let more = more.iter().map(|(name, value)| (*name, Json::from(*value)));
        Draft { call: CallId::parse("c"), ..Draft::of(body(kind, more)) }
    }

    fn progress(bytes: u64, pieces: u64) -> Draft {
        draft(Kind::CallProgress, &[("bytes", bytes), ("pieces", pieces)])
    }

    #[test]
    fn progress_grows_strictly_between_the_permit_of_a_call_and_its_end() {
        let mut calls = Calls::default();
        let call = CallId::parse("c").unwrap();
        assert_eq!(calls.admit(&progress(1, 1)), Err(Misplaced::CallNotOpen));
        calls.advance(&draft(Kind::CallAuthorized, &[]));
        assert_eq!(calls.covered_bytes(&call), None);
        for none in [progress(0, 1), progress(1, 0)] {
            assert_eq!(calls.admit(&none), Err(Misplaced::NoProgress));
        }
        assert_eq!(calls.admit(&progress(5, 2)), Ok(()));
        calls.advance(&progress(5, 2));
        assert_eq!(calls.covered_bytes(&call), Some(5));
        for less in [progress(5, 3), progress(6, 2), progress(4, 1)] {
            assert_eq!(calls.admit(&less), Err(Misplaced::NoProgress));
        }
        assert_eq!(calls.admit(&progress(6, 3)), Ok(()));
        calls.advance(&draft(Kind::CallUnknown, &[("covered_bytes", 5)]));
        assert_eq!(calls.covered_bytes(&call), None);
        assert_eq!(calls.admit(&progress(7, 4)), Err(Misplaced::CallNotOpen));
    }
}
