//! A whole gate with an all-allowing policy, around tools of one server or more.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use wicketgate::catalog::Binding;
use wicketgate::catalog::binding::Kind;
use wicketgate::catalog::server::{Mcp, Server, Target};
use wicketgate::clock::SystemClock;
use wicketgate::domain::call::CallerAuth;
use wicketgate::domain::tier::Face;
use wicketgate::enforce::{self, Backlog, CallRequest, Opening, Policy, Road};
use wicketgate::identity::manifest::{Grant, Manifest};
use wicketgate::identity::{Caller, Peer};
use wicketgate::ledger;
use wicketgate::mcp::header;
use wicketgate::telemetry::metrics::Metrics;
use wicketgate::tool::Toolbox;
use wicketgate::tool::mcp::Upstreams;
use wicketgate_support::memory::MemoryStore;

use crate::inside;

/// What agents and the lock see of the fixture's tool.
pub const PINNED: &str = r#"{"name":"act","description":"acts","inputSchema":
    {"type":"object","properties":{"do":{"type":"string"}},"additionalProperties":true}}"#;

/// A gate and an open run.
pub struct Gate {
    pub upstreams: Upstreams,
    pub metrics: Arc<Metrics>,
    road: Arc<Road>,
    token: String,
    stop: CancellationToken,
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What came of a call: the result, or the code and its detail, and the message.
pub type Came = Result<String, (String, String, String)>;

/// A tool of this server: `act` writes, `look` is the same tool and said to be read only.
fn bindings(server: &Arc<Server>, pinned: &str) -> Vec<Binding> {
    let binding = |name: String, target: Target, read_only: bool| {
        let mirrored =
            vec![header::Mirrored { name: "Region".into(), path: vec!["region".into()] }];
        let mcp = Mcp {
            server: Arc::clone(server),
            target,
            mirrored,
            pinned: pinned.as_bytes().into(),
            signers: Vec::new().into(),
        };
        Binding {
            read_only,
            timeout: server.timeout,
            result_bytes_max: server.result_bytes_max,
            ..inside::binding(&name, Kind::Mcp(Box::new(mcp)))
        }
    };
    let name = &server.name;
    vec![
        binding(format!("{name}.act"), Target::Tool("act".into()), false),
        binding(format!("{name}.look"), Target::Tool("act".into()), true),
        binding(format!("{name}.resources.read"), Target::Method("resources/read"), true),
    ]
}

impl Gate {
    /// A gate around the tools of these servers.
    pub async fn of(servers: Vec<Server>) -> Gate {
        Self::pinned(servers, PINNED).await
    }

    /// The same with another pinned tool.
    pub async fn pinned(servers: Vec<Server>, pinned: &str) -> Gate {
        let servers: Vec<_> = servers.into_iter().map(Arc::new).collect();
        let upstreams = Upstreams::new(&servers);
        let bindings: Vec<_> = servers.iter().flat_map(|s| bindings(s, pinned)).collect();
        let grant = |b: &Binding| Grant::of(b.name.clone());
        let manifest = Arc::new(inside::manifest(bindings.iter().map(grant).collect()));
        let toolbox = Toolbox::build(bindings, &upstreams, Vec::new()).unwrap();
        let metrics = Arc::new(Metrics::new(Vec::new(), "0", "test"));
        upstreams.observe(&metrics);
        let stop = CancellationToken::new();
        let road = road(toolbox, &manifest, &metrics, &stop).await;
        let auth = CallerAuth { method: "uds".into(), ..CallerAuth::default() };
        let caller = Caller { manifest, auth };
        let opening = Opening { model: "m".into(), ..Opening::default() };
        let token = road.open_run(Face::Grpc, &caller, opening).await.unwrap().token;
        Gate { upstreams, metrics, road, token, stop }
    }

    /// Asks for one call.
    pub async fn call(&self, tool: &str, arguments: Value) -> Came {
        self.traced(tool, arguments, None).await
    }

    /// Asks for one call within a trace.
    pub async fn traced(&self, tool: &str, arguments: Value, traceparent: Option<&str>) -> Came {
        let peer = Peer { listener: "uds", ..Peer::default() };
        let run = self.road.find_run(&peer, &self.token).unwrap();
        let request = CallRequest {
            call_id: String::new(),
            tool: tool.to_owned(),
            arguments: arguments.to_string().into_bytes(),
            traceparent: traceparent.map(str::to_owned),
            ..CallRequest::default()
        };
        match self.road.execute(&run, request).await {
            Ok(released) => Ok(String::from_utf8(released.result().to_vec()).unwrap()),
            Err(fault) => Err((fault.code.as_str().to_owned(), fault.detail, fault.message)),
        }
    }

    /// The result of `act`, which has to work.
    pub async fn act(&self, arguments: Value) -> Value {
        let text = self.call("fix.act", arguments).await.unwrap();
        serde_json::from_str(&text).unwrap()
    }

    /// That the server works now: a plain call is answered.
    pub async fn works(&self) {
        let text = self.call("fix.act", json!({"text": "fine"})).await.unwrap();
        assert_eq!(text, r#"{"content": [{"type": "text", "text": "fine"}]}"#);
    }

    /// How often this was counted.
    pub fn counted(&self, series: &str) -> u64 {
        let text = self.metrics.text().unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        line.map_or(0, |count| count.trim().parse().unwrap())
    }
}

/// Code and detail of what did not come.
pub fn fault(came: &Came) -> (&str, &str) {
    let (code, detail, _) = came.as_ref().unwrap_err();
    (code, detail)
}

async fn road(
    toolbox: Toolbox,
    manifest: &Arc<Manifest>,
    metrics: &Arc<Metrics>,
    stop: &CancellationToken,
) -> Arc<Road> {
    let parts = inside::Parts {
        store: Arc::new(MemoryStore::new()),
        clock: Arc::new(SystemClock::new()),
        toolbox,
        metrics: Arc::clone(metrics),
        ledger: ledger::LedgerSettings {
            queue_wait: Duration::from_secs(20),
            commit_wait: Duration::from_secs(20),
            lease_term: Duration::from_secs(120),
            ..ledger::LedgerSettings::default()
        },
        road: enforce::Settings::default(),
        agents: vec![Arc::clone(manifest)],
    };
    let (road, _, runs) = inside::road(parts, stop).await;
    road.resume(runs, Backlog::default()).await;
    road.activate(Policy::unsigned(inside::allows(), "test", "1"), None).await.unwrap();
    road
}
