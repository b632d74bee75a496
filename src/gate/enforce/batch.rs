//! T0 batching: the result of a read-only tool is released while its outcome waits for the next
//! batch. This is the one exception to "nothing is released before it is durable", and is off by
//! default; `ledger::later` says what a crash can cost.

use tokio::sync::watch;

use super::answer::{self, Answer};
use super::run::{CallStage, Run};
use super::{BudgetOutcome, Road};
use crate::ledger::permit::Finished;

impl Road {
    /// If the outcome may wait, answers the caller now and returns once the outcome is recorded.
    /// Otherwise returns the outcome, to be settled as usual.
    pub(super) async fn settle_later(
        &self,
        run: &Run,
        finished: Finished,
        outcome: BudgetOutcome,
        caller: &watch::Sender<Option<Answer>>,
    ) -> Option<Finished> {
        if !self.settings.bounds.batch_t0 {
            return Some(finished);
        }
        let brings = !finished.observed().labels.is_empty();
        let order = if brings { self.runs.taint.try_answering() } else { None };
        if brings && order.is_none() {
            return Some(finished);
        }
        // WHY before: the answer is released as soon as its outcome is promised.
        self.brought(run, &finished);
        let id = finished.call().clone();
        let unstored = run.incognito || finished.withholds();
        let (queued, promised) = match self.ledger.promise(finished) {
            Ok(promised) => promised,
            Err(finished) => return Some(*finished),
        };
        // The run's limits count the call as over. Its id stays on the road until the outcome is
        // recorded, so that a retry gets this answer and the run is not sealed before.
        run.ended(outcome);
        let answer = answer::of_pledged(queued);
        if let Ok(released) = &answer {
            self.runs.large.keep(run.id(), unstored, released);
        }
        caller.send_replace(Some(answer));
        // If the writer ends first, the next writer closes the call.
        drop(promised.kept().await);
        run.booked(&id, CallStage::Booked);
        None
    }
}
