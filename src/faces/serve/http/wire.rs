//! The bodies of the face: what the document at `/openapi.json` is made of.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::reply;
use super::request::Object;
use crate::enforce::{
    Backend, Challenge, Observed, OpenedRun, Opening, Released, Run, RunView, Sealed, ToolView,
};
use crate::serve::agent_api::{self, ResultForm};
use crate::serve::problem::{Problem, ShownReceipt};
use crate::serve::trace::ManagedTrace;

/// What an agent claims about itself. The gate compares claims with the signed manifest and records them; they grant nothing.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunRequest {
    /// The model id that the agent requests from its provider.
    #[schemars(length(max = 256))]
    pub model: String,
    /// The SHA-256 of each set of instructions that the agent runs with, as 64 lowercase hex digits.
    #[schemars(length(max = 64), inner(length(max = 256)))]
    pub instructions_sha256: Vec<String>,
    /// The names of the tools that the agent has loaded.
    #[schemars(length(max = 1024), inner(length(max = 256)))]
    pub tools: Vec<String>,
    /// `enforce`, or `simulate`: the gate decides and records each call and runs none. `replay`: the run is answered from a recording. Empty: the mode of the manifest.
    #[schemars(extend("enum" = ["", "enforce", "simulate", "replay"]))]
    pub mode: String,
    /// Free labels for the record, at most 64. They are never authority.
    #[schemars(extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Whether the ledger keeps only commitments to the payloads of the run.
    pub incognito: bool,
    /// The run that is to be the parent of this one. It needs `parent_token`.
    #[schemars(length(max = 256))]
    pub parent_run: String,
    /// The run token of the parent.
    #[schemars(length(max = 256))]
    pub parent_token: String,
    /// The manifest of a child that its parent's caller opens, `sha256:` and 64 hex digits.
    #[schemars(length(max = 256))]
    pub delegate: String,
    /// `record`: the gate keeps what a recording of the run needs. `deterministic`: it also gives the run a seed. Empty: what the manifest says.
    #[schemars(extend("enum" = ["", "record", "deterministic"]))]
    pub replay: String,
    /// With the mode `replay`, the recording, `sha256:` and 64 hex digits.
    #[schemars(length(max = 256))]
    pub recording: String,
    /// With the mode `replay`, the first step that the recording does not answer, from 1. 0: it answers all steps.
    pub fork_at: u64,
}

impl RunRequest {
    /// The claims, if they are of a bearable size.
    pub(super) fn opening(self, traceparent: Option<String>) -> Result<Opening, Box<Problem>> {
        agent_api::bounded(Opening {
            parent: agent_api::parent(self.parent_run, self.parent_token, self.delegate)?,
            model: self.model,
            instructions: self.instructions_sha256,
            tools: self.tools,
            mode: self.mode,
            labels: self.labels,
            traceparent,
            incognito: self.incognito,
            replay: self.replay,
            recording: self.recording,
            fork_at: self.fork_at,
        })
    }
}

/// An open run.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct OpenedRunBody {
    /// The run, a UUID.
    pub run_id: String,
    /// The run token. The gate gives it once and stores only a keyed hash of it.
    pub run_token: String,
    /// The latest time at which the token works. Absent: until the run is sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// How the model and the instructions are known: `unclaimed`, `claimed` or `observed`.
    pub binding: String,
    /// The entry that records the opening.
    pub receipt: ShownReceipt,
    /// The seed of a deterministic run, 16 hex digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<String>,
    /// The time that the agent of a deterministic run may take for the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<String>,
}

impl From<OpenedRun> for OpenedRunBody {
    fn from(opened: OpenedRun) -> Self {
        let (seed, clock) = opened.determined.unzip();
        Self {
            run_id: opened.run.to_string(),
            run_token: opened.token,
            expires: opened.expires.map(|at| at.to_string()),
            binding: opened.binding.to_owned(),
            receipt: ShownReceipt::of(&opened.receipt),
            seed: seed.map(|seed| seed.to_string()),
            clock: clock.map(|clock| clock.to_string()),
        }
    }
}

/// The run of the token.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunBody {
    /// The run, a UUID.
    pub run_id: String,
    /// The name of the agent's manifest.
    pub agent: String,
    /// The version of the manifest.
    pub version: String,
    /// How the model and the instructions are known: `unclaimed`, `claimed` or `observed`.
    pub binding: String,
    /// `enforce`, or `simulate`: no call runs.
    pub mode: String,
    /// When the run was opened.
    pub opened: String,
    /// The latest time at which the token works. Absent: until the run is sealed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// Whether the run takes no new calls any more.
    pub sealed: bool,
    /// How many calls there are.
    pub counts: RunCounts,
}

