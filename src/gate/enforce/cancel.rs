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
        if run.stop_on_road(call, why) {
            drop(self.holds.stop(run, call, why));
        }
    }
}

impl Run {
    /// Asks a call on the road to stop. Whether it is held instead.
    pub(super) fn stop_on_road(&self, call: &CallId, why: &'static str) -> bool {
        // WHY under the lock: a call that becomes held right now must see the cancellation.
        let state = self.state.lock();
        let place = state.calls.get(call);
        if let Some(CallStage::OnRoad(at)) = place {
            at.cancel.cancel(why);
        }
        matches!(place, Some(CallStage::Held))
    }
}
