//! A road of this process, on any ledger and any list, with a tool that can be made to wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;
use wicketgate::catalog::schema::Schema;
use wicketgate::clock::{Clock, SystemClock, SystemEntropy};
use wicketgate::control::Orders;
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
use wicketgate::enforce::{self, CallRequest, Follow, Opening, Road, Run};
use wicketgate::identity::manifest::{Grant, Limits, Manifest, Mode, Status};
use wicketgate::identity::token::RunTokens;
use wicketgate::identity::{Caller, Peer};
use wicketgate::ledger::permit::Permit;
use wicketgate::ledger::spool::NoJournal;
use wicketgate::ledger::store::{Leased, LedgerStore};
use wicketgate::ledger::{self, Ledger};
use wicketgate::policy::{Answer, EngineError, PolicyEngine};
use wicketgate::telemetry::metrics::Metrics;
use wicketgate::tool::ToolExecutor;
use wicketgate::tool::scrub::Scrub;
use wicketgate::tool::toolbox::{Tool, Toolbox};

/// The machine's clock, whose monotonic hand can be put forward, and whose time of day can be set.
pub struct Hands(SystemClock, AtomicU64, AtomicI64);

impl Hands {
    pub fn forward(&self, by: Duration) {
        self.1.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::SeqCst);
    }

    /// So many seconds after the machine's time of day, or before it.
    pub fn set(&self, seconds: i64) {
        self.2.store(seconds * 1000, Ordering::SeqCst);
    }
}

impl Clock for Hands {
    fn now(&self) -> Timestamp {
        let set = self.2.load(Ordering::SeqCst);
        Timestamp::from_millis(self.0.now().millis() + set)
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic() + Duration::from_millis(self.1.load(Ordering::SeqCst))
    }
}

/// Allows everything.
#[derive(Debug)]
struct AllowAll([LayerDigest; 1]);

impl PolicyEngine for AllowAll {
    fn decide(&self, _input: &[u8]) -> Result<Answer, EngineError> {
        let (reasons, obligations) = (Vec::new(), Vec::new());
        Ok(Answer { verdict: Verdict::Allow, reasons, obligations, enforced: true })
    }

    fn digest(&self) -> Digest {
        Digest::of(&[b"allow"])
    }

    fn layers(&self) -> &[LayerDigest] {
        &self.0
    }

    fn engine(&self) -> &'static str {
        "test/1"
    }
}

/// Where the tools of many roads count what reaches them.
pub struct Bench {
    pub begun: watch::Sender<u64>,
    pub open: watch::Sender<bool>,
}

impl Bench {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { begun: watch::Sender::new(0), open: watch::Sender::new(true) })
    }

    pub fn count(&self) -> u64 {
        *self.begun.borrow()
    }

    /// Waits until so many calls have begun.
    pub async fn reaches(&self, count: u64) {
        let mut begun = self.begun.subscribe();
        crate::within("calls at the tool", begun.wait_for(|n| *n >= count)).await.unwrap();
    }
}

struct Waits(Arc<Bench>);

#[async_trait]
impl ToolExecutor for Waits {
    fn prepare(&self, _call: &ToolCall) -> Result<(Effect, Hold), Vec<Reason>> {
        Ok((Effect::None, Box::new(())))
    }

    async fn execute(&self, _permit: &Permit) -> Outcome {
        self.0.begun.send_modify(|n| *n += 1);
        self.0.open.subscribe().wait_for(|open| *open).await.unwrap();
        Outcome::Completed { result: b"{}".to_vec(), status: "ok".into() }
    }
}

fn toolbox(bench: &Arc<Bench>) -> Toolbox {
    let schema = r#"{"type":"object","additionalProperties":true}"#;
    let schema = Arc::new(Schema::parse(schema.as_bytes()).unwrap());
    let tool = |(name, tier, read_only): (&str, Tier, bool)| Tool {
        facts: Arc::new(ToolFacts {
            name: ToolName::parse(name).unwrap(),
            kind: "test".into(),
            tier,
            read_only,
            idempotent: read_only,
            definition: Digest::of(&[name.as_bytes()]),
            cost_micro_usd: None,
            timeout: Duration::from_secs(60),
            result_bytes_max: 1 << 20,
        }),
        description: "waits".into(),
        input_schema: schema.canonical().to_vec(),
        schema: Arc::clone(&schema),
        shown: None,
        signers: Vec::new().into(),
        executor: Arc::new(Waits(Arc::clone(bench))),
    };
    Toolbox::of(TOOLS.map(tool).into(), Scrub::default())
}

const TOOLS: [(&str, Tier, bool); 5] = [
    ("t.zero", Tier::T0, true),
    ("t.one", Tier::T1, false),
    ("t.two", Tier::T2, false),
    ("t.three", Tier::T3, false),
    // Bound, and granted by a manifest that gets it wrong.
    (enforce::CANARY_TOOL, Tier::T1, false),
];

pub fn manifest() -> Arc<Manifest> {
    granting(|name| name != enforce::CANARY_TOOL)
}

