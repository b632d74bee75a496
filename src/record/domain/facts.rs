//! What is known about a call before anybody decides: its tool, and what the firewall saw in it.

use std::time::Duration;

use serde::Deserialize;

use super::digest::Digest;
use super::id::ToolName;
use super::tier::Tier;

/// What is known about a tool from its binding, the manifest's grant taken into account.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolFacts {
    /// Its name.
    pub name: ToolName,
    /// `http`, `file.read`, …
    pub kind: String,
    /// max(binding, manifest).
    pub tier: Tier,
    /// The operator says it changes nothing.
    pub read_only: bool,
    /// The operator says running it twice is running it once.
    pub idempotent: bool,
    /// SHA-256 of what the agent is shown and the effective binding without secrets.
    pub definition: Digest,
    /// From permit to the end of the call.
    pub timeout: Duration,
    /// Result bytes.
    pub result_bytes_max: u64,
    /// What one call costs, if the binding says so; millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// For how long the same call under another id is this one.
    pub dedupe: Option<Duration>,
}

/// Something the firewall saw in arguments (`input.findings[]`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub struct Finding {
    /// `email`, `card`, `iban`, `us_ssn`, …
    pub kind: String,
    /// JSON pointer of the value it was seen in.
    pub path: String,
}
