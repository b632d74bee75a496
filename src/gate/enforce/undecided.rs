//! Calls that leave the road without a decision on the books.

use tokio::sync::watch;

use super::Road;
use super::answer::{Answer, Fault};
use super::condition::Condition;
use super::run::{CallStage, Run};
use crate::domain::code::Code;
use crate::domain::id::CallId;
use crate::ledger;
use crate::ledger::permit::Committed;
use crate::limits::Went;

/// Why there is no decision on the books.
pub(super) enum Undecided {
    /// Its caller no longer wants it, and nothing was written.
    Cancelled,
    /// It was held and more people have to approve it.
    StillHeld,
    /// The gate is not fit to decide.
    Gate(Condition),
    /// The ledger says why.
    Ledger(ledger::Error),
}

/// Where a call that was held is now.
pub(super) const fn became<T>(committed: &Result<(Committed, T), Undecided>) -> &'static str {
    match committed {
        Ok((Committed::Permit(_), _)) => "authorized",
        Ok((Committed::Refusal(_), _)) => "denied",
        Ok((Committed::Held(_), _)) | Err(Undecided::StillHeld | Undecided::Gate(_)) => "held",
        Err(Undecided::Cancelled) => "cancelled",
        Err(Undecided::Ledger(_)) => "unsure",
    }
}

impl Road {
    /// Nothing is on the books, or it is in doubt.
    pub(super) fn uncommitted(
        &self,
        run: &Run,
        id: &CallId,
        why: &Undecided,
        caller: &watch::Sender<Option<Answer>>,
    ) {
        if let Undecided::Gate(condition) = why {
            run.forget(id);
            let fault = condition.fault().about(id);
            self.budget.reject(fault.code);
            caller.send_replace(Some(Err(fault)));
            return;
        }
        let Undecided::Ledger(error) = why else {
            run.forget(id);
            let message = "cancelled before it was decided; nothing is recorded";
            self.budget.reject(Code::CallCancelled);
            caller.send_replace(Some(Err(Fault::new(Code::CallCancelled, message).about(id))));
            return;
        };
        match error {
            ledger::Error::Unknown => run.left(id, CallStage::Doubted, Went::NotRun),
            ledger::Error::CallTaken => run.left(id, CallStage::Booked, Went::NotRun),
            ledger::Error::Overloaded
            | ledger::Error::Unavailable(_)
            | ledger::Error::RunNotOpen
            | ledger::Error::CallsOpen => run.forget(id),
        }
        let fault = Fault::of_ledger(error).about(id);
        self.budget.reject(fault.code);
        caller.send_replace(Some(Err(fault)));
    }
}
