//! Stopping a call: its caller no longer wants it.

use std::sync::Arc;

use super::Road;
use super::run::{CallStage, Run};
use crate::domain::id::CallId;
use crate::tool;

impl Road {
    /// Asks a call to stop. One that is not decided yet ends without a record; one that is permitted
    /// and not begun ends cancelled; one at its tool ends cancelled if the tool only reads, else
    /// unknown; one that is held ends cancelled. A call that is over is left alone.
    pub fn cancel(&self, run: &Arc<Run>, call: &str) {
        let Some(call) = CallId::parse(call) else { return };
        let held = {
            // WHY: told while the place is locked, so that a call that becomes held knows of it.
            let state = run.state.lock();
            let place = state.calls.get(&call);
            if let Some(CallStage::OnRoad { cancel, .. }) = place {
                cancel.cancel(tool::CANCELLED);
            }
            matches!(place, Some(CallStage::Held))
        };
        if held {
            drop(self.holds.stop(run, &call, tool::CANCELLED));
        }
    }
}
