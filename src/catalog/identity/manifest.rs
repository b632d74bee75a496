//! The agent's manifest: what it may ever use, with budgets; signed, small, reviewed like code.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};

use super::client_tools::{ClientTool, UnknownTools};
use super::instructions::Instructions;
use super::templates::Templates;
use crate::domain::closed::{self, texts};
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::tier::{Binding, Face, Tier};
use crate::domain::time::Timestamp;

texts! {
    /// `spec.status`.
    pub enum Status {
        /// Runs may be opened.
        Active = "active",
        /// No new runs for now.
        Suspended = "suspended",
        /// No new runs, ever.
        Retired = "retired",
        /// No new runs; taken back.
        Revoked = "revoked",
    }
}

texts! {
    /// `spec.mode`: the effect of an allowed call.
    #[derive(Default)]
    pub enum Mode {
        /// It runs.
        #[default]
        Enforce = "enforce",
        /// The gate decides and records the call, and does not run it.
        Simulate = "simulate",
    }
}

texts! {
    /// `spec.incognito`: whether payloads of its runs are kept.
    #[derive(Default)]
    pub enum Incognito {
        /// The ledger keeps the payloads of every run; a run that asks for anything else is refused.
        #[default]
        Forbidden = "forbidden",
        /// A run may ask that only commitments to its payloads are kept.
        Allowed = "allowed",
        /// The ledger keeps only commitments of every run, whatever the run asks for.
        Required = "required",
    }
}

/// The runs above a run, at most: a run opened by an operator's caller, a child, a grandchild and
/// that one's child; no further. Manifests name each other by digest, so they cannot form a cycle:
/// this bounds the length of a chain.
pub const DELEGATION_DEPTH_MAX: usize = 3;

/// One granted tool. What is granted `{server, lock, allow}` in the text is one grant for each name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The tool: for one of an MCP server `<server>.<its own name>`.
    pub name: ToolName,
    /// At least this tier.
    pub tier: Option<Tier>,
    /// The only accepted definition, if pinned.
    pub definition: Option<Digest>,
    /// The MCP server it is granted from.
    pub server: Option<String>,
    /// Ids of the keys that must all have signed the tool's lock; empty for a tool granted by its
    /// name alone, more than one only where several manifests of a delegation require different
    /// ones.
    pub signers: Vec<String>,
}

impl Grant {
    /// The grant of a tool by its name alone.
    pub const fn of(name: ToolName) -> Self {
        Self { name, tier: None, definition: None, server: None, signers: Vec::new() }
    }
}

/// Limits of one run. Absent means no limit of the manifest's own.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunLimits {
    /// Calls of one run.
    pub calls: Option<u64>,
    /// Calls of one run in any 60 seconds.
    pub calls_per_minute: Option<u64>,
    /// Calls of one run at the same time.
    pub concurrency: Option<u64>,
    /// Seconds from `run.opened` until the run token dies.
    pub wall_seconds: Option<u64>,
    /// Failed or unknown calls in a row.
    pub consecutive_errors: Option<u64>,
    /// Identical calls (same tool and arguments) in a row.
    pub repeated_calls: Option<u64>,
    /// Tokens that model calls of one run may read and write.
    pub tokens: Option<u64>,
    /// What the calls of one run may cost (`cost_usd`), in millionths of a US dollar.
    #[serde(rename = "cost_usd", deserialize_with = "micro_usd")]
    pub cost_micro_usd: Option<u64>,
}

/// Reads `5.00` US dollars.
fn micro_usd<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let millionths = |text: &str| {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let part: u64 = format!("{part:0<6}").parse().ok()?;
        whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part)
    };
    closed::read(from, "US dollars in quotes", millionths).map(Some)
}