/// How many calls of a run there are.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunCounts {
    /// Calls that the agent made.
    pub calls: u64,
    /// Calls that failed, or whose outcome is unknown.
    pub errors: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// Calls that wait for an approval.
    pub held: usize,
    /// Calls that the gate decides or runs now.
    pub in_flight: usize,
}

impl From<RunView> for RunBody {
    fn from(view: RunView) -> Self {
        let RunView { calls, errors, denied, held, in_flight, .. } = view;
        Self {
            run_id: view.run.to_string(),
            agent: view.agent,
            version: view.version,
            binding: view.binding.as_str().to_owned(),
            mode: view.mode.as_str().to_owned(),
            opened: view.opened_at.to_string(),
            expires: view.expires.map(|at| at.to_string()),
            sealed: view.sealed,
            counts: RunCounts { calls, errors, denied, held, in_flight },
        }
    }
}

/// One tool, as the agent is shown it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolBody {
    /// Its name, which calls must match exactly.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema (2020-12) of its arguments.
    #[schemars(with = "serde_json::Value")]
    pub input_schema: Option<Box<RawValue>>,
    /// The effective risk tier: `T0` (inert) to `T3` (irreversible).
    pub tier: String,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// The digest of all of this and of how the gate reaches the tool: `sha256:` and 64 hex digits.
    pub definition: String,
}

impl From<ToolView> for ToolBody {
    fn from(view: ToolView) -> Self {
        Self {
            name: view.name,
            description: view.description,
            input_schema: raw(view.input_schema),
            tier: view.tier.to_owned(),
            read_only: view.read_only,
            definition: view.definition,
        }
    }
}

/// The tools that exist for this agent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ToolList {
    /// Sorted by name.
    pub tools: Vec<ToolBody>,
}

/// One call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallBody {
    /// The name of the tool.
    #[schemars(extend("pattern" = "^[A-Za-z0-9_.-]{1,128}$"))]
    pub tool: String,
    /// The arguments: one JSON object of at most 1,048,576 bytes. The tool gets exactly these bytes.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub arguments: Box<RawValue>,
    /// The agent's name for the call, unique in its run. The same name with the same bytes gets the recorded answer and never runs twice.
    #[serde(default)]
    #[schemars(extend("pattern" = "^[A-Za-z0-9_.-]{1,64}$"))]
    pub call_id: Option<String>,
    /// If the call is held, how many milliseconds to wait for approvers.
    #[serde(default)]
    #[schemars(range(max = 60_000))]
    pub wait_ms: Option<u32>,
    /// Why the call is needed, in one sentence without line breaks, secrets and personal data. The entry of the decision keeps it, and approvers read it. A policy may deny a call without one.
    #[serde(default)]
    #[schemars(extend("maxLength" = 512))]
    pub justification: Option<String>,
}

/// A call that ran, and whose outcome is recorded.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CallAnswer {
    /// The call: the agent's name for it, or the one that the gate gave it.
    pub call_id: String,
    /// The tool's own status: `200`, `ok`.
    pub status: String,
    /// What the tool answered, as the tool wrote it. Absent if it is larger than 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub result: Option<Box<RawValue>>,
    /// Where the result is, if it is larger than 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_ref: Option<ResultReference>,
    /// The entry that records the outcome.
    pub receipt: ShownReceipt,
    /// Whether the receipt is that of the decision, and the outcome is recorded within 50 ms. Only calls of T0 tools that only read, where the operator set `limits.batch_t0`.
    pub outcome_pending: bool,
    /// What the gate's own loop did, if the id is that of a request to `/managed/v1`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<ManagedTrace>,
}

impl CallAnswer {
    /// What the gate's own loop did for a request; `None` if the ledger has no entry of it.
    pub(super) fn traced(trace: ManagedTrace) -> Option<Self> {
        let receipt = trace.receipts.last()?.clone();
        Some(Self {
            call_id: trace.request_id.clone(),
            status: trace.stopped.clone(),
            result: None,
            result_ref: None,
            receipt,
            outcome_pending: false,
            trace: Some(trace),
        })
    }
}

/// A result that is too large for an answer.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ResultReference {
    /// Its length in bytes.
    pub size: u64,
    /// The SHA-256 of its bytes, in hex.
    pub sha256: String,
    /// The path that gives its bytes.
    pub href: String,
}

impl From<Released> for CallAnswer {
    fn from(released: Released) -> Self {
        let call_id = released.call().as_str().to_owned();
        let receipt = ShownReceipt::of(released.receipt());
        let (status, outcome_pending) = (released.status().to_owned(), released.is_pending());
        let (result, result_ref) = match ResultForm::of(released.into_result()) {
            ResultForm::Inline(result) => (raw(result), None),
            ResultForm::Reference(size, sha256) => {
                let href = reply::of_result(&call_id);
                (None, Some(ResultReference { size, sha256, href }))
            }
        };
        let trace = None;
        Self { call_id, status, result, result_ref, receipt, outcome_pending, trace }
    }
}

