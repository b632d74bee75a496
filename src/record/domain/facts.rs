//! The facts about a call before the decision: its tool, and what the firewall found in it.

use std::time::Duration;

use serde::Deserialize;

use super::closed::texts;
use super::digest::Digest;
use super::id::ToolName;
use super::taint::ToolRoles;
use super::tier::Tier;

/// The facts about a tool from its binding, with the manifest's grant applied.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolFacts {
    /// Its name.
    pub name: ToolName,
    /// `http`, `file.read`, …
    pub kind: String,
    /// max(binding, manifest).
    pub tier: Tier,
    /// The operator states that it changes nothing.
    pub read_only: bool,
    /// The operator states that running it twice equals running it once.
    pub idempotent: bool,
    /// SHA-256 of the definition shown to the agent and the effective binding without secrets.
    pub definition: Digest,
    /// From permit to the end of the call.
    pub timeout: Duration,
    /// Result bytes.
    pub result_bytes_max: u64,
    /// The cost of one call, if the binding states it; millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// How long the same call under another id counts as this one.
    pub dedupe: Option<Duration>,
    /// What its answers bring into a run, and where its arguments can get to.
    pub roles: ToolRoles,
}

texts! {
    /// Whether the text with a finding is new to its run.
    #[derive(Default)]
    pub enum FindingAge {
        /// It came with this call.
        #[default]
        New = "new",
        /// It is a message that an earlier call of the run sent too.
        Earlier = "earlier",
    }
}

/// The kind of a finding that is not the firewall's: a request to a model has the result of a tool of
/// the gate, which a model asked for and the agent never called at the gate.
pub const BYPASSED: &str = "proposal.bypassed";

/// A finding of the firewall in arguments (`input.findings[]`).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Deserialize)]
pub struct Finding {
    /// `email`, `card`, `iban`, `us_ssn`, …
    pub kind: String,
    /// JSON pointer of the value with the finding.
    pub path: String,
    /// Earlier versions of the input did not tell.
    #[serde(default)]
    pub since: FindingAge,
}

impl Finding {
    /// A finding in a text that is new to the run.
    pub fn new(kind: &str, path: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), path: path.into(), since: FindingAge::New }
    }
}
