//! Gates inside the test: a road each over a ledger of its own, one counting tool, one store of pools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use wicketgate_catalog::identity::Caller;
use wicketgate_catalog::identity::manifest::Grant;
use wicketgate_catalog::limits::pool::{Per, Pool, Pools, Unit};
use wicketgate_gate::enforce::{
    self, Answer, Backlog, Bounds, CallRequest, Opening, Policy, Road, Run, Thread,
};
use wicketgate_gate::judge::prepared::PreparedResource;
use wicketgate_gate::ledger;
use wicketgate_gate::ledger::permit::Permit;
use wicketgate_gate::ledger::store::LedgerStore;
use wicketgate_gate::telemetry::metrics::Metrics;
use wicketgate_gate::tool::ToolExecutor;
use wicketgate_gate::tool::scrub::Scrub;
use wicketgate_gate::tool::toolbox::{Tool, Toolbox};
use wicketgate_policy::EngineError;
use wicketgate_record::clock::{Clock, SystemClock};
use wicketgate_record::domain::call::{CallerAuth, ToolCall};
use wicketgate_record::domain::decision::LayerReason;
use wicketgate_record::domain::effect::Effect;
use wicketgate_record::domain::facts::ToolFacts;
use wicketgate_record::domain::id::ToolName;
use wicketgate_record::domain::outcome::{AnswerContent, Unmasked};
use wicketgate_record::domain::taint::{ToolRoles, Trust};
use wicketgate_record::domain::tier::{Face, Tier};

use crate::inside;
use crate::memory::MemoryStore;

/// One gate. Its engine allows what is not asked to be denied.
pub struct Gate {
    pub road: Arc<Road>,
    stop: CancellationToken,
}

struct Counts(Arc<AtomicU64>);

#[async_trait]
impl ToolExecutor for Counts {
    fn prepare(&self, _: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        Ok((Effect::None, Box::new(())))
    }

    async fn execute(&self, _: &Permit) -> Unmasked {
        self.0.fetch_add(1, Ordering::SeqCst);
        Unmasked::Completed { result: AnswerContent::Text(b"{}".to_vec()), status: "ok".into() }
    }
}

/// Answers with its arguments.
struct Repeats;

#[async_trait]
impl ToolExecutor for Repeats {
    fn prepare(&self, _: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        Ok((Effect::None, Box::new(())))
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        let result = AnswerContent::Text(permit.call().canonical().to_vec());
        Unmasked::Completed { result, status: "ok".into() }
    }
}

/// Of each tier but the last one tool; that of T0 only reads.
const TOOLS: [(&str, Tier); 3] = [("t0", Tier::T0), ("t", Tier::T1), ("t2", Tier::T2)];
/// The tool whose answers are its arguments, which others may have written.
pub const REPEATS: &str = "repeats";

fn toolbox(count: &Arc<AtomicU64>, dedupe: Option<Duration>) -> Toolbox {
    let tool = |(name, tier)| {
        let tool = inside::tool(name, tier, Arc::new(Counts(Arc::clone(count))));
        let facts = ToolFacts { dedupe, ..ToolFacts::clone(&tool.facts) };
        Tool { facts: Arc::new(facts), ..tool }
    };
    let repeats = inside::tool(REPEATS, Tier::T1, Arc::new(Repeats));
    let roles = ToolRoles { trust: Trust::Untrusted, ..ToolRoles::NONE };
    let facts = ToolFacts { roles, ..ToolFacts::clone(&repeats.facts) };
    let repeats = Tool { facts: Arc::new(facts), ..repeats };
    Toolbox::of(TOOLS.map(tool).into_iter().chain([repeats]).collect(), Scrub::default())
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
        Self::over(Arc::new(MemoryStore::new()), bounds, count).await
    }

    /// A gate over this ledger, with these bounds.
    pub async fn over(store: Arc<dyn LedgerStore>, bounds: Bounds, count: &Arc<AtomicU64>) -> Gate {
        Self::by(Arc::new(SystemClock::new()), (store, bounds, None), count).await
    }

    /// The same by this clock, its tools with this `dedupe`.
    pub async fn by(
        clock: Arc<dyn Clock>,
        (store, bounds, dedupe): (Arc<dyn LedgerStore>, Bounds, Option<Duration>),
        count: &Arc<AtomicU64>,
    ) -> Gate {
        let parts = inside::Parts {
            store,
            clock,
            toolbox: toolbox(count, dedupe),
            metrics: Arc::new(Metrics::new(Vec::new(), "0", "test")),
            ledger: ledger::LedgerSettings {
                queue_wait: Duration::from_secs(20),
                commit_wait: Duration::from_secs(40),
                ..ledger::LedgerSettings::default()
            },
            road: enforce::Settings { judge_apart: false, bounds, ..enforce::Settings::default() },
            agents: Vec::new(),
        };
        let stop = CancellationToken::new();
        let (road, _, recovered) = inside::road(parts, &stop).await;
        road.resume(recovered, Backlog::default()).await;
        let engine = inside::engine(|input| {
            if input["args"]["deny"] == true {
                return Err(EngineError::Undefined);
            }
            Ok(inside::allowed())
        });
        road.activate(Policy::unsigned(engine, "test", "1"), None).await.unwrap();
        Gate { road, stop }
    }

    pub async fn run(&self) -> Arc<Run> {
        self.run_of(&Thread::Caller).await
    }

    /// The run of a thread of work.
    pub async fn run_of(&self, thread: &Thread) -> Arc<Run> {
        let auth = CallerAuth { method: "uds".into(), ..CallerAuth::default() };
        let names = TOOLS.iter().map(|(name, _)| *name).chain([REPEATS]);
        let granted = names.map(|name| Grant::of(ToolName::parse(name).unwrap())).collect();
        let caller = Caller { manifest: Arc::new(inside::manifest(granted)), auth };
        self.road.implicit_run(Face::Mcp, &caller, thread, Opening::default()).await.unwrap()
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
