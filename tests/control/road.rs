//! A road of this process, on any ledger and any list, with a tool that can be made to wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use wicketgate::approval::order::{self, Loosening};
use wicketgate::approval::{ApprovalRefusal, Approvers, SignedApproval};
use wicketgate::clock::{Clock, SystemClock};
use wicketgate::control::Orders;
use wicketgate::domain::call::{CallerAuth, ToolCall};
use wicketgate::domain::decision::LayerReason;
use wicketgate::domain::effect::Effect;
use wicketgate::domain::facts::ToolFacts;
use wicketgate::domain::id::ToolName;
use wicketgate::domain::outcome::{AnswerContent, Unmasked};
use wicketgate::domain::taint::ToolRoles;
use wicketgate::domain::tier::{Face, Tier};
use wicketgate::domain::time::Timestamp;
use wicketgate::enforce::{self, CallRequest, Follow, Opening, Policy, Releaser, Road, Run};
use wicketgate::identity::manifest::{Grant, Manifest};
use wicketgate::identity::{Caller, Peer};
use wicketgate::judge::prepared::PreparedResource;
use wicketgate::ledger;
use wicketgate::ledger::permit::Permit;
use wicketgate::ledger::store::{Leased, LedgerStore};

use wicketgate::policy::PolicyEngine;
use wicketgate::telemetry::metrics::Metrics;
use wicketgate::tool::ToolExecutor;
use wicketgate::tool::scrub::Scrub;
use wicketgate::tool::toolbox::{Tool, Toolbox};

use crate::inside;

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
    fn prepare(&self, _call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        Ok((Effect::None, Box::new(())))
    }

    async fn execute(&self, _permit: &Permit) -> Unmasked {
        self.0.begun.send_modify(|n| *n += 1);
        self.0.open.subscribe().wait_for(|open| *open).await.unwrap();
        Unmasked::Completed { result: AnswerContent::Text(b"{}".to_vec()), status: "ok".into() }
    }
}

fn toolbox(bench: &Arc<Bench>) -> Toolbox {
    let tool = |(name, tier)| {
        let tool = inside::tool(name, tier, Arc::new(Waits(Arc::clone(bench))));
        if name != READS {
            return tool;
        }
        let facts = ToolFacts { roles: ToolRoles::default(), ..(*tool.facts).clone() };
        Tool { facts: Arc::new(facts), ..tool }
    };
    Toolbox::of(TOOLS.map(tool).into(), Scrub::default())
}

/// The answers of this one are untrusted and private.
pub const READS: &str = "t.read";

const TOOLS: [(&str, Tier); 6] = [
    (READS, Tier::T0),
    ("t.zero", Tier::T0),
    ("t.one", Tier::T1),
    ("t.two", Tier::T2),
    ("t.three", Tier::T3),
    // Bound, and granted by a manifest that gets it wrong.
    (enforce::CANARY_TOOL, Tier::T1),
];

pub fn manifest() -> Arc<Manifest> {
    granting(|name| name != enforce::CANARY_TOOL)
}

/// A manifest that grants those of the tools.
pub fn granting(which: impl Fn(&str) -> bool) -> Arc<Manifest> {
    let names = TOOLS.into_iter().map(|(name, _)| name).filter(|name| which(name));
    let tools = names.map(|name| Grant::of(ToolName::parse(name).unwrap())).collect();
    let signers = vec!["one".into(), "two".into()];
    Arc::new(Manifest { name: "test-agent".into(), signers, ..inside::manifest(tools) })
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
    pub metrics: Arc<Metrics>,
    stop: CancellationToken,
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Whoever is on the list of the test run.
#[derive(Debug)]
struct Operators;

impl Releaser for Operators {
    fn loosens(
        &self,
        signed: &SignedApproval,
        now: Timestamp,
    ) -> Result<Loosening, ApprovalRefusal> {
        let list = std::fs::read(crate::sidecar::key("signers")).unwrap();
        let list = Approvers::parse(&list).unwrap();
        order::check(&list, ("default", &[order::OrderKind::Reinstate]), signed, now)
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
        let before = Before { clock: 0, breaker: None, engine: inside::allows() };
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
        let parts = inside::Parts {
            store,
            clock: Arc::clone(&clock) as _,
            toolbox: toolbox(bench),
            metrics: Arc::clone(&metrics),
            ledger: ledger::LedgerSettings {
                lease_term: Duration::from_secs(600),
                ..ledger::LedgerSettings::default()
            },
            road: settings,
            agents: vec![manifest()],
        };
        let stop = CancellationToken::new();
        let reached = |leased: &Leased, parts: &mut enforce::Parts| {
            parts.signers.orders = Some(Arc::new(Operators));
            parts.commands.breaker = before.breaker;
            parts.commands.follow = Some(Follow {
                orders: list(leased),
                origin: leased.origin.clone(),
                writer: "test".into(),
                state: Arc::new(Vec::new),
            });
        };
        let (road, _, runs) = inside::road_with(parts, &stop, reached).await;
        let backlog = road.control().rebuild().await.unwrap();
        road.resume(runs, backlog).await;
        tokio::spawn(Arc::clone(&road).follow_orders(stop.clone()));
        road.activate(Policy::unsigned(before.engine, "test", "1"), None).await.unwrap();
        Serving { road, clock, metrics, stop }
    }

    /// Nobody writes the books any more.
    pub fn close_ledger(&self) {
        self.stop.cancel();
    }

    /// Opens a run.
    pub async fn open(&self) -> Result<Arc<Run>, (String, String)> {
        let auth = CallerAuth { method: "uds".into(), ..CallerAuth::default() };
        let caller = Caller { manifest: manifest(), auth };
        let opening = Opening { model: "m".into(), ..Opening::default() };
        let opened = self.road.open_run(Face::Grpc, &caller, opening).await;
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
