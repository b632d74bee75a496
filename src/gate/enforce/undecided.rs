//! Calls that leave the road without a recorded decision.

use tokio::sync::watch;

use super::Road;
use super::answer::{Answer, Fault};
use super::condition::Condition;
use super::run::{CallStage, Run};
use crate::domain::code::Code;
use crate::domain::id::CallId;
use crate::ledger;
use crate::ledger::permit::Committed;
use crate::limits::BudgetOutcome;

/// Why no decision is recorded.
pub(super) enum Undecided {
    /// The caller cancelled the call, and nothing was written.
    Cancelled,
    /// The call was held and needs more approvals.
    StillHeld,
    /// A condition of the gate keeps it from deciding.
    Gate(Condition),
    /// The ledger's error.
    Ledger(ledger::Error),
}

/// The state of a held call after it was judged again.
pub(super) const fn decision_name<T>(
    committed: &Result<(Committed, T), Undecided>,
) -> &'static str {
    match committed {
        Ok((Committed::Permit(_), _)) => "authorized",
        Ok((Committed::Refusal(_), _)) => "denied",
        Ok((Committed::Held(_), _)) | Err(Undecided::StillHeld | Undecided::Gate(_)) => "held",
        Err(Undecided::Cancelled) => "cancelled",
        Err(Undecided::Ledger(_)) => "unsure",
    }
}

impl Road {
    /// Ends a call whose decision is not recorded, or may not be.
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
            ledger::Error::Unknown => run.leave_road(id, CallStage::Doubted, BudgetOutcome::NotRun),
            ledger::Error::CallTaken => {
                run.leave_road(id, CallStage::Booked, BudgetOutcome::NotRun);
            }
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
