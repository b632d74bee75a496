//! `alerts`: when the gate tells operators that they should look at something.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::alert::{AlertRules, BurstRule};

/// `alerts`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Alerts {
    /// How many denials of one run in a short time raise `burst_denial`, and how many texts that could not be searched
    /// raise `unscanned_burst`.
    pub burst_denial: BurstDenial,
    /// How many denials of one tool in one run raise `repeated_denial`.
    pub repeated_denial: RepeatedDenial,
    /// Seconds after an alert in which the same alert about the same run and tool is only counted.
    #[schemars(range(min = 1, max = 86_400))]
    pub quiet_seconds: u64,
    /// Whether the receiver of `approvals.webhook` gets alerts as well.
    pub webhook: bool,
}

/// `alerts.burst_denial`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BurstDenial {
    /// How many denials, or texts.
    #[schemars(range(min = 1, max = 1000))]
    pub count: u64,
    /// Within so many seconds.
    #[schemars(range(min = 1, max = 3600))]
    pub seconds: u64,
}

/// `alerts.repeated_denial`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RepeatedDenial {
    /// How many denials.
    #[schemars(range(min = 1, max = 100_000))]
    pub count: u64,
}

impl Default for BurstDenial {
    fn default() -> Self {
        let BurstRule { count, within } = AlertRules::default().burst;
        Self { count, seconds: within.as_secs() }
    }
}

impl Default for RepeatedDenial {
    fn default() -> Self {
        Self { count: AlertRules::default().repeated }
    }
}

impl Default for Alerts {
    fn default() -> Self {
        Self {
            burst_denial: BurstDenial::default(),
            repeated_denial: RepeatedDenial::default(),
            quiet_seconds: AlertRules::default().quiet.as_secs(),
            webhook: true,
        }
    }
}

impl Alerts {
    /// When alerts are raised.
    #[must_use]
    pub const fn rules(&self) -> AlertRules {
        let BurstDenial { count, seconds } = self.burst_denial;
        AlertRules {
            burst: BurstRule { count, within: Duration::from_secs(seconds) },
            repeated: self.repeated_denial.count,
            quiet: Duration::from_secs(self.quiet_seconds),
        }
    }
}
