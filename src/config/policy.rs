//! `policy`: the bundle that decides, and how a new one comes into force.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::form::FilePath;

/// `policy`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Directory of the signed policy bundle.
    #[schemars(with = "Option<FilePath>", extend("x-null" = "no bundle: the gate is not ready and denies every call"))]
    pub bundle: Option<PathBuf>,
    /// Milliseconds that one evaluation may take. A call whose evaluation takes longer is denied.
    #[schemars(range(min = 1, max = 10_000))]
    pub deadline_ms: u64,
    /// What happens to a bundle in which `policy lint` finds an error.
    pub lint: Lint,
    /// Whether a new bundle needs a proposal and approvals in the ledger before it comes into force.
    pub amendments: Amendments,
    /// Publishers that must approve an amendment. Its author does not count.
    #[schemars(range(min = 1, max = 16))]
    pub approvals: u64,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            bundle: None,
            deadline_ms: 100,
            lint: Lint::Enforce,
            amendments: Amendments::Off,
            approvals: 1,
        }
    }
}

/// `policy.amendments`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Amendments {
    /// The signed bundle in its directory comes into force at a start or reload.
    Off,
    /// Only a bundle that was proposed and approved replaces the one in force.
    Required,
}

/// `policy.lint`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Lint {
    /// The gate refuses the bundle; the one before stays in force.
    Enforce,
    /// The bundle comes into force, and readiness reports the findings.
    Warn,
}
