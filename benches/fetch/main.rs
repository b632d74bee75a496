//! What the gate adds to a fetch, beside the same fetch without it, in the same run.
//!
//! `cargo bench --bench fetch` prints one table; `-- --quick` in a third of the time. Nothing here asserts a
//! time. See benches/README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a measurement may stop at the first surprise, and prints"
)]

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wicketgate_support::observed as gate;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use gate::Gate;
use wicketgate_support::agent::Agent;
use wicketgate_support::bench::load::{self, Seen, short};
use wicketgate_support::bench::table::{Row, Table};
use wicketgate_support::bench::{self, server};

/// Callers at once.
const CALLERS: [usize; 3] = [1, 16, 1000];
/// Bytes of every answer.
const BODY: [u8; 256] = [b'x'; 256];

/// How long each measurement takes.
#[derive(Clone, Copy)]
struct Plan {
    each: Duration,
    warm: Duration,
}

fn main() {
    bench::run("fetch [-- --quick]", async |asked| {
        let (each, warm) = if asked.quick() { (1500, 500) } else { (5000, 1500) };
        let [each, warm] = [each, warm].map(Duration::from_millis);
        measure(Plan { each, warm }).await;
    });
}

async fn measure(plan: Plan) {
    let mut table = Table::default();
    let far = server::start("text/plain", &BODY);
    let url = format!("http://{far}/page");
    let gate = Gate::around("enforce", "{}", &[("agent/main.rego", RULE)], &[], &tools(far));
    for many in CALLERS {
        // Close together, so that the machine is in the same mood for all three.
        let direct = direct(plan, &url, many).await;
        table.say(&format!("plain fetch, {many} caller(s): {}", direct.words("fetches")));
        let fetch = json!({"url": url}).to_string();
        for (tool, args) in [("bench.fetch", fetch.as_str()), ("bench.http", "{}")] {
            let through = governed(plan, &gate, tool, args, many).await;
            table.add(Row {
                what: format!("`{tool}`, {many} caller(s)"),
                ours: through.words("calls"),
                floor: format!("p50 {}", short(direct.p50)),
                ratio: Some(through.p50.as_secs_f64() / direct.p50.as_secs_f64().max(1e-9)),
                target: None,
            });
        }
    }
    table.finish();
}

const RULE: &str = "allow if input.tool.name in {\"bench.fetch\", \"bench.http\"}";

fn tools(far: SocketAddr) -> [Value; 2] {
    let open = json!(["127.0.0.1/32"]);
    [
        json!({"name": "bench.fetch", "description": "fetches", "kind": "fetch", "tier": "T0", "read_only": true,
            "fetch": {"hosts": ["127.0.0.1"], "ports": [far.port()], "schemes": ["http"], "private_addresses": open}}),
        json!({"name": "bench.http", "description": "asks", "kind": "http", "tier": "T0", "read_only": true,
            "input_schema": {"type": "object"},
            "http": {"method": "GET", "url": format!("http://{far}/page"), "private_addresses": open}}),
    ]
}

async fn direct(plan: Plan, url: &str, many: usize) -> Seen {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<_, Empty<Bytes>> = Client::builder(TokioExecutor::new()).build(connector);
    let uri: hyper::Uri = url.parse().unwrap();
    let ask = move |client: Client<HttpConnector, Empty<Bytes>>, _n: u64| {
        let uri = uri.clone();
        async move {
            let answer = client.get(uri).await.unwrap();
            answer.into_body().collect().await.unwrap();
            client
        }
    };
    load::drive(vec![client; many], plan.warm, plan.each, ask).await
}

async fn governed(plan: Plan, gate: &Gate, tool: &'static str, args: &str, many: usize) -> Seen {
    let agent: Arc<Agent> = Arc::new(gate.open("").await);
    let failed = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&failed);
    let args = args.to_owned();
    let ask = move |agent: Arc<Agent>, _n: u64| {
        let (args, failed) = (args.clone(), Arc::clone(&counted));
        async move {
            if let Err(why) = agent.call(tool, "", &args).await
                && failed.fetch_add(1, Ordering::Relaxed) == 0
            {
                eprintln!("a call failed: {why:?}");
            }
            agent
        }
    };
    let mut seen = load::drive(vec![Arc::clone(&agent); many], plan.warm, plan.each, ask).await;
    seen.failed = failed.load(Ordering::Relaxed);
    agent.seal().await.unwrap();
    seen
}
