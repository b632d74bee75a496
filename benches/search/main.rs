//! The index of calls at size: `cargo bench --bench search`.
//!
//! Fills an index by the filler of a gate, once in a SQLite file and once in PostgreSQL, and asks it what people ask.
//! `-- --quick` does it with 50,000 calls, `-- sqlite --calls 200000` measures only what is named, with so many.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench may stop at the first surprise, and looks at a clock"
)]

#[path = "../../tests/operator/api.rs"]
#[allow(dead_code, reason = "the tests of the operator API use all of it")]
mod api;
mod browser;
mod calls;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgConnection, Row as _};
use wicketgate::domain::id::ChainId;
use wicketgate::domain::time::Timestamp;
use wicketgate::index::query::Query;
use wicketgate::index::{Index, RowSearch, RunFilter};
use wicketgate_support::bench::load::{number, short};
use wicketgate_support::bench::table::{Row, Table, Target};
use wicketgate_support::bench::{self, Asked, cpu, floor};
use wicketgate_support::pg::{Pg, TestDb};
use wicketgate_support::record as json_entry;

use calls::Calls;

/// Entries that the filler takes in one round.
const ROUND: u64 = 50_000;

/// The queries, and what each asks for.
fn queries(calls: u64) -> Vec<(&'static str, String)> {
    let day = |call: u64| Calls::at(call).to_string();
    vec![
        ("latest 100", String::new()),
        ("by tool", "tool:svc7.do_3".into()),
        ("agent and verdict", "agent:agent-007 verdict:deny".into()),
        (
            "agent and a day",
            format!("agent:agent-007 since:{} until:{}", day(calls / 2), day(calls / 2 + 11_000)),
        ),
        ("tool, agent and code: rare", "tool:svc7.do_3 agent:agent-007 code:code_07".into()),
        ("a rare code", "code:rare_code".into()),
        ("by finding", "finding:masked".into()),
        ("who approved, and a tool", "by:bo tool:svc7.do_3".into()),
        ("one run", format!("run:{}", calls::run_id(77))),
        ("one run of a tenth of all calls", format!("run:{}", calls::run_id(0))),
        ("a bare word: an agent", "agent-007".into()),
        ("a bare word: the beginning of 200 agents", "agent-".into()),
        ("a bare word: a code", "four_eyes".into()),
        (
            "a bare word: the beginning of a run",
            calls::run_id(77).to_string().get(..8).unwrap().to_owned(),
        ),
        ("a bare word: the beginning of every call", "c".into()),
        ("the beginning of ten tools, denied", "tool:svc7.* verdict:deny".into()),
        ("nothing", "tool:none agent:agent-007".into()),
        ("not a tool", "-tool:svc7.do_3 -verdict:allow".into()),
    ]
}

fn wanted(query: &str) -> RowSearch {
    let query = Query::parse(query, Calls::at(0)).unwrap();
    RowSearch { query, after: None, limit: 100 }
}

/// The best of three.
async fn best<F: Future>(ask: impl Fn() -> F) -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        drop(ask().await);
        best = best.min(began.elapsed());
    }
    best
}

fn figure(what: String, took: Duration, most: f64, floor: &str) -> Row {
    let ms = took.as_secs_f64() * 1000.0;
    Row {
        what,
        ours: short(took),
        floor: floor.into(),
        ratio: None,
        target: Some(Target::Figure(ms, most, "ms")),
    }
}

async fn filled(table: &mut Table, (name, index): (&str, &Index), ledger: &Calls, calls: u64) {
    let own = std::process::id();
    let (began, before) = (Instant::now(), cpu::of(own));
    let mut entries = 0;
    loop {
        let reach = index.fill(ledger, None, (Timestamp::from_millis(0), ROUND)).await.unwrap();
        if reach.entries == entries {
            break;
        }
        entries = reach.entries;
        eprint!("\r{name}: {entries} entries");
    }
    let (took, used) = (began.elapsed().as_secs_f64(), cpu::of(own) - before);
    let per_call = used.as_secs_f64() * 1e6 / calls as f64;
    let rate = number(calls as f64 / took);
    table.add(Row {
        what: format!("{name}: filling, {calls} calls, {entries} entries"),
        ours: format!(
            "{rate} calls/s, {per_call:.0} µs of processor time a call, entries made included"
        ),
        floor: String::new(),
        ratio: None,
        target: None,
    });
}

