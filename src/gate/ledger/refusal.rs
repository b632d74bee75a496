//! The end of a call that was denied.

use super::permit::Receipt;
use crate::domain::decision::{Alarm, LayerReason};
use crate::domain::id::CallId;
use crate::judge::Judged;

/// A denied call whose denial is recorded.
#[derive(Debug)]
#[must_use]
pub struct Refusal {
    call: CallId,
    reasons: Vec<LayerReason>,
    alarm: Option<Alarm>,
    receipt: Receipt,
}

impl Refusal {
    pub(super) fn mint(judged: Judged, receipt: Receipt) -> Self {
        let (prepared, decision) = judged.into_parts();
        let (call, alarm) = (prepared.call().id().clone(), decision.alarm);
        Self { call, reasons: decision.reasons, alarm, receipt }
    }

    /// What the gate itself detected in the call. The agent does not see it.
    #[must_use]
    pub const fn alarm(&self) -> Option<Alarm> {
        self.alarm
    }

    /// The call.
    #[must_use]
    pub const fn call(&self) -> &CallId {
        &self.call
    }

    /// The reasons that the agent receives.
    #[must_use]
    pub fn reasons(&self) -> &[LayerReason] {
        &self.reasons
    }

    /// The position of the entry that records the denial.
    #[must_use]
    pub const fn receipt(&self) -> &Receipt {
        &self.receipt
    }
}