/// JSON as it was written; nothing of it is read into values.
fn raw(json: Vec<u8>) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8(json).ok()?).ok()
}

/// An order to stop a call. How it ended is the answer of the call.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CancelBody {
    /// The call.
    pub call_id: String,
}

/// A call that was allowed and runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AuthorizedEvent {
    /// The call.
    pub call_id: String,
    /// The entry that records the decision.
    pub receipt: ShownReceipt,
}

/// How much of the answer of a running call left.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProgressEvent {
    /// The call.
    pub call_id: String,
    /// Number of bytes.
    pub bytes: u64,
    /// Number of pieces; each holds whole events.
    pub pieces: u64,
}

/// A run that is over. Its token is dead.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SealedBody {
    /// The run, a UUID.
    pub run_id: String,
    /// The entries of the run, with its opening and this seal.
    pub entries: u64,
    /// The entry that records the seal.
    pub receipt: ShownReceipt,
}

impl SealedBody {
    pub(super) fn of(run: &Run, sealed: &Sealed) -> Self {
        let receipt = ShownReceipt::of(&sealed.receipt);
        Self { run_id: run.id().to_string(), entries: sealed.entries, receipt }
    }
}

/// No members.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoMembers {}

/// What an isolation test must try.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ChallengeBody {
    /// The name of the report to come, 32 hex digits: for this caller, once, within 60 s.
    pub nonce: String,
    /// `advisory` or `enforced`.
    pub isolation: String,
    /// Where the gate answers operators: the agent must not reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operators: Option<String>,
    /// Where the gate answers agents with tokens: the agent must not answer there itself.
    pub addresses: Vec<String>,
    /// Files and directories of the gate that the agent must not change.
    pub paths: Vec<String>,
    /// What the gate and its tools connect to: the agent must not reach any of it.
    pub backends: Vec<BackendBody>,
}

/// A place behind the gate.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BackendBody {
    /// Host and port, as they are configured.
    pub name: String,
    /// Where the gate finds it. Absent: the name does not resolve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Whether the gate reaches it now.
    pub reached: bool,
}

impl From<Challenge> for ChallengeBody {
    fn from(challenge: Challenge) -> Self {
        let backend = |Backend { name, address, reached }| {
            let address = address.map(|at| at.to_string());
            BackendBody { name, address, reached }
        };
        Self {
            nonce: challenge.nonce,
            isolation: challenge.isolation.to_owned(),
            operators: challenge.operators.map(|at| at.to_string()),
            addresses: challenge.addresses.iter().map(ToString::to_string).collect(),
            paths: challenge.paths.iter().map(|path| path.display().to_string()).collect(),
            backends: challenge.backends.into_iter().map(backend).collect(),
        }
    }
}

/// The findings of an isolation test.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PostureBody {
    /// The nonce of the challenge.
    pub nonce: String,
    /// Name and version of the program that tested.
    #[schemars(length(max = 128))]
    pub doctor: String,
    /// Every attempt.
    #[schemars(length(max = 120), with = "Vec<ProbeBody>")]
    pub probes: Vec<Object<ProbeBody>>,
}

/// One attempt to get past the gate.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProbeBody {
    /// The attempt: `tcp.public`.
    #[schemars(length(max = 64))]
    pub probe: String,
    /// Its target: `192.0.2.1:443`.
    #[schemars(length(max = 128))]
    pub target: String,
    /// `blocked`, `open` or `unknown`.
    #[schemars(extend("enum" = ["blocked", "open", "unknown"]))]
    pub outcome: String,
    /// What happened, for a person.
    #[serde(default)]
    #[schemars(length(max = 128))]
    pub detail: String,
}

impl ProbeBody {
    pub(super) fn texts(self) -> [String; 4] {
        [self.probe, self.target, self.outcome, self.detail]
    }
}

/// What the gate concludes from a report.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PostureAnswer {
    /// Whether every attempt that is required was made, and each was blocked.
    pub passed: bool,
    /// The findings, for a person.
    pub reasons: Vec<String>,
    /// The entry that records the report.
    pub receipt: ShownReceipt,
}

impl From<Observed> for PostureAnswer {
    fn from(observed: Observed) -> Self {
        let Observed { reasons, receipt } = observed;
        let receipt = ShownReceipt::of(&receipt);
        Self { passed: reasons.is_empty(), reasons, receipt }
    }
}
