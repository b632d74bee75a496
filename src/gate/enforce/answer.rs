//! What a caller receives: a recorded result, or a fault.

use std::time::Duration;

use super::fork::RecordedAnswer;
use super::rates;
use crate::domain::code::{Code, held};
use crate::domain::decision::{LayerReason, RATE_LIMITED};
use crate::domain::id::CallId;
use crate::domain::outcome::{FailureClass, Outcome, SIMULATED};
use crate::domain::time::Timestamp;
use crate::identity::IdentityError;
use crate::ledger;
use crate::ledger::permit::{Held, Pledged, Recalled, RecalledState, Receipt, Refusal, Settled};

/// A result that may be released, and the receipt of its entry. Only durable ledger types produce
/// it.
#[derive(Clone, Debug)]
pub struct Released {
    call: CallId,
    result: Vec<u8>,
    status: String,
    receipt: Receipt,
    pending: bool,
}

impl Released {
    /// True if the receipt is that of the authorisation and the outcome is not recorded yet. This
    /// happens only for read-only T0 tools, if the operator enabled batching.
    #[must_use]
    pub const fn is_pending(&self) -> bool {
        self.pending
    }

    /// The call.
    pub const fn call(&self) -> &CallId {
        &self.call
    }

    /// The result, as UTF-8 JSON.
    pub fn result(&self) -> &[u8] {
        &self.result
    }

    /// Takes the result's bytes without a copy, for the face that encodes them.
    pub fn into_result(self) -> Vec<u8> {
        self.result
    }

    /// The status that the tool reported.
    pub fn status(&self) -> &str {
        &self.status
    }

    /// The receipt of the recorded outcome.
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}

/// An answer that is not a result: the source of every error on the wire.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The stable code.
    pub code: Code,
    /// The finer code: `json.duplicate_key`, `schema.required`, …; empty if there is none.
    pub detail: String,
    /// The message for a human reader.
    pub message: String,
    /// The call, once it has an id.
    pub call: Option<CallId>,
    /// Every reason of a recorded denial or hold.
    pub reasons: Vec<LayerReason>,
    /// Until when a held call waits.
    pub expires: Option<Timestamp>,
    /// When a retry makes sense.
    pub retry_after: Option<Duration>,
    /// The receipt of the recorded entry; absent if the request was refused before admission.
    pub receipt: Option<Receipt>,
}

/// When all of these limits may have room again. `None` if one of them never recovers by itself.
fn free_again(reasons: &[LayerReason]) -> Option<Duration> {
    let wait = |reason: &LayerReason| match reason.detail.as_str() {
        // A call leaves the one-minute window after at most a minute.
        "limit.calls_per_minute" => Some(Duration::from_secs(60)),
        "limit.concurrency" => Some(Duration::from_secs(1)),
        RATE_LIMITED => rates::wait_in(reason),
        _ => None,
    };
    let waits: Option<Vec<Duration>> = reasons.iter().map(wait).collect();
    waits?.into_iter().max()
}

