//! The input of a decision, for comparison with its entry: exactly the members that this version
//! writes.

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::contradiction::Error;
use crate::domain::json::Json;
use crate::domain::members::Mismatch;
use crate::domain::time::Timestamp;
use crate::policy::flow::TaintInput;
use crate::policy::input::{FirewallInput, VERSION, VERSION_1};

/// The whole document.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    pub v: String,
    pub agent: Agent,
    pub approvals: Json,
    pub args: Json,
    pub break_glass: Json,
    pub call: Call,
    pub context: ClaimedFacts,
    pub effect: Json,
    pub findings: Json,
    /// Absent in version 1, and in the first documents of version 2.
    pub firewall: Option<FirewallInput>,
    pub history: Counters,
    pub observe: Vec<String>,
    #[serde(rename = "pools")]
    _pools: IgnoredAny,
    pub quorum: Json,
    pub run: InputRun,
    /// Absent in version 1.
    pub taint: Option<TaintInput>,
    pub time: Json,
    pub tool: Tool,
}

/// The caller.
#[derive(Debug, Deserialize)]
pub(super) struct Agent {
    pub id: String,
    pub version: String,
    pub manifest: String,
    pub binding: String,
    pub owner: Json,
    pub labels: Json,
    pub delegation: Json,
    /// Absent in an earlier version, which required `observed`.
    pub tier3: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Call {
    pub id: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct ClaimedFacts {
    pub claimed: Json,
}

#[derive(Debug, PartialEq, Deserialize)]
pub(super) struct Counters {
    calls: u64,
    errors: u64,
}

/// The run so far.
#[derive(Debug, Deserialize)]
pub(super) struct InputRun {
    pub id: String,
    pub mode: String,
    /// Absent in an earlier version.
    pub incognito: Option<bool>,
    pub opened_at: Timestamp,
    pub labels: Json,
    #[serde(flatten)]
    pub counters: Counters,
}

#[derive(Debug, Deserialize)]
pub(super) struct Tool {
    pub name: String,
    pub kind: String,
    pub tier: String,
    pub definition: String,
}

/// When the policy was evaluated, in one spelling.
#[derive(Debug, Deserialize)]
pub(super) struct Time {
    pub rfc3339: Timestamp,
}

impl Input {
    /// Reads the document.
    pub fn of(json: &Json) -> Result<Self, Error> {
        json.read().map_err(|mismatch| match &mismatch {
            Mismatch::Unknown(name) | Mismatch::Missing(name) if !name.contains('.') => {
                Error::Members
            }
            Mismatch::Unknown(_) | Mismatch::Missing(_) | Mismatch::Value { .. } => {
                Error::Shape(mismatch)
            }
        })
    }

    /// The version that a document with these members has.
    pub const fn version(&self) -> &'static str {
        if self.taint.is_some() || self.firewall.is_some() { VERSION } else { VERSION_1 }
    }

    /// When the policy was evaluated.
    pub fn evaluated_at(&self) -> Result<Timestamp, Error> {
        self.time.read().map(|Time { rfc3339 }| rfc3339).map_err(|_| Error::NoTime)
    }
}