/// A manifest that grants those of the tools.
pub fn granting(which: impl Fn(&str) -> bool) -> Arc<Manifest> {
    let grant = |(name, ..): (&str, Tier, bool)| Grant::of(ToolName::parse(name).unwrap());
    Arc::new(Manifest {
        name: "test-agent".into(),
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
        tools: TOOLS.into_iter().filter(|(name, ..)| which(name)).map(grant).collect(),
        limits: Limits::default(),
        not_before: Timestamp::from_millis(0),
        not_after: Timestamp::from_millis(4_000_000_000_000),
        digest: Digest::of(&[b"manifest"]),
        yaml: Vec::new(),
        envelope: Vec::new(),
        signers: vec!["one".into(), "two".into()],
    })
}

/// What a road begins with.
pub struct Before {
    /// Where its time of day stands, as [`Hands::set`] says it.
    pub clock: i64,
    pub breaker: Option<Arc<dyn enforce::Breaker>>,
    pub engine: Arc<dyn PolicyEngine>,
}

/// A road that serves, until it is dropped.
pub struct Serving {
    pub road: Arc<Road>,
    pub clock: Arc<Hands>,
    stop: CancellationToken,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Serving {
    /// A road on this ledger that follows the list `list` makes for its lease.
    pub async fn start(
        store: Arc<dyn LedgerStore>,
        bench: &Arc<Bench>,
        settings: enforce::Settings,
        list: impl FnOnce(&Leased) -> Arc<dyn Orders>,
    ) -> Serving {
        let layer = LayerDigest { layer: "agent".into(), digest: Digest::of(&[b"allow"]) };
        let before = Before { clock: 0, breaker: None, engine: Arc::new(AllowAll([layer])) };
        Self::start_with(store, bench, settings, list, before).await
    }

    /// As [`Self::start`], with these before any call is taken.
    pub async fn start_with(
        store: Arc<dyn LedgerStore>,
        bench: &Arc<Bench>,
        settings: enforce::Settings,
        list: impl FnOnce(&Leased) -> Arc<dyn Orders>,
        before: Before,
    ) -> Serving {
        let clock = Arc::new(Hands(SystemClock::new(), AtomicU64::new(0), AtomicI64::new(0)));
        clock.set(before.clock);
        let metrics = Arc::new(Metrics::new(Vec::new(), "0", "test"));
        let parts = ledger::Parts {
            store,
            clock: Arc::clone(&clock) as _,
            entropy: Arc::new(SystemEntropy),
            signer: Arc::new(SecretKey::generate(&SystemEntropy)),
            log_key: None,
            journal: Box::new(NoJournal),
            lease_file: None,
            metrics: Arc::clone(&metrics),
        };
        let of_ledger = ledger::Settings {
            lease_term: Duration::from_secs(600),
            ..ledger::Settings::default()
        };
        let (ledger, writer) = Ledger::new(of_ledger, parts);
        let (send, recovered) = oneshot::channel();
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        tokio::spawn(async move { writer.run(stopping, send).await });
        let runs = recovered.await.unwrap();
        let leased = ledger.leased().unwrap().clone();
        let parts = enforce::Parts {
            ledger,
            toolbox: toolbox(bench),
            tokens: Arc::new(RunTokens::new([7; 32])),
            clock: Arc::clone(&clock) as _,
            entropy: Arc::new(SystemEntropy),
            metrics,
        };
        let road = Road::new(settings, parts);
        let follow = Follow {
            orders: list(&leased),
            origin: leased.origin.clone(),
            writer: "test".into(),
            told: Arc::new(Vec::new),
        };
        if let Some(breaker) = before.breaker {
            road.trust_breakers(breaker);
        }
        road.rebuild(&follow).await.unwrap();
        road.resume(runs, &[manifest()]);
        road.catch_up().await;
        tokio::spawn(Arc::clone(&road).follow_orders(stop.clone()));
        road.activate(before.engine, "test", "1").await.unwrap();
        Serving { road, clock, stop }
    }

    /// Nobody writes the books any more.
    pub fn close_books(&self) {
        self.stop.cancel();
    }

    /// Opens a run.
    pub async fn open(&self) -> Result<Arc<Run>, (String, String)> {
        let auth = Auth { method: "uds".into(), ..Auth::default() };
        let caller = Caller { manifest: manifest(), auth };
        let opening = Opening { model: "m".into(), ..Opening::default() };
        let opened = self.road.open_run(&caller, opening).await;
        let opened = opened.map_err(|f| (f.code.as_str().to_owned(), f.detail))?;
        let peer = Peer { listener: "uds", ..Peer::default() };
        Ok(self.road.find_run(&peer, &opened.token).unwrap())
    }

    /// One call: fine, or code and detail.
    pub async fn call(&self, run: &Arc<Run>, tool: &str) -> Result<(), (String, String)> {
        call(&self.road, run, tool).await
    }
}

pub async fn call(road: &Arc<Road>, run: &Arc<Run>, tool: &str) -> Result<(), (String, String)> {
    let request =
        CallRequest { tool: tool.into(), arguments: b"{}".to_vec(), ..CallRequest::default() };
    let answer = road.execute(run, request).await;
    answer.map(drop).map_err(|fault| (fault.code.as_str().to_owned(), fault.detail))
}
