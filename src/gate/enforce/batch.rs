//! T0 in batches: the result of a tool that only reads is released while its outcome waits for the next
//! batch. The one exception to "nothing is released before it is durable", off unless asked for; what
//! it can cost is in `ledger::later`.

use tokio::sync::watch;

use super::answer::{self, Answer};
use super::run::{CallStage, Run};
use super::{Road, Went};
use crate::ledger::permit::Finished;

impl Road {
    /// Answers the caller now if the outcome may wait, and comes back once it is on the books; else
    /// gives the outcome back, to be settled as every other.
    pub(super) async fn settle_later(
        &self,
        run: &Run,
        finished: Finished,
        went: Went,
        caller: &watch::Sender<Option<Answer>>,
    ) -> Option<Finished> {
        if !self.settings.bounds.batch_t0 {
            return Some(finished);
        }
        let id = finished.call().clone();
        let (pledged, promised) = match self.ledger.promise(finished) {
            Ok(promised) => promised,
            Err(finished) => return Some(*finished),
        };
        // The call is over for the run's limits. Its id stays on the road until the books have it, so
        // that who asks again gets this answer and the run is not sealed before.
        run.ended(went);
        let answer = answer::of_pledged(pledged);
        if let Ok(released) = &answer {
            self.runs.large.keep(run.id(), run.incognito, released);
        }
        caller.send_replace(Some(answer));
        // Where the writer ends first, the next one closes the call.
        drop(promised.kept().await);
        run.booked(&id, CallStage::Booked);
        None
    }
}