texts! {
    /// What of its runs is kept for a replay (`spec.replay.mode`).
    #[derive(Default)]
    pub enum Keep {
        /// No more than every run leaves.
        #[default]
        Nothing = "off",
        /// Also the agent's view of its tools, so that the run can be exported as a recording.
        Record = "record",
        /// The same, and the run gets a seed, from which the gate derives everything it mints for the
        /// run.
        Deterministic = "deterministic",
    }
}

/// `spec.replay`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
pub struct Replay {
    /// `mode`.
    #[serde(rename = "mode")]
    pub keep: Keep,
    /// `volatile`: of each tool, JSON pointers of arguments that are never the same twice. A replay matches
    /// calls without them.
    #[serde(default)]
    pub volatile: BTreeMap<String, Vec<String>>,
}

/// What must be known of the model behind a run or call, and where the agent may come in (`spec.binding`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Acceptance {
    /// `minimum`: a run with a weaker binding is not opened.
    pub minimum: Binding,
    /// `tier3`: a call of a T3 tool with a weaker binding is denied.
    pub tier3: Binding,
    /// `faces`: a run may come in by these only.
    pub faces: BTreeSet<Face>,
}

impl Default for Acceptance {
    /// The default of a manifest that lists neither models nor instructions.
    fn default() -> Self {
        let (minimum, tier3) = (Binding::Unclaimed, Binding::Observed);
        Self { minimum, tier3, faces: Face::ALL.iter().copied().collect() }
    }
}

impl Acceptance {
    /// The best binding that a run can have in this build, through any accepted face; `None`: this
    /// build serves none of the faces.
    pub fn reach(&self) -> Option<Binding> {
        self.faces.iter().filter_map(|face| face.best()).max()
    }
}

/// A manifest with a verified signature and validity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Manifest {
    /// `metadata.name`: the agent.
    pub name: String,
    /// `metadata.version`.
    pub version: semver::Version,
    /// `metadata.owner`.
    pub owner: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.status`.
    pub status: Status,
    /// `spec.mode`.
    pub mode: Mode,
    /// `spec.model.provider`.
    pub model_provider: String,
    /// `spec.model.names`: exact ids; empty: the manifest names no model, and a run may claim any.
    pub model_names: Vec<String>,
    /// `spec.model.responded`: ids that answers may name, each exact or with a `*` at its end; empty:
    /// any.
    pub model_responded: Vec<String>,
    /// `spec.instructions`.
    pub instructions: Vec<Instructions>,
    /// The templates that the instructions name. [`Manifest::load`] reads them from the directory
    /// beside the file; a manifest that was read from bytes alone has none.
    pub templates: Templates,
    /// `spec.binding`, its defaults filled in.
    pub binding: Acceptance,
    /// `spec.policy.agent`: pin of the agent layer.
    pub policy_agent: Option<Digest>,
    /// `spec.tools`.
    pub tools: Vec<Grant>,
    /// `spec.client_tools`.
    pub client_tools: Vec<ClientTool>,
    /// `spec.unknown_tools`.
    pub unknown_tools: UnknownTools,
    /// `spec.limits`.
    pub limits: RunLimits,
    /// `spec.replay`.
    pub replay: Replay,
    /// `spec.incognito`.
    pub incognito: Incognito,
    /// `spec.delegates`: digests of the manifests whose runs this one's runs may open as children.
    pub delegates: Vec<Digest>,
    /// `spec.validity.not_before`.
    pub not_before: Timestamp,
    /// `spec.validity.not_after`.
    pub not_after: Timestamp,
    /// SHA-256 of the exact file bytes.
    pub digest: Digest,
    /// The exact file bytes.
    pub yaml: Vec<u8>,
    /// The DSSE envelope beside the file.
    pub envelope: Vec<u8>,
    /// Ids of the trusted keys that signed.
    pub signers: Vec<String>,
}

impl Manifest {
    /// The grant of this tool, if it exists for this agent.
    pub fn grant(&self, tool: &ToolName) -> Option<&Grant> {
        self.tools.iter().find(|grant| &grant.name == tool)
    }
}
