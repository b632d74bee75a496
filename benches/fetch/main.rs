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

#[allow(dead_code, reason = "tests ask it more")]
#[path = "../../tests/observe/gate.rs"]
mod gate;
#[allow(dead_code, reason = "the other bench uses more of it")]
#[path = "../road/load.rs"]
mod load;
#[allow(dead_code, reason = "the other bench uses more of it")]
#[path = "../road/table.rs"]
mod table;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use gate::{Agent, Gate};
use load::{Seen, short};
use table::{Row, Table};

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
    let args: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --all-targets` runs this too, without `--bench`: then there is nothing to do.
    if !args.iter().any(|a| a == "--bench") {
        println!("run it with: cargo bench --bench fetch [-- --quick]");
        return;
    }
    let quick = args.iter().any(|a| a == "--quick");
    let (each, warm) = if quick { (1500, 500) } else { (5000, 1500) };
    let plan = Plan { each: Duration::from_millis(each), warm: Duration::from_millis(warm) };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(measure(plan));
    runtime.shutdown_timeout(Duration::from_secs(1));
}

async fn measure(plan: Plan) {
    let mut table = Table::default();
    let far = far();
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

/// A server that answers at once, on a thread of its own.
fn far() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let http = hyper::server::conn::http1::Builder::new();
                let answer = service_fn(async |_: Request<Incoming>| {
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(&BODY))))
                });
                tokio::spawn(http.serve_connection(TokioIo::new(stream), answer));
            }
        });
    });
    address
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
    agent.seal().await;
    seen
}