async fn asked(table: &mut Table, (name, index): (&str, &Index), calls: u64, floor: &str) {
    for (what, query) in queries(calls) {
        let took = best(|| async { index.calls(wanted(&query)).await.unwrap().rows.len() }).await;
        let found = index.calls(wanted(&query)).await.unwrap().rows.len();
        table.add(figure(format!("{name}: {what} ({found} rows)"), took, 5.0, floor));
    }
    // Deep pages, by key.
    let middle = RowSearch {
        after: Some(wicketgate::index::Place {
            at: Calls::at(calls / 2),
            chain: ChainId::from_bytes([0; 16]),
            seq: 0,
        }),
        ..wanted("")
    };
    let took = best(|| async { index.calls(middle.clone()).await.unwrap() }).await;
    table.add(figure(format!("{name}: a page in the middle"), took, 5.0, floor));
    let long = calls::run_id(0);
    let row = index.run(&long).await.unwrap().unwrap();
    for (what, share) in [("first", 0), ("middle", 2), ("last", 1)] {
        let after = (share > 0).then(|| calls / 10 * 2 / share - 100);
        let page = || async { index.calls_of((&long, &row.chain), after, 100).await.unwrap() };
        let found = page().await.0.len();
        let took = best(page).await;
        let what =
            format!("{name}: the {what} page of a run of {} calls ({found} rows)", row.counts.all);
        table.add(figure(what, took, 5.0, floor));
    }
    for (what, query, filter) in [
        ("open runs", "", RunFilter::Open),
        ("runs of an agent", "agent:agent-007", RunFilter::Any),
        ("runs with a rare code", "code:rare_code", RunFilter::Any),
        ("runs with a tool", "tool:svc7.do_3", RunFilter::Any),
    ] {
        let took = best(|| async { index.runs(wanted(query), filter).await.unwrap() }).await;
        table.add(figure(format!("{name}: {what}"), took, 5.0, floor));
    }
    let took = best(|| async { index.open_runs().await.unwrap() }).await;
    table.add(figure(format!("{name}: how many runs are open"), took, 5.0, floor));
}

async fn sqlite(table: &mut Table, dir: &Path, calls: u64) -> (Arc<Calls>, Index) {
    let path = dir.join("console.sqlite");
    let index = Index::open(&path).unwrap();
    let ledger = Arc::new(Calls::of(calls));
    filled(table, ("SQLite", &index), &ledger, calls).await;
    let size = std::fs::metadata(&path).unwrap().len() as f64 / 1e6;
    table.say(&format!("SQLite: {size:.0} MB"));
    let conn = rusqlite::Connection::open(&path).unwrap();
    let one = "SELECT at FROM call WHERE chain = (SELECT chain FROM cursor) AND seq = 1";
    let bare = best(|| async { conn.query_row(one, [], |row| row.get::<_, i64>(0)) }).await;
    asked(table, ("SQLite", &index), calls, &format!("one row by its key: {}", short(bare))).await;
    (ledger, index)
}

async fn postgres(table: &mut Table, db: &TestDb, calls: u64) {
    let index = Index::postgres(&db.operator_url, "bench").unwrap();
    let ledger = Calls::of(calls);
    filled(table, ("PostgreSQL", &index), &ledger, calls).await;
    let mut conn = PgConnection::connect(&db.admin_url).await.unwrap();
    sqlx::raw_sql("VACUUM ANALYZE console.call, console.mark, console.run")
        .execute(&mut conn)
        .await
        .unwrap();
    let size = "SELECT pg_size_pretty(sum(pg_table_size(c.oid))) || ' and indexes ' || pg_size_pretty(sum(pg_indexes_size(c.oid)))
                  FROM pg_class c WHERE c.relnamespace = 'console'::regnamespace AND c.relkind = 'r'";
    let size: String = sqlx::query(size).fetch_one(&mut conn).await.unwrap().get(0);
    table.say(&format!("PostgreSQL: tables {size}"));
    let mut bare = Duration::MAX;
    for _ in 0..3 {
        let began = Instant::now();
        let one = "SELECT at FROM console.call WHERE chain = (SELECT chain FROM console.cursor) AND seq = 1";
        sqlx::query(one).fetch_optional(&mut conn).await.unwrap();
        bare = bare.min(began.elapsed());
    }
    asked(table, ("PostgreSQL", &index), calls, &format!("one row by its key: {}", short(bare)))
        .await;
}

fn main() {
    bench::run(
        "search [-- --quick] [sqlite postgres console] [--calls N]",
        async |asked: Asked| {
            let calls =
                asked.number("--calls").unwrap_or(if asked.quick() { 50_000 } else { 1_000_000 });
            let mut table = Table::default();
            let dir = tempfile::tempdir_in(bench::dir()).unwrap();
            let db = Pg::cluster().database().await;
            table.say(&floor::machine(dir.path(), &db.admin_url).await);
            if asked.wants("sqlite") || asked.wants("console") {
                let read = sqlite(&mut table, dir.path(), calls).await;
                if asked.wants("console") {
                    browser::measure(&mut table, read, &queries(calls), asked.quick()).await;
                }
            }
            if asked.wants("postgres") {
                postgres(&mut table, &db, calls).await;
            }
            table.say(&floor::after(dir.path()));
            table.finish();
        },
    );
}
