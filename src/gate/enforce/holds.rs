//! Calls that wait for an approver: the components that check signatures, and the end of a hold.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::task::JoinHandle;

use super::Parts;
use super::approve::{CallParties, Checker};
use super::control::Releaser;
use super::life::reached;
use super::run::Run;
use super::tasks::Tasks;
use crate::approval::approvers::Purpose;
use crate::approval::{ApprovalRefusal, RefusalReason};
use crate::clock::Clock;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::id::CallId;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::ledger::hold::HeldCall;
use crate::ledger::{self, Ledger, closing};

/// How long an approval waits for a call that is being judged again.
const AGAIN: Duration = Duration::from_secs(5);

/// The components that check signatures. By default there are none, so no signature is counted.
#[derive(Clone, Debug, Default)]
pub struct Signers {
    /// For approvals of held calls.
    pub approvals: Option<Arc<dyn Checker>>,
    /// For orders that take back a stop.
    pub orders: Option<Arc<dyn Releaser>>,
}

/// The held calls of this gate. Each is a `CallStage::Held` of its run.
pub(super) struct Holds {
    signers: ArcSwap<Signers>,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
}

impl Holds {
    /// Starts without any held call.
    pub fn new(parts: &Parts, tasks: &Tasks) -> Self {
        Self {
            signers: ArcSwap::from_pointee(parts.signers.clone()),
            ledger: parts.ledger.clone(),
            clock: Arc::clone(&parts.clock),
            tasks: tasks.clone(),
        }
    }

    /// Replaces the components that check signatures.
    pub fn replace(&self, signers: Signers) {
        self.signers.store(Arc::new(signers));
    }

    /// The component that checks approvals.
    pub fn checker(&self) -> Result<Arc<dyn Checker>, ApprovalRefusal> {
        let checker = self.signers.load().approvals.clone();
        checker.ok_or_else(|| Purpose::Approval.refusal(RefusalReason::NoApprovers))
    }

    /// The component that checks orders that take back a stop.
    pub fn releaser(&self) -> Result<Arc<dyn Releaser>, ApprovalRefusal> {
        let releaser = self.signers.load().orders.clone();
        releaser.ok_or_else(|| Purpose::Order.refusal(RefusalReason::NoOperators))
    }

    /// The hold of this call, if both the ledger and this process have it as held. A call that is
    /// being judged again is neither held nor over; this waits for it, for at most `AGAIN`.
    pub async fn find(&self, run: &Run, call: &CallId) -> Result<Option<HeldCall>, CallParties> {
        let judged = tokio::time::timeout(AGAIN, run.off_the_road(call)).await.is_ok();
        let waits = run.is_held(call);
        if judged && !waits {
            return Ok(None);
        }
        let hold = self.ledger.hold(run.id(), call).await;
        let hold = hold.map_err(|error| CallParties::Unavailable(error.to_string()))?;
        if hold.is_some() && !waits {
            let again = "the call is being judged again at this moment; say it once more";
            return Err(CallParties::Unavailable(again.to_owned()));
        }
        Ok(hold)
    }

    /// When the hold of a call ends; `unread` if the ledger cannot be read.
    pub async fn expires(&self, run: &Run, call: &CallId, unread: Timestamp) -> Option<Timestamp> {
        match self.ledger.hold(run.id(), call).await {
            Ok(hold) => hold.map(|hold| hold.expires),
            Err(_) => Some(unread),
        }
    }

    /// Ends a held call without running it.
    ///
    /// # Errors
    /// The ledger's error. The call stays held, except after `CallTaken`: it then ended in another
    /// way at the same moment.
    pub async fn end(&self, run: &Run, call: &CallId, why: &str) -> Result<(), ledger::Error> {
        self.ledger.owe(closing::held_ended(run.id, call, false, why)).await?;
        run.unheld(call);
        Ok(())
    }

    /// Cancels a held call in a task of its own; false if it ended in another way at the same
    /// moment.
    pub fn stop(&self, run: &Arc<Run>, call: &CallId, why: &'static str) -> JoinHandle<bool> {
        let (ledger, run, call) = (self.ledger.clone(), Arc::clone(run), call.clone());
        self.tasks.spawn(async move {
            let ended = ledger.owe(closing::held_ended(run.id, &call, false, why)).await;
            run.unheld(&call);
            ended.is_ok()
        })
    }

    /// Ends a held call when its time is over, unless it ends in another way first.
    pub fn watch(&self, run: &Arc<Run>, call: &CallId, expires: Timestamp) {
        // WHY weak: a run may be sealed and forgotten long before.
        let (run, call) = (Arc::downgrade(run), call.clone());
        let (ledger, tasks, clock) =
            (self.ledger.clone(), self.tasks.clone(), Arc::clone(&self.clock));
        self.tasks.spawn(async move {
            if tasks.unless_stopping(reached(&*clock, expires, &run)).await
                && let Some(run) = run.upgrade().filter(|run| run.is_held(&call))
            {
                let ended = closing::held_ended(run.id, &call, true, "no approval in time");
                drop(ledger.owe(ended).await);
                run.unheld(&call);
            }
        });
    }
}

impl Run {
    /// Reserves a place among the held calls, or returns the reason there is none. `capacity`:
    /// whether the limit over all runs has space.
    pub(super) fn hold_place(
        &self,
        call: &CallId,
        most: usize,
        capacity: bool,
    ) -> Option<LayerReason> {
        let mut state = self.state.lock();
        let held = state.held.saturating_add(state.holding.len());
        if held < most && capacity {
            state.holding.insert(call.clone());
            return None;
        }
        let message = match capacity {
            true => {
                format!(
                    "this run has {}, and may have no more than {most}",
                    many(held, "held call")
                )
            }
            false => "too many calls wait for an approval".to_owned(),
        };
        Some(LayerReason {
            code: Code::LimitExceeded,
            detail: "limit.pending".into(),
            message,
            rule: "approvals.pending".into(),
        })
    }
}
