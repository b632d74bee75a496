//! `trust`: whose signatures count, and how much the calls of a tool do.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::break_glass::BreakGlass;
use crate::catalog::form::FilePath;
use crate::identity::callers::AccountTrust;
use crate::record::trust::TrustWindow;

/// `trust`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Trust {
    /// Public key files (PEM) that verify manifests.
    #[schemars(with = "KeyFiles")]
    pub manifest_keys: Vec<PathBuf>,
    /// How many of the manifest keys must sign a manifest.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub manifest_threshold: usize,
    /// Public key files (PEM) that verify policy bundles. Each key may have only one use.
    #[serde(default)]
    #[schemars(with = "Vec<FilePath>", length(max = 64))]
    pub policy_keys: Vec<PathBuf>,
    /// How many of the policy keys must sign a bundle.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub policy_threshold: usize,
    /// Public key files (PEM) that verify the list of approvers. Each key may have only one use.
    #[serde(default)]
    #[schemars(with = "Vec<FilePath>", length(max = 64))]
    pub approver_keys: Vec<PathBuf>,
    /// How many of the approver keys must sign the list.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 64))]
    pub approver_threshold: usize,
    /// Public key files (PEM) that verify the lock of MCP servers. One signature is enough.
    #[serde(default)]
    #[schemars(with = "Vec<FilePath>", length(max = 64))]
    pub lock_keys: Vec<PathBuf>,
    /// Who may bypass approvals for a short time. Without this section, break-glass is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<BreakGlass>,
    /// The Kubernetes cluster whose service accounts may be callers (`callers[].k8s_service_account`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<Box<AccountTrust>>,
    /// Whether policies see how often the calls of a tool ended well (`input.tool.trust`).
    #[serde(default)]
    pub input: bool,
    /// Trust in a tool is about so many calls that ended, the newest.
    #[serde(default = "window")]
    #[schemars(range(min = 20, max = TrustWindow::CALLS_MAX))]
    pub window: u64,
    /// Trust in a tool is about calls that ended within so many days.
    #[serde(default = "days")]
    #[schemars(range(min = 1, max = TrustWindow::DAYS_MAX))]
    pub days: u64,
}

impl Trust {
    /// The calls that scores are about.
    pub const fn score_window(&self) -> TrustWindow {
        TrustWindow { calls: self.window, days: self.days }
    }
}

fn window() -> u64 {
    TrustWindow::default().calls
}

fn days() -> u64 {
    TrustWindow::default().days
}

/// The schema of a list of key files that may not be empty.
#[derive(JsonSchema)]
#[schemars(extend("x-error" = "expected 1 to 64 public key files"))]
pub(super) struct KeyFiles(
    #[schemars(length(min = 1, max = 64))]
    #[expect(dead_code, reason = "only its schema is used")]
    Vec<FilePath>,
);

pub(super) const fn one() -> usize {
    1
}
