//! `sql` and `model` beside the same question asked directly: a kept connection and the same statement, a
//! pooled client and the same request. The model is a scripted server that answers at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use sqlx::Connection as _;
use wicketgate::catalog::address::Cidr;
use wicketgate::catalog::binding::{Api, Kind, Model, ModelUpstream};
use wicketgate::catalog::host::Origin;
use wicketgate::catalog::model::InputReserve;
use wicketgate::catalog::sql::{Named, Postgres, Sql, SqlTarget, Statement, StatementSource};
use wicketgate::domain::tier::Tier;

use crate::turns::{Setup, binding};
use wicketgate_support::bench::server;
use wicketgate_support::pg::Pg;

const SELECT: &str = "SELECT customer, total FROM orders WHERE id = $1";
const ROWS: &str = "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total INTEGER);
INSERT INTO orders VALUES (1, 'ann', 10), (2, 'bob', 20), (3, 'eve', 30);";
const SAID: &str = r#"{"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"yes"}}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}"#;

fn loopback() -> Vec<Cidr> {
    vec![Cidr::parse("127.0.0.0/8").unwrap()]
}

fn sql(target: SqlTarget, relation: &str) -> Kind {
    let statement = Statement {
        text: SELECT.into(),
        kind: "select",
        writes: false,
        relations: vec![relation.into()],
        functions: Vec::new(),
        parts: Vec::new(),
        params: 1,
        fields: Vec::new(),
    };
    let named = Named { statement: Arc::new(statement), params: vec!["id".into()] };
    Kind::Sql(Box::new(Sql {
        target,
        statements: StatementSource::Named(BTreeMap::from([("order".to_owned(), named)])),
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
        reserve: InputReserve { image_tokens: 50_000, bytes_per_token: NonZeroU64::MIN },
        face: None,
        upstreams: vec![ModelUpstream {
            provider: None,
            name: "scripted".into(),
            api: Api::OpenAi,
            origin,
            path: "/v1".into(),
            models: BTreeMap::from([("m".to_owned(), "m".to_owned())]),
            headers: Vec::new(),
            credentials: Vec::new(),
            private_addresses: loopback(),
            ca: None,
            http2: false,
            price: None,
            output_tokens_field: "max_tokens",
            native_tools: true,
        }],
    })
}

/// Has a tool of this kind, and asks it and its far side by turns.
async fn by_turns(setup: &Setup, what: &str, kind: Kind, args: &str, direct: impl AsyncFnMut()) {
    setup.tools(vec![binding("t0", Tier::T0, kind)]).await;
    setup.by_turns(what, "t0", args, direct).await;
}

async fn lite(setup: &Setup) {
    let path = setup.path("orders.db");
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(ROWS).unwrap();
    let mut statement = file.prepare(SELECT).unwrap();
    let ask = async || {
        let name: String = statement.query_row([2], |row| row.get(0)).unwrap();
        assert_eq!(name, "bob");
    };
    let kind = sql(SqlTarget::Sqlite(path), "orders");
    by_turns(setup, "sql, SQLite", kind, r#"{"id":2}"#, ask).await;
}

async fn postgres(setup: &Setup) {
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
    let target = SqlTarget::Postgres(Box::new(Postgres {
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
    by_turns(setup, "sql, PostgreSQL", sql(target, "public.orders"), r#"{"id":2}"#, ask).await;
}

async fn chat(setup: &Setup) {
    let at = server::start("application/json", SAID.as_bytes());
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
    by_turns(setup, "model, scripted", model(at), asked, ask).await;
}

/// Prints one line per database and one for the model.
pub async fn measure(dir: &Path) {
    let setup = Setup::new(dir).await;
    lite(&setup).await;
    postgres(&setup).await;
    chat(&setup).await;
    setup.gate.end().await;
}
