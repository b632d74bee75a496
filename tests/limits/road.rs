//! Gates inside the test: a road each over a ledger of its own, one counting tool, one store of pools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wicketgate::catalog::schema::Schema;
use wicketgate::clock::{SystemClock, SystemEntropy};
use wicketgate::crypto::keys::SecretKey;
use wicketgate::domain::call::{Auth, ToolCall};
use wicketgate::domain::decision::{LayerDigest, Reason, Verdict};
use wicketgate::domain::digest::Digest;
use wicketgate::domain::effect::Effect;
use wicketgate::domain::id::ToolName;
use wicketgate::domain::outcome::Outcome;
use wicketgate::domain::prepared::{Hold, ToolFacts};
use wicketgate::domain::tier::Tier;
use wicketgate::domain::time::Timestamp;
use wicketgate::enforce::{self, Answer, Bounds, CallRequest, Opening, Road, Run, Thread};
use wicketgate::identity::Caller;
use wicketgate::identity::manifest::{Grant, Limits, Manifest, Mode, Status};
use wicketgate::identity::token::RunTokens;
use wicketgate::ledger::memory::Memory;
use wicketgate::ledger::permit::Permit;
use wicketgate::ledger::spool::NoJournal;
use wicketgate::ledger::store::LedgerStore;
use wicketgate::ledger::{self, Ledger};
use wicketgate::limits::pool::{Per, Pool, Pools, Unit};
use wicketgate::policy::{self, EngineError, PolicyEngine};
use wicketgate::telemetry::metrics::Metrics;
use wicketgate::tool::ToolExecutor;
use wicketgate::tool::scrub::Scrub;
use wicketgate::tool::toolbox::{Tool, Toolbox};

/// One gate.
pub struct Gate {
    pub road: Arc<Road>,
    stop: CancellationToken,
}

/// Allows what is not asked to be denied.
#[derive(Debug)]
struct Rules(Vec<LayerDigest>);

impl PolicyEngine for Rules {
    fn decide(&self, input: &[u8]) -> Result<policy::Answer, EngineError> {
        let input: serde_json::Value =
            serde_json::from_slice(input).map_err(|_| EngineError::Undefined)?;
        if input["args"]["deny"] == true {
            return Err(EngineError::Undefined);
        }
        Ok(policy::Answer {
            verdict: Verdict::Allow,
            reasons: Vec::new(),
            obligations: Vec::new(),
            enforced: true,
        })
    }

    fn digest(&self) -> Digest {
        Digest::of(&[b"rules"])
    }

    fn layers(&self) -> &[LayerDigest] {
        &self.0
    }

    fn engine(&self) -> &'static str {
        "test/1"
    }
}

struct Counts(Arc<AtomicU64>);

#[async_trait]
impl ToolExecutor for Counts {
    fn prepare(&self, _: &ToolCall) -> Result<(Effect, Hold), Vec<Reason>> {
        Ok((Effect::None, Box::new(())))
    }

    async fn execute(&self, _: &Permit) -> Outcome {
        self.0.fetch_add(1, Ordering::SeqCst);
        Outcome::Completed { result: b"{}".to_vec(), status: "ok".into() }
    }
}

/// Of each tier but the last one tool; that of T0 only reads.
const TOOLS: [(&str, Tier); 3] = [("t0", Tier::T0), ("t", Tier::T1), ("t2", Tier::T2)];

fn toolbox(count: &Arc<AtomicU64>) -> Toolbox {
    let tools = TOOLS.into_iter().map(|(name, tier)| tool(name, tier, count));
    Toolbox::of(tools.collect(), Scrub::default())
}

