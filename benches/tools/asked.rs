//! `sql` and `model` beside the same question asked directly: a kept connection and the same statement, a
//! pooled client and the same request. The model is a scripted server that answers at once.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use sqlx::Connection as _;
use wicketgate::catalog::Binding;
use wicketgate::catalog::address::Cidr;
use wicketgate::catalog::binding::{Api, Kind, Model, ModelUpstream};
use wicketgate::catalog::host::Origin;
use wicketgate::catalog::schema::Schema;
use wicketgate::catalog::sql::{Asks, Named, Postgres, Sql, Statement, Target};
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::ToolName;
use wicketgate::domain::tier::Tier;
use wicketgate::enforce::Bounds;
use wicketgate::ledger::sqlite::Sqlite;
use wicketgate::tool::Toolbox;
use wicketgate::tool::mcp::Upstreams;

use crate::pg::Pg;
use crate::road::Gate;

const CALLS: usize = 300;
const SELECT: &str = "SELECT customer, total FROM orders WHERE id = $1";
const ROWS: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total INTEGER);
INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'eve', 30);";
const SAID: &str = r#"{"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"yes"}}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}"#;

fn loopback() -> Vec<Cidr> {
    vec![Cidr::parse("127.0.0.0/8").unwrap()]
}

/// A tool of the only name the harness grants for what only reads.
fn binding(kind: Kind) -> Binding {
    Binding {
        name: ToolName::parse("t0").unwrap(),
        description: "is asked".into(),
        schema: Schema::parse(br#"{"type":"object","additionalProperties":true}"#).unwrap(),
        kind,
        tier: Tier::T0,
        read_only: true,
        idempotent: true,
        timeout: Duration::from_secs(10),
        result_bytes_max: 1 << 20,
        cost_micro_usd: None,
        shown: None,
        definition: Digest::of(&[b"asked"]),
    }
}

fn sql(target: Target, relation: &str) -> Kind {
    let statement = Statement {
        text: SELECT.into(),
        kind: "select",
        writes: false,
        relations: vec![relation.into()],
        functions: Vec::new(),
        parts: Vec::new(),
        params: 1,
    };
    let named = Named { statement: Arc::new(statement), params: vec!["id".into()] };
    Kind::Sql(Box::new(Sql {
        target,
        asks: Asks::Named(BTreeMap::from([("order".to_owned(), named)])),
        read_only: true,
        statement_timeout: Duration::from_secs(5),
        rows_max: 100,
        connections_max: 4,
    }))
}

fn model(at: SocketAddr) -> Kind {
    let (origin, _) = Origin::parse(&format!("http://{at}/")).unwrap();
    Kind::Model(Model {
        output_tokens_max: 16,
        upstreams: vec![ModelUpstream {
            name: "scripted".into(),
            api: Api::OpenAi,
            origin,
            path: "/v1".into(),
            models: BTreeMap::from([("m".to_owned(), "m".to_owned())]),
            headers: Vec::new(),
            credentials: Vec::new(),
            private_addresses: loopback(),
            ca: None,
            price: None,
        }],
    })
}

/// A model that always says the same, at once, on a thread of its own.
fn scripted() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let answer = service_fn(async |asked: Request<Incoming>| {
                    asked.into_body().collect().await.unwrap();
                    let answer = Response::builder().header("content-type", "application/json");
                    let body = Full::new(Bytes::from_static(SAID.as_bytes()));
                    Ok::<_, Infallible>(answer.body(body).unwrap())
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), answer));
            }
        });
    });
    address
}

fn median(mut all: Vec<Duration>) -> f64 {
    all.sort();
    all[all.len() / 2].as_secs_f64() * 1e3
}

/// Asks directly and through the gate by turns, and prints the line.
async fn by_turns(gate: &Gate, name: &str, kind: Kind, args: &str, mut direct: impl AsyncFnMut()) {
    let toolbox = Toolbox::build(vec![binding(kind)], &Upstreams::new(&[])).unwrap();
    gate.road.set_toolbox(toolbox).await.unwrap();
    let run = gate.run().await;
    // The first connection is not what is measured.
    direct().await;
    gate.call_tool(&run, "t0", args).await.unwrap();
    let (mut alone, mut through) = (Vec::new(), Vec::new());
    for _ in 0..CALLS {
        let began = Instant::now();
        direct().await;
        alone.push(began.elapsed());
        let began = Instant::now();
        gate.call_tool(&run, "t0", args).await.unwrap();
        through.push(began.elapsed());
    }
    let (alone, through) = (median(alone), median(through));
    println!(
        "{name:<28} alone {alone:>7.3} ms   through the gate {through:>7.3} ms   added {:.3} ms",
        through - alone
    );
}

async fn lite(gate: &Gate, path: PathBuf) {
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(ROWS).unwrap();
    let mut statement = file.prepare(SELECT).unwrap();
    let ask = async || {
        let name: String = statement.query_row([2], |row| row.get(0)).unwrap();
        assert_eq!(name, "bob");
    };
    let kind = sql(Target::Sqlite(path), "orders");
    by_turns(gate, "sql, SQLite", kind, r#"{"id":2}"#, ask).await;
}

async fn postgres(gate: &Gate) {
    let pg = Pg::own_cluster();
    let admin = pg.empty_database().await.admin_url;
    let mut owner = sqlx::PgConnection::connect(&admin).await.unwrap();
    let roles = "CREATE ROLE bench_reader LOGIN; GRANT SELECT ON orders TO bench_reader;";
    let all = sqlx::AssertSqlSafe(format!("{ROWS} {roles}"));
    sqlx::raw_sql(all).execute(&mut owner).await.unwrap();
    let url = admin.replacen("//postgres@", "//bench_reader@", 1);
    let mut direct = sqlx::PgConnection::connect(&url).await.unwrap();
    let database = admin.rsplit('/').next().unwrap().split('?').next().unwrap().to_owned();
    let (origin, _) = Origin::parse(&format!("http://127.0.0.1:{}/", pg.port())).unwrap();
    let target = Target::Postgres(Box::new(Postgres {
        origin,
        database,
        user: "bench_reader".into(),
        password: None,
        ca: None,
        private_addresses: loopback(),
        search_path: vec!["public".into()],
    }));
    let ask = async || {
        let row = sqlx::query(SELECT).bind(2).fetch_one(&mut direct).await.unwrap();
        assert_eq!(sqlx::Row::get::<String, _>(&row, 0), "bob");
    };
    by_turns(gate, "sql, PostgreSQL", sql(target, "public.orders"), r#"{"id":2}"#, ask).await;
}

async fn chat(gate: &Gate) {
    let at = scripted();
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let asked = r#"{"model":"m","messages":[{"role":"user","content":"is it so?"}]}"#;
    let ask = async || {
        let request = Request::post(format!("http://{at}/v1/chat/completions"))
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from_static(asked.as_bytes())))
            .unwrap();
        let answer = client.request(request).await.unwrap();
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), SAID.as_bytes());
    };
    by_turns(gate, "model, scripted", model(at), asked, ask).await;
}

/// Prints one line per database and one for the model.
pub async fn measure(dir: &Path) {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let store = Arc::new(Sqlite::open(&dir.path().join("ledger.sqlite")).await.unwrap());
    let gate = Gate::over(store, Bounds::default(), &Arc::new(AtomicU64::new(0))).await;
    lite(&gate, dir.path().join("orders.db")).await;
    postgres(&gate).await;
    chat(&gate).await;
    gate.end().await;
}
