//! Cancels a call that its caller no longer wants.

use std::sync::Arc;

use super::Road;
use super::run::{CallStage, Run};
use crate::domain::id::CallId;
use crate::tool;

impl Road {
    /// Asks a call to stop. An undecided call ends without a record. A permitted call that has not
    /// begun ends cancelled. A running call ends cancelled if its tool only reads, and unknown
    /// otherwise. A held call ends cancelled. A call that is over is not changed.
    pub fn cancel(&self, run: &Arc<Run>, call: &str) {
        if let Some(call) = CallId::parse(call) {
            self.stop_call(run, &call, tool::CANCELLED);
        }
    }

    /// The same for this reason.
    pub(super) fn stop_call(&self, run: &Arc<Run>, call: &CallId, why: &'static str) {
        let held = {
            // WHY under the lock: a call that becomes held right now must see the cancellation.
            let state = run.state.lock();
            let place = state.calls.get(call);
            if let Some(CallStage::OnRoad(at)) = place {
                at.cancel.cancel(why);
            }
            matches!(place, Some(CallStage::Held))
        };
        if held {
            drop(self.holds.stop(run, call, why));
        }
    }
}
