//! What the gate demands of itself and of the place where its agents run: `self_test`, `isolation`, `posture`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `self_test`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelfTest {
    /// Seconds between two self-test calls, which the gate makes itself and must deny.
    #[schemars(range(min = 10, max = 86_400))]
    pub every_seconds: u64,
    /// Whether the gate becomes ready only after it denied the first self-test call.
    pub at_start: bool,
}

impl Default for SelfTest {
    fn default() -> Self {
        Self { every_seconds: 3600, at_start: true }
    }
}

/// `isolation`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// The gate records the results of `wicketgate config doctor`; calls do not depend on them.
    #[default]
    Advisory,
    /// The gate is ready, and allows an agent's calls, only while a recent `wicketgate config doctor` of that agent
    /// found no way around the gate.
    Enforced,
}

/// `posture`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Posture {
    /// Seconds for which a result of `wicketgate config doctor` is valid.
    #[schemars(range(min = 2, max = 86_400))]
    pub stale_after_seconds: u64,
}

impl Default for Posture {
    fn default() -> Self {
        Self { stale_after_seconds: 900 }
    }
}