impl Fault {
    /// A fault with this code and no recorded entry.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            detail: String::new(),
            message: message.into(),
            call: None,
            reasons: Vec::new(),
            expires: None,
            retry_after: None,
            receipt: None,
        }
    }

    /// A fault that has no data beyond its code.
    #[must_use]
    pub fn of(code: Code) -> Self {
        Self::new(code, code.message())
    }

    /// The same with a finer code.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    /// The caller may try again after this time.
    #[must_use]
    pub fn after(mut self, wait: Duration) -> Self {
        self.retry_after = Some(wait);
        self
    }

    /// The same about this call.
    #[must_use]
    pub fn about(mut self, call: &CallId) -> Self {
        self.call = Some(call.clone());
        self
    }

    fn at(mut self, receipt: &Receipt) -> Self {
        self.receipt = Some(receipt.clone());
        self
    }

    fn because(code: Code, reasons: &[LayerReason]) -> Self {
        let mut fault = reasons.first().map_or_else(
            || Self::of(code),
            |first| Self::new(code, &*first.message).detail(&*first.detail),
        );
        fault.reasons = reasons.to_vec();
        if code == Code::LimitExceeded {
            fault.retry_after = free_again(reasons);
        }
        fault
    }

    /// The fault that a caller receives when the ledger fails.
    pub fn of_ledger(error: &ledger::Error) -> Self {
        let mut fault = match error {
            ledger::Error::Overloaded => Self::of(Code::Overloaded),
            ledger::Error::Unavailable(_) => Self::of(Code::LedgerUnavailable),
            ledger::Error::Unknown => Self::of(Code::LedgerUnknown),
            ledger::Error::RunNotOpen => return Self::of(Code::RunSealed),
            ledger::Error::CallTaken => return Self::of(Code::CallConflict),
            ledger::Error::CallsOpen => {
                Self::new(Code::LedgerUnavailable, "calls of the run are still open")
            }
        };
        fault.retry_after = Some(Duration::from_secs(1));
        fault
    }

    /// The fault for a ledger that cannot be read: whether the call is recorded is not known.
    pub fn unread(error: &ledger::Error) -> Self {
        let mut fault = Self::of_ledger(error);
        if fault.code == Code::LedgerUnavailable {
            "the ledger cannot be read; ask again with the same id".clone_into(&mut fault.message);
        }
        fault
    }
}

impl From<IdentityError> for Fault {
    fn from(error: IdentityError) -> Self {
        Self::new(Code::IdentityMissing, error.to_string()).detail(error.detail())
    }
}

/// The answer to one call.
pub type Answer = Result<Released, Fault>;

impl From<&Refusal> for Fault {
    fn from(refusal: &Refusal) -> Self {
        denied(refusal.call(), refusal.reasons(), refusal.receipt())
    }
}

fn denied(call: &CallId, reasons: &[LayerReason], receipt: &Receipt) -> Fault {
    // WHY: the recorded denial of a held call may carry the reason of the hold; it must not read as
    // if the call still waited.
    let code = reasons.first().map(|reason| reason.code).filter(|code| code.denies());
    Fault::because(code.unwrap_or(Code::PolicyDenied), reasons).about(call).at(receipt)
}

impl From<&Held> for Fault {
    fn from(held: &Held) -> Self {
        waiting(held.call(), held.reasons(), held.expires(), held.receipt())
    }
}

fn waiting(call: &CallId, reasons: &[LayerReason], expires: Timestamp, receipt: &Receipt) -> Fault {
    let mut fault = Fault::because(Code::CallHeld, reasons).about(call).at(receipt);
    fault.message = held::message(expires, &fault.message);
    fault.expires = Some(expires);
    fault
}

/// The answer a settled call gives.
#[must_use = "a settled outcome is the answer to a call"]
pub fn of_settled(settled: Settled) -> Answer {
    let (call, outcome, receipt) = settled.into_outcome();
    of_outcome(call, outcome, receipt)
}

/// The answer of a call whose outcome is queued and not recorded yet.
#[must_use = "a promised outcome is the answer to a call"]
pub fn of_pledged(queued: Pledged) -> Answer {
    let (call, outcome, receipt) = queued.into_outcome();
    of_outcome(call, outcome, receipt).map(|released| Released { pending: true, ..released })
}

fn of_outcome(call: CallId, outcome: Outcome, receipt: Receipt) -> Answer {
    match outcome {
        Outcome::Completed { result, status } => {
            Ok(Released { call, result, status, receipt, pending: false })
        }
        Outcome::Failed { class, message, .. } => {
            let code = Code::ToolFailed;
            let message = match class {
                FailureClass::NotStarted => "the call never started".to_owned(),
                FailureClass::ToolError
                | FailureClass::Timeout
                | FailureClass::TooLarge
                | FailureClass::Connect
                | FailureClass::Protocol
                | FailureClass::Changed
                | FailureClass::Opaque
                | FailureClass::Withheld
                | FailureClass::Unverified => message,
            };
            Err(Fault::new(code, message).detail(class.as_str()).about(&call).at(&receipt))
        }
        Outcome::Unknown { cause } => {
            Err(Fault::of(Code::CallUnknown).detail(cause).about(&call).at(&receipt))
        }
        Outcome::Cancelled { reason } => Err(cancelled(&call, &reason, &receipt)),
    }
}

