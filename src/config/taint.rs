//! `taint`: what the gate does about calls of runs that have read untrusted content or private data.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::domain::taint::FlowAction;
use crate::enforce::FlowSettings;
use crate::policy::flow::FlowFloor;

/// Longest time that labels stay with a caller.
const LINGER_MAX: u64 = 7 * 86_400;

/// `taint`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TaintRules {
    /// What happens to a call that leads outside and holds a copy of what a run has read, if the run has read untrusted
    /// content and private data.
    pub trifecta: FlowRule,
    /// What happens to a call of such a run that leads outside and holds no such copy.
    pub label_only: FlowRule,
    /// Seconds for which the labels of a run stay with its caller after the run is over. With 0, the runs that a caller
    /// has open do not share labels either.
    #[schemars(range(max = LINGER_MAX))]
    pub linger_seconds: u64,
}

impl Default for TaintRules {
    fn default() -> Self {
        Self { trifecta: FlowRule::Approve, label_only: FlowRule::Alert, linger_seconds: 900 }
    }
}

/// What happens to such a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowRule {
    /// The policy alone decides.
    Off,
    /// The policy alone decides, and the entry of the decision says what the call is.
    Alert,
    /// The call waits for an approver, if the policy lets it run.
    Approve,
    /// The gate denies the call.
    Deny,
}

impl From<FlowRule> for FlowAction {
    fn from(rule: FlowRule) -> Self {
        match rule {
            FlowRule::Off => Self::Off,
            FlowRule::Alert => Self::Alert,
            FlowRule::Approve => Self::Approve,
            FlowRule::Deny => Self::Deny,
        }
    }
}

impl TaintRules {
    /// The settings of the gate.
    pub fn settings(&self) -> FlowSettings {
        let (label_only, trifecta) = (self.label_only.into(), self.trifecta.into());
        let floor = FlowFloor { label_only, trifecta };
        FlowSettings { floor, linger: Duration::from_secs(self.linger_seconds) }
    }
}
