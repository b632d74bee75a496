//! The input document: closed, typed, versioned; its canonical bytes are stored with the decision.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::approval::break_glass::Open;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::effect::Effect;
use crate::domain::facts::{Finding, ToolFacts};
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::tier::Binding;
use crate::domain::time::Timestamp;
use crate::record::TaggedDigest;

/// Version of the input document (`input.v`).
pub const VERSION: &str = "wicketgate/input/1";

/// The caller (`input.agent`).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct AgentFacts {
    /// `metadata.name` of the manifest.
    pub id: String,
    /// `metadata.version`.
    pub version: String,
    /// `metadata.owner`.
    pub owner: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// SHA-256 of the manifest's exact bytes.
    #[serde(serialize_with = "Digest::serialize_prefixed")]
    pub manifest: Digest,
    /// How model and instructions are known.
    pub binding: Binding,
    /// The weakest binding with which a T3 tool may be called: the manifest's, or a stricter one of
    /// a run above.
    pub tier3: Binding,
    /// The runs above this one, from the root run to the parent (`input.agent.delegation`).
    pub delegation: Vec<Delegator>,
}

/// A run that delegated, and the agent it ran (`input.agent.delegation[]`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Delegator {
    /// `metadata.name` of its manifest.
    pub id: String,
    /// `metadata.version`.
    pub version: String,
    /// SHA-256 of the manifest's exact bytes.
    #[serde(serialize_with = "Digest::serialize_prefixed")]
    pub manifest: Digest,
    /// The run.
    pub run: RunId,
}

/// The run so far (`input.run`, `input.context`, `input.history`).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RunFacts {
    /// The run.
    pub id: RunId,
    /// `enforce` or `simulate`.
    pub mode: String,
    /// Whether only commitments to its payloads are kept.
    pub incognito: bool,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Calls asked for before this one.
    pub calls: u64,
    /// Calls of this run that failed or are unknown.
    pub errors: u64,
    /// Calls of this run that were denied.
    #[serde(skip)]
    pub denied: u64,
    /// The cost of its calls so far, as far as bindings state it; millionths of a US dollar.
    pub cost: u64,
    /// What is left of the pools that cover this call.
    #[serde(skip)]
    pub pools: Vec<PoolInput>,
    /// Labels given at `OpenRun`: claims.
    pub labels: BTreeMap<String, String>,
    /// Facts the sidecar vouches for: pod, namespace, environment.
    #[serde(skip)]
    pub attested: BTreeMap<String, String>,
}

/// What else a decision depends on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Circumstances<'a> {
    /// The time in the policy's input.
    pub now: Timestamp,
    /// The layers in observe mode.
    pub observe: &'a [&'static str],
    /// Who approved the call.
    pub approvals: &'a [Approval],
    /// The layers that count approvers for themselves.
    pub by_hand: &'a [&'static str],
    /// The break-glass order that replaces the approvers, if the policy is evaluated with one.
    pub break_glass: Option<&'a Open>,
}

/// The call, as it was prepared (`input.call`, `input.args`, `input.effect`, `input.findings`).
#[derive(Clone, Copy, Debug)]
pub struct CallInput<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// What it would touch.
    pub effect: &'a Effect,
    /// What the firewall saw.
    pub findings: &'a [Finding],
}

/// One pool that covers the call, as a policy sees it (`input.pools[]`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoolInput {
    /// The pool.
    pub name: String,
    /// `requests`, `cost_micro_usd` or `concurrency`.
    pub unit: String,
    /// What is left of the window in thousandths, this call taken off: what this gate holds, and
    /// what no gate held when it last asked.
    pub left_permille: u64,
    /// Units of a window.
    pub size: u64,
}

/// A recorded document, with the members that an audit, a replay or a backtest needs. Earlier
/// versions had fewer.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Document {
    /// [`VERSION`].
    pub v: Option<String>,
    /// The caller.
    pub agent: Agent,
    /// The run so far.
    pub run: Counters,
    /// The run so far, a second time, with its denials.
    pub history: Counters,
    /// The tool.
    pub tool: Tool,
    /// What the call would touch.
    pub effect: Option<Json>,
    /// What the sidecar vouched for.
    pub context: AttestedFacts,
    /// The time of the call.
    pub time: Time,
    /// What the firewall saw.
    pub findings: Vec<Finding>,
    /// Who had approved the call.
    pub approvals: Vec<Approval>,
    /// The break-glass order in force at the call.
    pub break_glass: Option<BreakGlassInput>,
    /// What was left of the pools.
    pub pools: Vec<PoolInput>,
    /// The layers that observed.
    pub observe: Vec<String>,
}

/// `input.agent` of a recorded document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Agent {
    /// `metadata.name` of its manifest.
    pub id: String,
    /// SHA-256 of the manifest.
    pub manifest: Option<TaggedDigest>,
}

/// `input.run` and `input.history` of a recorded document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Calls asked for before.
    pub calls: u64,
    /// Calls that failed or are unknown.
    pub errors: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// What its calls cost, in millionths of a US dollar.
    pub cost: u64,
}

/// `input.tool` of a recorded document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its tier; a later version may have other ones than this one.
    pub tier: Option<String>,
}

/// `input.context` of a recorded document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AttestedFacts {
    /// Facts the sidecar vouches for.
    pub attested: BTreeMap<String, String>,
}

