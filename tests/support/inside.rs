//! What a gate inside the test is made of: a road over a ledger with its writer, an engine, a manifest, a tool.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wicketgate_catalog::Binding;
use wicketgate_catalog::binding::Kind;
use wicketgate_catalog::identity::client_tools::UnknownTools;
use wicketgate_catalog::identity::manifest::{
    Acceptance, Grant, Incognito, Manifest, Mode, Replay, RunLimits, Status,
};
use wicketgate_catalog::identity::templates::Templates;
use wicketgate_catalog::identity::token::RunTokens;
use wicketgate_catalog::roles::StatedRoles;
use wicketgate_catalog::schema::Schema;
use wicketgate_crypto::keys::SecretKey;
use wicketgate_gate::enforce::{self, Agents, Commands, Replaying, Road, Signers};
use wicketgate_gate::ledger::spool::NoJournal;
use wicketgate_gate::ledger::store::{Leased, LedgerStore};
use wicketgate_gate::ledger::{self, Ledger, RecoveredRun};
use wicketgate_gate::telemetry::metrics::Metrics;
use wicketgate_gate::tool::ToolExecutor;
use wicketgate_gate::tool::toolbox::{Tool, Toolbox};
use wicketgate_policy::{Answer, EngineError, PolicyEngine};
use wicketgate_record::clock::{Clock, SystemEntropy};
use wicketgate_record::domain::decision::{LayerDigest, Verdict};
use wicketgate_record::domain::digest::Digest;
use wicketgate_record::domain::facts::ToolFacts;
use wicketgate_record::domain::id::ToolName;
use wicketgate_record::domain::taint::ToolRoles;
use wicketgate_record::domain::tier::Tier;
use wicketgate_record::domain::time::Timestamp;

/// An engine that is a function of the input.
struct Says<F> {
    layers: [LayerDigest; 1],
    decide: F,
}

impl<F> std::fmt::Debug for Says<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Says")
    }
}

impl<F> PolicyEngine for Says<F>
where
    F: Fn(&Value) -> Result<Answer, EngineError> + Send + Sync + 'static,
{
    fn decide(&self, input: &[u8]) -> Result<Answer, EngineError> {
        (self.decide)(&serde_json::from_slice(input).unwrap())
    }

    fn digest(&self) -> Digest {
        Digest::of(&[b"rules"])
    }

    fn layers(&self) -> &[LayerDigest] {
        &self.layers
    }

    fn engine(&self) -> &'static str {
        "test/1"
    }
}

/// An engine of one layer that decides like this.
pub fn engine<F>(decide: F) -> Arc<dyn PolicyEngine>
where
    F: Fn(&Value) -> Result<Answer, EngineError> + Send + Sync + 'static,
{
    let layers = [LayerDigest { layer: "agent".into(), digest: Digest::of(&[b"rules"]) }];
    Arc::new(Says { layers, decide })
}

/// Yes, with nothing more to say.
pub fn allowed() -> Answer {
    let (reasons, obligations) = (Vec::new(), Vec::new());
    Answer { verdict: Verdict::Allow, reasons, obligations, enforced: true }
}

/// An engine that allows everything.
pub fn allows() -> Arc<dyn PolicyEngine> {
    engine(|_| Ok(allowed()))
}

/// A manifest that grants these tools for some decades.
pub fn manifest(tools: Vec<Grant>) -> Manifest {
    Manifest {
        name: "agent".into(),
        version: semver::Version::new(1, 0, 0),
        owner: "tests@example.com".into(),
        labels: BTreeMap::new(),
        status: Status::Active,
        mode: Mode::Enforce,
        model_provider: "none".into(),
        model_names: vec!["m".into()],
        model_responded: Vec::new(),
        templates: Templates::default(),
        client_tools: Vec::new(),
        unknown_tools: UnknownTools::default(),
        instructions: Vec::new(),
        delegates: Vec::new(),
        replay: Replay::default(),
        incognito: Incognito::default(),
        binding: Acceptance::default(),
        policy_agent: None,
        tools,
        limits: RunLimits::default(),
        not_before: Timestamp::from_millis(0),
        not_after: Timestamp::from_millis(4_000_000_000_000),
        digest: Digest::of(&[b"manifest"]),
        yaml: Vec::new(),
        envelope: Vec::new(),
        signers: Vec::new(),
    }
}

