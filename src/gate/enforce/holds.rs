//! Calls that wait for an approver: whose signatures count for them, and how they end without one.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::task::JoinHandle;

use super::Parts;
use super::approve::{ApprovalRefusal, CallParties, Checker};
use super::control::Releaser;
use super::life::reached;
use super::run::Run;
use super::tasks::Tasks;
use crate::clock::Clock;
use crate::domain::id::CallId;
use crate::domain::time::Timestamp;
use crate::ledger::hold::HeldCall;
use crate::ledger::{self, Ledger, closing};

/// How long an approval waits for a call that is being judged again.
const AGAIN: Duration = Duration::from_secs(5);

/// Whose signatures count. By default nobody's do.
#[derive(Clone, Debug, Default)]
pub struct Signers {
    /// For approvals of held calls.
    pub approvals: Option<Arc<dyn Checker>>,
    /// For orders that take back a stop.
    pub orders: Option<Arc<dyn Releaser>>,
}

/// The calls of this gate that wait for an approver. Each is a `Place::Held` of its run.
pub(super) struct Holds {
    signers: ArcSwap<Signers>,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
}

impl Holds {
    /// No call is held yet.
    pub fn new(parts: &Parts, tasks: &Tasks) -> Self {
        Self {
            signers: ArcSwap::from_pointee(parts.signers.clone()),
            ledger: parts.ledger.clone(),
            clock: Arc::clone(&parts.clock),
            tasks: tasks.clone(),
        }
    }

    /// Replaces those whose signatures count.
    pub fn replace(&self, signers: Signers) {
        self.signers.store(Arc::new(signers));
    }

    /// Who checks approvals.
    pub fn checker(&self) -> Result<Arc<dyn Checker>, ApprovalRefusal> {
        self.signers.load().approvals.clone().ok_or_else(|| {
            let message = "no approvers are configured".to_owned();
            ApprovalRefusal { detail: "approval.signer".into(), message }
        })
    }

    /// Who checks orders that take back a stop.
    pub fn releaser(&self) -> Result<Arc<dyn Releaser>, ApprovalRefusal> {
        self.signers.load().orders.clone().ok_or_else(|| {
            let message = "no list says who the operators are: set `approvals.signers`, and give operators' keys \
                           the role `operator` and the namespace `wicketgate-order`"
                .to_owned();
            ApprovalRefusal { detail: "order.none".into(), message }
        })
    }

    /// The hold this call is under, if this process thinks so too. While it is judged again it is neither held nor
    /// over: that is waited for, for a moment.
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

    /// When the hold of a call ends; `unread`: if the ledger cannot say.
    pub async fn expires(&self, run: &Run, call: &CallId, unread: Timestamp) -> Option<Timestamp> {
        match self.ledger.hold(run.id(), call).await {
            Ok(hold) => hold.map(|hold| hold.expires),
            Err(_) => Some(unread),
        }
    }

    /// Ends a held call without running it.
    ///
    /// # Errors
    /// The ledger's: the call is held still, unless it is `CallTaken`. Then it ended otherwise in the same moment.
    pub async fn end(&self, run: &Run, call: &CallId, why: &str) -> Result<(), ledger::Error> {
        self.ledger.owe(closing::held_ended(run.id, call, false, why)).await?;
        run.unheld(call);
        Ok(())
    }

    /// Ends a held call because it was stopped, by a task of its own; false if it ended otherwise in the same moment.
    pub fn stop(&self, run: &Arc<Run>, call: &CallId, why: &'static str) -> JoinHandle<bool> {
        let (ledger, run, call) = (self.ledger.clone(), Arc::clone(run), call.clone());
        self.tasks.spawn(async move {
            let ended = ledger.owe(closing::held_ended(run.id, &call, false, why)).await;
            run.unheld(&call);
            ended.is_ok()
        })
    }

    /// Ends a held call when its time is over, unless it ends otherwise first.
    pub fn watch(&self, run: &Arc<Run>, call: &CallId, expires: Timestamp) {
        let (run, call) = (Arc::clone(run), call.clone());
        let (ledger, tasks, clock) =
            (self.ledger.clone(), self.tasks.clone(), Arc::clone(&self.clock));
        self.tasks.spawn(async move {
            if tasks.unless_stopping(reached(&*clock, expires)).await && run.is_held(&call) {
                let ended = closing::held_ended(run.id, &call, true, "no approval in time");
                drop(ledger.owe(ended).await);
                run.unheld(&call);
            }
        });
    }
}