fn tool(name: &str, tier: Tier, count: &Arc<AtomicU64>) -> Tool {
    let schema = Schema::parse(br#"{"type":"object","additionalProperties":true}"#).unwrap();
    let facts = ToolFacts {
        name: ToolName::parse(name).unwrap(),
        kind: "test".into(),
        tier,
        read_only: tier == Tier::T0,
        idempotent: false,
        definition: Digest::of(&[name.as_bytes()]),
        timeout: Duration::from_secs(1),
        result_bytes_max: 1 << 20,
        cost_micro_usd: None,
    };
    Tool {
        facts: Arc::new(facts),
        description: "counts".into(),
        input_schema: schema.canonical().to_vec(),
        schema: Arc::new(schema),
        shown: None,
        signers: Vec::new().into(),
        executor: Arc::new(Counts(Arc::clone(count))),
    }
}

/// A pool of requests per day for everybody.
pub fn pool(size: u64) -> Pool {
    Pool {
        name: "shared".into(),
        unit: Unit::Requests,
        // Not per minute: the test may see the minute end.
        per: Per::None,
        size,
        agents: Default::default(),
        labels: BTreeMap::new(),
        tools: Default::default(),
    }
}

impl Gate {
    /// A gate that draws from this pool and counts executions here.
    pub async fn start(pool: Pool, store: Arc<dyn Pools>, count: &Arc<AtomicU64>) -> Gate {
        let bounds = Bounds { pools: vec![pool], store: Some(store), ..Bounds::default() };
        Self::over(Arc::new(Memory::new()), bounds, count).await
    }

    /// A gate over this ledger, with these bounds.
    pub async fn over(store: Arc<dyn LedgerStore>, bounds: Bounds, count: &Arc<AtomicU64>) -> Gate {
        let entropy = Arc::new(SystemEntropy);
        let metrics = Arc::new(Metrics::new(Vec::new(), "0", "test"));
        let clock = Arc::new(SystemClock::new());
        let parts = ledger::Parts {
            store,
            clock: Arc::clone(&clock) as _,
            entropy: Arc::clone(&entropy) as _,
            signer: Arc::new(SecretKey::generate(&SystemEntropy)),
            log_key: None,
            journal: Box::new(NoJournal),
            lease_file: None,
            metrics: Arc::clone(&metrics),
        };
        let settings = ledger::Settings {
            queue_wait: Duration::from_secs(20),
            commit_wait: Duration::from_secs(40),
            ..ledger::Settings::default()
        };
        let (ledger, writer) = Ledger::new(settings, parts);
        let (recovered_out, recovered) = oneshot::channel();
        let stop = CancellationToken::new();
        tokio::spawn(writer.run(stop.clone(), recovered_out));
        let road = Road::new(
            enforce::Settings { judge_apart: false, bounds, ..enforce::Settings::default() },
            enforce::Parts {
                ledger,
                toolbox: toolbox(count),
                tokens: Arc::new(RunTokens::new([7; 32])),
                clock,
                entropy,
                metrics,
            },
        );
        road.resume(recovered.await.unwrap(), &[]);
        let layers = vec![LayerDigest { layer: "agent".into(), digest: Digest::of(&[b"l"]) }];
        road.activate(Arc::new(Rules(layers)), "test", "1").await.unwrap();
        Gate { road, stop }
    }

    pub async fn run(&self) -> Arc<Run> {
        let auth = Auth { method: "uds".into(), ..Auth::default() };
        let caller = Caller { manifest: Arc::new(manifest()), auth };
        self.road.implicit_run(&caller, &Thread::Caller, Opening::default()).await.unwrap()
    }

    pub async fn call(&self, run: &Arc<Run>, args: &str) -> Answer {
        self.call_tool(run, "t", args).await
    }

    pub async fn call_tool(&self, run: &Arc<Run>, tool: &str, args: &str) -> Answer {
        let (tool, arguments) = (tool.to_owned(), args.into());
        let request = CallRequest { tool, arguments, ..CallRequest::default() };
        self.road.execute(run, request).await
    }

    /// Ends it in order.
    pub async fn end(&self) {
        self.road.drain().await;
        self.stop.cancel();
    }
}

fn manifest() -> Manifest {
    Manifest {
        name: "agent".into(),
        version: semver::Version::new(1, 0, 0),
        owner: "tests@example.com".into(),
        labels: BTreeMap::new(),
        status: Status::Active,
        mode: Mode::Enforce,
        model_provider: "none".into(),
        model_names: vec!["m".into()],
        instructions: Vec::new(),
        delegates: Vec::new(),
        replay: wicketgate::identity::manifest::Replay::default(),
        policy_agent: None,
        tools: TOOLS.iter().map(|(name, _)| Grant::of(ToolName::parse(name).unwrap())).collect(),
        limits: Limits::default(),
        not_before: Timestamp::from_millis(0),
        not_after: Timestamp::from_millis(4_000_000_000_000),
        digest: Digest::of(&[b"manifest"]),
        yaml: Vec::new(),
        envelope: Vec::new(),
        signers: Vec::new(),
    }
}