/// A tool that takes any arguments.
pub fn tool(name: &str, tier: Tier, executor: Arc<dyn ToolExecutor>) -> Tool {
    let schema = Schema::parse(br#"{"type":"object","additionalProperties":true}"#).unwrap();
    let facts = ToolFacts {
        name: ToolName::parse(name).unwrap(),
        kind: "test".into(),
        tier,
        read_only: tier == Tier::T0,
        idempotent: tier == Tier::T0,
        definition: Digest::of(&[name.as_bytes()]),
        timeout: Duration::from_secs(60),
        result_bytes_max: 1 << 20,
        cost_micro_usd: None,
        dedupe: None,
        roles: ToolRoles::NONE,
    };
    Tool {
        facts: Arc::new(facts),
        description: "is tested".into(),
        input_schema: schema.canonical().to_vec(),
        schema: Arc::new(schema),
        shown: None,
        signers: Vec::new().into(),
        executor,
    }
}

/// What differs from gate to gate.
pub struct Parts {
    pub store: Arc<dyn LedgerStore>,
    pub clock: Arc<dyn Clock>,
    pub toolbox: Toolbox,
    pub metrics: Arc<Metrics>,
    pub ledger: ledger::LedgerSettings,
    pub road: enforce::Settings,
    pub agents: Vec<Arc<Manifest>>,
}

/// A road that has the slot of its store, its ledger, and the runs that were open there. The ledger is
/// written until `stop` is cancelled.
pub async fn road(
    parts: Parts,
    stop: &CancellationToken,
) -> (Arc<Road>, Ledger, Vec<RecoveredRun>) {
    road_with(parts, stop, |_, _| {}).await
}

/// The same, its parts changed once its lease is known.
pub async fn road_with(
    parts: Parts,
    stop: &CancellationToken,
    change: impl FnOnce(&Leased, &mut enforce::Parts),
) -> (Arc<Road>, Ledger, Vec<RecoveredRun>) {
    let Parts { store, clock, toolbox, metrics, ledger, road, agents } = parts;
    let of_ledger = ledger::LedgerParts {
        store,
        clock: Arc::clone(&clock),
        entropy: Arc::new(SystemEntropy),
        signer: Arc::new(SecretKey::generate(&SystemEntropy)),
        log_key: None,
        journal: Box::new(NoJournal),
        lease_file: None,
        metrics: Arc::clone(&metrics),
    };
    let (ledger, writer) = Ledger::new(ledger, of_ledger);
    let (send, recovered) = oneshot::channel();
    tokio::spawn(writer.run(stop.clone(), send));
    let runs = recovered.await.unwrap();
    let mut of_road = enforce::Parts {
        settings: road,
        ledger: ledger.clone(),
        toolbox,
        agents: Agents::fixed(agents),
        tokens: Arc::new(RunTokens::new([7; 32])),
        clock,
        entropy: Arc::new(SystemEntropy),
        metrics,
        signers: Signers::default(),
        commands: Commands::default(),
        replaying: Replaying::default(),
    };
    change(ledger.leased().unwrap(), &mut of_road);
    (Road::new(of_road), ledger, runs)
}

/// A tool of this name that takes any arguments: it writes, in tier T0, within ten seconds and a MiB.
pub fn binding(name: &str, kind: Kind) -> Binding {
    Binding {
        name: ToolName::parse(name).unwrap(),
        description: "acts".into(),
        schema: Schema::parse(br#"{"type":"object","additionalProperties":true}"#).unwrap(),
        kind,
        tier: Tier::T0,
        read_only: false,
        idempotent: false,
        timeout: Duration::from_secs(10),
        result_bytes_max: 1 << 20,
        cost_micro_usd: None,
        dedupe: None,
        roles: ToolRoles::default(),
        stated: StatedRoles::default(),
        read_back: None,
        shown: None,
        definition: Digest::of(&[name.as_bytes()]),
    }
}