/// The answer that a recording gives to a call of a forked run. `opening` is the receipt of the
/// run's opening, which names the recording.
#[must_use = "a recorded answer is the answer to a call"]
pub fn of_recorded(call: &CallId, line: RecordedAnswer, opening: &Receipt) -> Answer {
    match line {
        RecordedAnswer::Ended(outcome, _) => of_outcome(call.clone(), outcome, opening.clone()),
        RecordedAnswer::Denied(reasons) => Err(denied(call, &reasons, opening)),
    }
}

/// The answer that the ledger gives to a repeated request.
#[must_use = "a recalled answer is the answer to a call"]
pub fn of_recalled(recalled: &Recalled) -> Answer {
    let (call, receipt) = (recalled.call(), recalled.receipt());
    match recalled.state() {
        RecalledState::Denied(reasons) => Err(denied(call, reasons, receipt)),
        RecalledState::Held(reasons, expires) => Err(waiting(call, reasons, *expires, receipt)),
        RecalledState::Running => Err(unknown_for_now(call).at(receipt)),
        RecalledState::Ended(outcome) => of_outcome(call.clone(), outcome.clone(), receipt.clone()),
        RecalledState::ResultUnavailable => {
            Err(Fault::of(Code::CallResultUnavailable).about(call).at(receipt))
        }
        RecalledState::Expired => Err(Fault::of(Code::CallExpired).about(call).at(receipt)),
        RecalledState::Cancelled(reason) => Err(cancelled(call, reason, receipt)),
    }
}

fn cancelled(call: &CallId, reason: &str, receipt: &Receipt) -> Fault {
    let fault = if reason == SIMULATED {
        let message = "simulated: the call was allowed but not run";
        Fault::new(Code::CallCancelled, message).detail(SIMULATED)
    } else {
        Fault::new(Code::CallCancelled, reason)
    };
    fault.about(call).at(receipt)
}

/// The call ran or may have run, and its outcome is not recorded yet.
#[must_use]
pub fn unknown_for_now(call: &CallId) -> Fault {
    Fault::of(Code::CallUnknown).detail("unrecorded").about(call)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::digest::Digest;
    use crate::domain::id::ChainId;

    #[test]
    fn a_recorded_denial_is_answered_with_its_own_code_or_as_policy_denied() {
        let call = CallId::parse("c").unwrap();
        let receipt = Receipt {
            binding: None,
            origin: std::sync::Arc::from("gate.example/log"),
            chain: ChainId::from_bytes([1; 16]),
            seq: 1,
            leaf: Digest::from_bytes([2; 32]),
            run_seq: 1,
        };
        let (mut own, mut others) = (0, 0);
        for code in Code::ALL {
            let (detail, message, rule) = ("d".to_owned(), "m".to_owned(), "r".to_owned());
            let reasons = [LayerReason { code: *code, detail, message, rule }];
            let fault = denied(&call, &reasons, &receipt);
            // A denial never reads as a call that waits, ran or may be retried.
            let expected = if code.denies() { *code } else { Code::PolicyDenied };
            assert_eq!((fault.code, fault.detail.as_str()), (expected, "d"), "{code}");
            assert_eq!(fault.reasons, reasons, "{code}");
            let by_recording =
                of_recorded(&call, RecordedAnswer::Denied(reasons.to_vec()), &receipt);
            assert_eq!(by_recording.unwrap_err().code, expected, "{code}");
            if code.denies() { own += 1 } else { others += 1 }
        }
        assert!(own >= 7 && others >= 7, "{own} {others}");
        assert_eq!(denied(&call, &[], &receipt).code, Code::PolicyDenied);
    }
}
