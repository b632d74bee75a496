//! The projections as the report reads them. Absent members are empty, and unknown members are not
//! shown.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::domain::json::Json;
use crate::record::call::Obligation;

/// One run of `agent_run.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct RunView {
    /// Its id.
    pub run: String,
    /// `sealed`, `open` or `cut`.
    #[serde(default)]
    pub status: String,
    /// Decisions that were recorded and not enforced.
    #[serde(default)]
    pub unenforced: u64,
    /// Digests of the bundles that decided.
    #[serde(default)]
    pub policies: Vec<String>,
    /// The runs right below it.
    #[serde(default)]
    pub delegated: Vec<String>,
    /// Where it was opened.
    pub opened: Option<PlaceView>,
    /// Where it was sealed.
    pub sealed: Option<PlaceView>,
    /// Its `run.opened`.
    #[serde(default)]
    pub opening: OpeningView,
    /// Its `run.sealed`.
    #[serde(default)]
    pub seal: SealView,
    /// Its calls, in the form of the transcript.
    #[serde(default)]
    pub steps: Vec<StepView>,
}

/// The position and time of an entry.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlaceView {
    /// Index in the chain.
    pub seq: u64,
    /// The writer's clock.
    pub ts: String,
}

/// `run.opened` of a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OpeningView {
    /// The agent.
    pub agent: String,
    /// Version of its manifest.
    pub version: String,
    /// The model it claims.
    pub model: String,
    /// Digests of the instructions it claims.
    pub instructions: Vec<String>,
    /// How sure the gate is of both.
    pub binding: String,
    /// Digest of the manifest.
    pub manifest: String,
    /// `enforce` or `observe`.
    pub mode: String,
    /// How its caller authenticated.
    pub auth: AuthView,
    /// Labels it was given.
    pub labels: Vec<Pair<String>>,
    /// Its ancestors, the outermost first.
    pub delegation: Vec<AboveView>,
    /// How a delegated run proved that its parent asked for it.
    pub delegate: String,
    /// The recording of the run.
    pub replay: ReplayView,
    /// Whether nothing of its payloads is stored.
    pub incognito: bool,
}

/// How a caller proved who it is.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AuthView {
    /// The method.
    pub method: String,
    /// The user id.
    pub uid: Option<u64>,
    /// The SPIFFE id.
    pub spiffe: String,
    /// The certificate.
    pub certificate: String,
}

/// A name with its value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pair<T> {
    /// The name.
    pub k: String,
    /// The value.
    pub v: T,
}

/// A run above.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AboveView {
    /// Its agent.
    pub id: String,
    /// Version of the manifest.
    pub version: String,
    /// The run.
    pub run: String,
}

/// The recording of a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReplayView {
    /// The step from which on a forked run is live.
    pub at: Option<u64>,
    /// The recorded run.
    pub run: String,
    /// Digest of the recording.
    pub recording: String,
}

/// `run.sealed` of a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SealView {
    /// Its calls by how they ended.
    pub calls: Vec<Pair<u64>>,
}

/// One call of a transcript.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct StepView {
    /// A message for people.
    pub message: Option<PayloadView>,
}

/// The decisions of one run in `decision.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct DecisionsView {
    /// The run.
    pub run: String,
    /// Its decisions.
    #[serde(default)]
    pub decisions: Vec<DecisionView>,
}

/// One decision of `decision.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct DecisionView {
    /// The place of its entry.
    pub at: PlaceView,
    /// The call.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// The verdict.
    pub verdict: String,
    /// The rule that decided.
    pub rule: Option<String>,
    /// Digest of the bundle; empty if no policy was evaluated.
    pub policy: String,
    /// `false`: recorded and not enforced.
    pub enforced: Option<bool>,
    /// The content of its entry.
    pub decision: GroundsView,
}

/// The content of a decision's entry.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct GroundsView {
    /// The tool's tier.
    pub tier: String,
    /// The engine.
    pub engine: String,
    /// Digest of the tool's definition.
    pub definition: Option<String>,
    /// The reasons.
    pub reasons: Vec<ReasonView>,
    /// What had to happen as well.
    pub obligations: Vec<Obligation>,
}

/// One reason of a decision.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReasonView {
    /// The code.
    pub code: String,
    /// A finer code.
    pub detail: String,
    /// The reason for a person.
    pub message: String,
    /// The rule that gave it.
    pub rule: String,
}

/// The calls of one run in `tool_trace.json`.
#[derive(Clone, Debug, Deserialize)]
pub struct CallsView {
    /// The run.
    pub run: String,
    /// Its calls.
    #[serde(default)]
    pub calls: Vec<CallView>,
}

/// One call of `tool_trace.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CallView {
    /// Its id.
    pub call: String,
    /// The tool.
    pub tool: String,
    /// Its entries.
    pub events: Vec<EventView>,
    /// Its arguments.
    pub input: Option<PayloadView>,
    /// Its result.
    pub output: Option<PayloadView>,
}

/// One entry of a call.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EventView {
    /// Its place.
    pub at: PlaceView,
    /// What it records.
    pub kind: String,
    /// Its content, if it is not a decision.
    pub data: EndView,
}

/// What entries record about how a call ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct EndView {
    /// The tool's own status.
    pub status: String,
    /// What kind of failure.
    pub class: String,
    /// The failure for a person.
    pub message: String,
    /// Why it is unknown.
    pub cause: String,
    /// Who or what stopped it.
    pub reason: String,
    /// Microseconds.
    pub us: Option<u64>,
    /// Times that it was tried.
    pub attempts: Option<u64>,
}

/// A payload, as far as it is disclosed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PayloadView {
    /// `opened`, `redacted`, `erased` or `withheld`.
    pub state: String,
    /// The commitment.
    pub commitment: String,
    /// Its length.
    pub bytes: u64,
    /// Its type; not shown.
    pub media_type: String,
    /// Its value, if it is JSON.
    #[serde(deserialize_with = "there")]
    pub json: Option<Json>,
    /// Its text, if it is text.
    pub text: Option<String>,
    /// Its bytes, if it is neither JSON nor text.
    pub base64: Option<String>,
    /// Members that stand for a payload that is not disclosed.
    #[serde(flatten)]
    pub rest: BTreeMap<String, Json>,
}

/// A member that is present, `null` included.
fn there<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(from).map(Some)
}

/// `population.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PopulationView {
    /// The query.
    pub query: Json,
    /// The totals.
    pub totals: Json,
    /// The results, log by log.
    pub chains: Vec<ChainView>,
}

/// One log of `population.json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ChainView {
    /// Its name.
    pub origin: String,
    /// The first entry in the requested time.
    pub from: u64,
    /// The one after the last.
    pub to: u64,
    /// How many there are.
    pub entries: u64,
    /// How many runs.
    pub runs: u64,
    /// Entries of calls by their kind.
    pub calls: Vec<Pair<u64>>,
    /// Times without entries.
    pub gaps: Vec<Json>,
    /// Its signs of life.
    pub heartbeats: BeatsView,
    /// The gate's own calls that had to be denied.
    pub enforcement_tests: Option<TestsView>,
    /// Agents' reports about their isolation.
    pub postures: Option<TestsView>,
}

/// The signs of life of a log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct BeatsView {
    /// How many.
    pub count: u64,
    /// The longest time between two entries.
    pub longest_gap_ms: u64,
    /// The longest that its writers declared.
    pub declared_ms: u64,
}

/// Tests of a log.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TestsView {
    /// How many.
    pub count: u64,
    /// How many failed.
    pub failed: u64,
    /// When the last one was made.
    pub last: String,
}