/// `input.time` of a recorded document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Time {
    /// The instant.
    pub rfc3339: Option<Timestamp>,
}

/// `input.break_glass`: the break-glass order in force for this decision, if any.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakGlassInput {
    /// Whether there is one.
    pub open: bool,
    /// The nonce of its statement; empty without one.
    pub nonce: String,
    /// When it ends; empty without one.
    pub until: String,
    /// Who signed it.
    pub by: Vec<String>,
}

impl From<Option<&Broken>> for BreakGlassInput {
    fn from(order: Option<&Broken>) -> Self {
        Self {
            open: order.is_some(),
            nonce: order.map_or_else(String::new, |order| order.nonce.clone()),
            until: order.map_or_else(String::new, |order| order.until.to_string()),
            by: order.map_or_else(Vec::new, |order| order.by.clone()),
        }
    }
}

/// The canonical bytes of the document about one call.
pub fn document(
    agent: &AgentFacts,
    run: &RunFacts,
    tool: &ToolFacts,
    call: &CallInput<'_>,
    circumstances: &Circumstances<'_>,
) -> Vec<u8> {
    canonical::bytes(&Json::object([
        ("v", Json::from(VERSION)),
        ("agent", Json::of(agent)),
        ("run", Json::of(run)),
        ("tool", tool_json(tool)),
        ("call", Json::object([("id", Json::from(call.call.id().as_str()))])),
        ("args", call.call.args().clone()),
        ("effect", call.effect.to_json()),
        (
            "context",
            Json::object([
                ("attested", Json::of(&run.attested)),
                ("claimed", Json::of(&run.labels)),
            ]),
        ),
        ("time", time_json(circumstances.now)),
        ("findings", call.findings.iter().map(finding_json).collect::<Vec<_>>().into()),
        ("approvals", circumstances.approvals.iter().map(approval_json).collect::<Vec<_>>().into()),
        ("quorum", quorum_json(circumstances.by_hand)),
        ("break_glass", break_glass_json(circumstances.break_glass.map(broken).as_ref())),
        ("pools", Json::of(&run.pools)),
        ("observe", Json::of(&circumstances.observe)),
        (
            "history",
            Json::object([
                ("calls", Json::from(run.calls)),
                ("errors", Json::from(run.errors)),
                ("denied", Json::from(run.denied)),
            ]),
        ),
    ]))
}

/// The layers that count approvers for themselves, as the policy sees them.
pub fn quorum_json(by_hand: &[&str]) -> Json {
    Json::object([("by_hand", Json::of(&by_hand))])
}

/// A break-glass order in a policy's input and in an entry: its nonce, its end, and who signed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The nonce of its statement.
    pub nonce: String,
    /// When it ends.
    pub until: Timestamp,
    /// The distinct subjects who signed it, sorted.
    pub by: Vec<String>,
}

/// The facts of this order for a policy and an entry.
pub fn broken(open: &Open) -> Broken {
    Broken {
        nonce: open.statement.nonce.clone(),
        until: open.statement.expires,
        by: open.subjects().into_iter().map(str::to_owned).collect(),
    }
}

/// The break-glass order in force for this decision, if any (`input.break_glass`).
pub fn break_glass_json(open: Option<&Broken>) -> Json {
    Json::of(&BreakGlassInput::from(open))
}

/// One approval, as the policy sees it.
pub fn approval_json(approval: &Approval) -> Json {
    Json::object([
        ("approver", Json::from(approval.subject.as_str())),
        ("roles", Json::of(&approval.roles)),
        ("key", Json::from(approval.key.as_str())),
    ])
}

fn tool_json(tool: &ToolFacts) -> Json {
    Json::object([
        ("name", Json::from(tool.name.as_str())),
        ("kind", Json::from(tool.kind.as_str())),
        ("tier", Json::from(tool.tier.as_str())),
        ("read_only", Json::from(tool.read_only)),
        ("definition", Json::from(tool.definition.prefixed())),
    ])
}

/// One finding, as the policy sees it.
pub fn finding_json(finding: &Finding) -> Json {
    Json::object([
        ("kind", Json::from(finding.kind.as_str())),
        ("path", Json::from(finding.path.as_str())),
    ])
}

/// UTC, so that a recorded input means the same everywhere.
pub fn time_json(now: Timestamp) -> Json {
    let zoned = now.to_jiff().to_zoned(jiff::tz::TimeZone::UTC);
    let weekday = match zoned.weekday() {
        jiff::civil::Weekday::Monday => "monday",
        jiff::civil::Weekday::Tuesday => "tuesday",
        jiff::civil::Weekday::Wednesday => "wednesday",
        jiff::civil::Weekday::Thursday => "thursday",
        jiff::civil::Weekday::Friday => "friday",
        jiff::civil::Weekday::Saturday => "saturday",
        jiff::civil::Weekday::Sunday => "sunday",
    };
    Json::object([
        ("rfc3339", Json::from(now.to_string())),
        ("unix", Json::Int(now.seconds())),
        ("weekday", Json::from(weekday)),
        ("hour", Json::Int(zoned.hour().into())),
        ("minute", Json::Int(zoned.minute().into())),
        ("tz", Json::from("UTC")),
    ])
}
