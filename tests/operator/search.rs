//! Calls and runs that are looked up: who may, what is found, and an index that is cut off, forged or rebuilt.

use rusqlite::types::Value as Cell;
use rustix::process::{Signal, kill_process};
use serde_json::Value;
use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::domain::code::Code;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::id::{CallId, RunId, ToolName};
use wicketgate::domain::json::Json;
use wicketgate::index::Index;
use wicketgate::ledger::drafts::DraftWithPayloads;
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::LedgerReader as _;
use wicketgate::record::sample::body;
use wicketgate::record::{Draft, Kind};
use wicketgate_support::files::Files;
use wicketgate_support::process::Process;
use wicketgate_support::waiting::until;

use crate::api::{ApiServer, ask, run_id};
use crate::hub::furnish;

/// Records a call that is denied for this reason.
pub async fn deny(api: &ApiServer, run: RunId, call: &str, tool: &str, code: &str) {
    deny_at(api, run, call, (tool, code), &[]).await;
}

/// The same, of a call that would have reached these hosts.
async fn deny_at(
    api: &ApiServer,
    run: RunId,
    call: &str,
    (tool, code): (&str, &str),
    hosts: &[&str],
) {
    let reason = Json::object([
        ("code", Json::from("policy.denied")),
        ("detail", Json::from(code)),
        ("message", Json::from("no")),
        ("rule", Json::from("wicketgate.agent.deny")),
    ]);
    let hosts: Vec<Json> = hosts.iter().map(|host| Json::from(*host)).collect();
    let hosts = (!hosts.is_empty()).then(|| ("hosts", hosts.into()));
    let members = [("reasons", vec![reason].into())].into_iter().chain(hosts);
    let draft = Draft {
        run: Some(run),
        call: CallId::parse(call),
        tool: ToolName::parse(tool),
        verdict: Some(Verdict::Deny),
        ..Draft::of(body(Kind::CallDenied, members))
    };
    api.ledger.record(DraftWithPayloads::bare(draft)).await.unwrap();
}

async fn seal(api: &ApiServer, run: RunId) {
    let draft = Draft { run: Some(run), ..Draft::of(body(Kind::RunSealed, [])) };
    api.ledger.record(DraftWithPayloads::bare(draft)).await.unwrap();
}

/// A query as it stands in a URL.
fn quoted(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

pub async fn found(api: &ApiServer, query: &str) -> Value {
    let (status, body) = api.get("vera", &format!("/v1/calls?q={}", quoted(query))).await;
    assert_eq!(status, 200, "{query}: {body}");
    body
}

pub fn ids(found: &Value) -> Vec<String> {
    let calls = found["calls"].as_array().unwrap().iter();
    calls.map(|call| call["call"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn a_query_that_is_wrong_is_refused_with_its_word_and_column() {
    let api = ApiServer::open().await;
    for (path, part) in [
        ("/v1/calls?q=tool%3Aa%20verdikt%3Adeny", "`verdikt:deny` at column 8"),
        ("/v1/calls?since=yesterday", "`since` must be a date"),
        ("/v1/calls?q=since%3A1h&since=2h", "stand once"),
        ("/v1/calls?cursor=abc", "`cursor`"),
        ("/v1/calls?limit=many", "name=<number>"),
        ("/v1/calls?limit=1&limit=2", "at most once"),
        ("/v1/calls?p=1", "`p`"),
        ("/v1/runs?state=gone", "open, sealed or all"),
        ("/v1/runs?q=tier%3AT9", "T0, T1, T2, T3"),
    ] {
        let (status, body) = api.get("vera", path).await;
        assert_eq!(status, 400, "{path}: {body}");
        assert!(body["detail"].as_str().unwrap().contains(part), "{path}: {body}");
    }
    assert!(api.refused.lock().iter().all(|code| *code == Code::RequestMalformed));
    for path in [format!("/v1/calls/{}/1", "0".repeat(32)), "/v1/calls/x/y".to_owned()] {
        assert_eq!(api.get("vera", &path).await.0, 404, "{path}");
    }
    let none = format!("/v1/runs/{}", run_id(9));
    assert_eq!(api.get("vera", &none).await.0, 404);
}

#[tokio::test]
async fn pages_follow_each_other_without_a_gap_while_calls_are_added() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    for n in 0..5 {
        deny(&api, run, &format!("c{n}"), "work.do", "no_allow").await;
    }
    let first = api.get("vera", "/v1/calls?limit=2").await.1;
    assert_eq!(ids(&first), ["c4", "c3"]);
    deny(&api, run, "c5", "work.do", "no_allow").await;
    let next = first["next"].as_str().unwrap();
    let second = api.get("vera", &format!("/v1/calls?limit=2&cursor={next}")).await.1;
    assert_eq!(ids(&second), ["c2", "c1"]);
    let next = second["next"].as_str().unwrap();
    let third = api.get("vera", &format!("/v1/calls?limit=2&cursor={next}")).await.1;
    assert_eq!((ids(&third), &third["next"]), (vec!["c0".to_owned()], &Value::Null));

    // The calls of one run go the other way.
    let line = api.get("vera", &format!("/v1/runs/{run}?limit=4")).await.1;
    let calls = line["timeline"].as_array().unwrap();
    assert_eq!((calls.len(), &calls[0]["call"]), (4, &"c0".into()));
    let rest = api.get("vera", &format!("/v1/runs/{run}?after={}", line["next"])).await.1;
    assert_eq!(rest["timeline"].as_array().unwrap().len(), 2, "{rest}");
    assert_eq!(rest["next"], Value::Null);
}

#[tokio::test]
async fn runs_are_found_open_sealed_by_their_calls_and_by_their_parent() {
    let api = ApiServer::open().await;
    let (open, sealed) = (run_id(1), run_id(2));
    for run in [open, sealed] {
        api.open_run(run).await;
    }
    deny(&api, sealed, "c1", "pay.out", "amount").await;
    seal(&api, sealed).await;
    api.hold(ask(open, "c1", r#"{"amount":1}"#)).await;
    for (query, expected) in [
        ("", vec![open]),
        ("?state=open", vec![open]),
        ("?state=sealed", vec![sealed]),
        ("?state=all", vec![sealed, open]),
        ("?state=all&q=tool%3Apay.out", vec![sealed]),
        ("?state=all&q=-code%3Aamount", vec![open]),
        ("?state=all&q=state%3Aheld", vec![open]),
        ("?state=all&q=amount", vec![sealed]),
        ("?state=all&q=agent%3Anot-it", vec![]),
    ] {
        let (status, body) = api.get("vera", &format!("/v1/runs{query}")).await;
        assert_eq!(status, 200, "{query}: {body}");
        let runs = body["runs"].as_array().unwrap().iter();
        let mut runs: Vec<String> =
            runs.map(|run| run["run"].as_str().unwrap().to_owned()).collect();
        let mut expected: Vec<String> = expected.iter().map(RunId::to_string).collect();
        runs.sort();
        expected.sort();
        assert_eq!(runs, expected, "{query}");
        assert_eq!(body["open"], 1, "{query}: {body}");
    }
    let line = api.get("vera", &format!("/v1/runs/{sealed}")).await.1;
    assert_eq!((&line["denied"], &line["calls"]), (&1.into(), &1.into()), "{line}");
    assert!(line["sealed"].is_string(), "{line}");
}

#[tokio::test]
async fn calls_and_runs_are_found_by_the_hosts_of_their_calls() {
    let api = ApiServer::open().await;
    let (one, other) = (run_id(1), run_id(2));
    for run in [one, other] {
        api.open_run(run).await;
    }
    deny_at(&api, one, "c1", ("pay.out", "amount"), &["pay.test"]).await;
    deny_at(&api, one, "c2", ("ask", "amount"), &["models-1.test", "models-2.test"]).await;
    deny_at(&api, other, "c3", ("look", "amount"), &["*.docs.test"]).await;
    deny(&api, other, "c4", "work.do", "amount").await;
    for (query, expected) in [
        ("host:pay.test", &["c1"][..]),
        ("host:models-2.test", &["c2"]),
        ("host:models-*", &["c2"]),
        ("models-", &["c2"]),
        ("pay.t", &["c1"]),
        ("\"pay.test\"", &["c1"]),
        ("host:\"*.docs.test\"", &["c3"]),
        ("-host:pay.test", &["c4", "c3", "c2"]),
        ("-models-", &["c4", "c3", "c1"]),
        ("host:pay.test code:amount tool:pay.*", &["c1"]),
        ("host:a.docs.test", &[]),
        ("host:pay", &[]),
    ] {
        assert_eq!(ids(&found(&api, query).await), expected, "{query}");
    }
    let line = found(&api, "models-1.test").await["calls"][0].clone();
    assert_eq!(line["hosts"], serde_json::json!(["models-1.test", "models-2.test"]), "{line}");
    for (query, expected) in [("host:pay.test", one), ("models-2", one), ("-host:pay.test", other)]
    {
        let path = format!("/v1/runs?state=all&q={}", quoted(query));
        let (status, body) = api.get("vera", &path).await;
        let runs = body["runs"].as_array().unwrap();
        assert_eq!((status, runs.len()), (200, 1), "{query}: {body}");
        assert_eq!(runs[0]["run"], expected.to_string(), "{query}");
    }
}

/// The file of an earlier build has no hosts: it is made again, from the first entry.
#[tokio::test]
async fn an_index_of_another_layout_is_filled_again() {
    let api = ApiServer::open().await;
    busy(&api).await;
    let reader = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
    let (path, now) = (api.path("whole.sqlite"), SystemClock::new().now());
    let fill = async || {
        let index = Index::open(&path).unwrap();
        index.fill(&reader, None, (now, u64::MAX)).await.unwrap();
    };
    fill().await;
    let expected = rows(&path);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch("ALTER TABLE call DROP COLUMN hosts; PRAGMA user_version = 2").unwrap();
    drop(file);
    fill().await;
    assert_eq!(rows(&path), expected);
}

#[tokio::test]
async fn payloads_leave_once_the_ledger_records_who_sees_them_and_never_otherwise() {
    let mut api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":120012001200}"#)).await;
    let call = found(&api, "c1").await["calls"][0].clone();
    let path = format!("/v1/calls/{}/{}", call["chain"].as_str().unwrap(), call["seq"]);
    let (status, one) = api.get("vera", &path).await;
    assert_eq!((status, &one["reasons"][0]["detail"]), (200, &"four_eyes".into()), "{one}");
    assert!(!one.to_string().contains("120012001200"), "no payload: {one}");
    let payloads = format!("{path}/payloads");
    assert_eq!(api.get("vera", &payloads).await.0, 403);
    assert!(api.entries(Kind::PayloadViewed).await.is_empty());
    let (status, seen) = api.get("aude", &payloads).await;
    assert_eq!((status, &seen["payloads"][0]["text"]), (200, &r#"{"amount":120012001200}"#.into()));
    let viewed = api.entries(Kind::PayloadViewed).await;
    assert_eq!(viewed.len(), 1);
    let member = |name: &str| viewed[0].get(name).and_then(Json::as_str).map(str::to_owned);
    assert_eq!((member("by"), member("call")), (Some("aude".into()), Some("c1".into())));

    api.end_writer().await;
    let (status, refused) = api.get("aude", &payloads).await;
    assert_eq!(status, 503, "{refused}");
    assert!(!refused.to_string().contains("120012001200"), "{refused}");
}

#[tokio::test]
async fn calls_of_another_tenant_are_not_found() {
    let api = ApiServer::of("other").await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1}"#)).await;
    assert_eq!(ids(&found(&api, "").await), Vec::<String>::new());
    assert_eq!(api.get("vera", &format!("/v1/runs/{run}")).await.0, 404);
    let reader = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
    let chain = reader.chains().await.unwrap()[0].chain;
    for seq in 0..8 {
        assert_eq!(api.get("vera", &format!("/v1/calls/{chain}/{seq}")).await.0, 404, "{seq}");
    }
}

/// A row of the index that was changed can hide a call or list it wrongly; the call itself is read from its entries.
#[tokio::test]
async fn a_forged_row_is_unmasked_by_the_entries_of_its_call() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    deny(&api, run, "c1", "pay.out", "amount").await;
    let call = found(&api, "c1").await["calls"][0].clone();
    assert_eq!(call["verdict"], "deny");
    let file = rusqlite::Connection::open(api.path("console.sqlite")).unwrap();
    let forge =
        "UPDATE call SET verdict = 'allow', state = 'completed', agent = 'another', codes = '[]'";
    assert_eq!(file.execute(forge, []).unwrap(), 1);
    file.execute("UPDATE run SET agent = 'another'", []).unwrap();
    assert_eq!(found(&api, "c1").await["calls"][0]["verdict"], "allow", "the list is derived");
    let path = format!("/v1/calls/{}/{}", call["chain"].as_str().unwrap(), call["seq"]);
    let one = api.get("vera", &path).await.1;
    let facts = ["verdict", "state", "agent"].map(|name| one[name].as_str().unwrap());
    assert_eq!(facts, ["deny", "denied", "refund-agent"], "{one}");
}

/// Every row of an index with its table, in order.
pub fn rows(path: &std::path::Path) -> Vec<(&'static str, Vec<Cell>)> {
    let file = rusqlite::Connection::open(path).unwrap();
    let mut rows = Vec::new();
    for (table, key) in [
        ("call", "chain, seq"),
        ("cursor", "chain"),
        ("mark", "kind, value, chain, seq"),
        ("run", "run, chain"),
    ] {
        let mut select = file.prepare(&format!("SELECT * FROM {table} ORDER BY {key}")).unwrap();
        let columns = select.column_count();
        let mut found = select.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let cells: Vec<Cell> = (0..columns).map(|at| row.get(at).unwrap()).collect();
            rows.push((table, cells));
        }
    }
    rows
}

/// Twenty runs with a denied, a held and an expired call each.
pub async fn busy(api: &ApiServer) {
    for n in 1..=20 {
        let run = run_id(n);
        api.open_run(run).await;
        deny_at(api, run, "denied", ("pay.out", "amount"), &["b.test", "pay.test"]).await;
        api.hold(ask(run, "expired", "{}")).await;
        api.hold(ask(run, "held", "{}")).await;
        api.end_call(run, "expired").await;
    }
}

#[tokio::test]
async fn an_index_that_is_cut_off_at_any_entry_ends_with_the_same_rows() {
    let api = ApiServer::open().await;
    busy(&api).await;
    let reader = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
    let now = SystemClock::new().now();
    let whole = Index::open(&api.path("whole.sqlite")).unwrap();
    let reach = whole.fill(&reader, None, (now, u64::MAX)).await.unwrap();
    assert_eq!(reach.behind, 0);
    let expected = rows(&api.path("whole.sqlite"));
    assert!(expected.iter().filter(|(table, _)| *table == "call").count() == 60);
    // Emptied and filled again, the file is the same.
    whole.clear().await.unwrap();
    assert_eq!(rows(&api.path("whole.sqlite")), Vec::new());
    whole.fill(&reader, None, (now, u64::MAX)).await.unwrap();
    assert_eq!(rows(&api.path("whole.sqlite")), expected);
    // A damaged file is replaced.
    drop(whole);
    for suffix in ["-wal", "-shm"] {
        drop(std::fs::remove_file(api.path(&format!("whole.sqlite{suffix}"))));
    }
    std::fs::write(api.path("whole.sqlite"), b"this is no database at all, and never was one")
        .unwrap();
    let again = Index::open(&api.path("whole.sqlite")).unwrap();
    again.fill(&reader, None, (now, u64::MAX)).await.unwrap();
    drop(again);
    assert_eq!(rows(&api.path("whole.sqlite")), expected);
    // So is one that opens, and whose damage shows when it is used.
    let mut bytes = std::fs::read(api.path("whole.sqlite")).unwrap();
    bytes.iter_mut().skip(4096).for_each(|byte| *byte = 0xff);
    std::fs::write(api.path("whole.sqlite"), bytes).unwrap();
    let damaged = Index::open(&api.path("whole.sqlite")).unwrap();
    // The fill that meets the damage says so.
    drop(damaged.fill(&reader, None, (now, u64::MAX)).await);
    damaged.fill(&reader, None, (now, u64::MAX)).await.unwrap();
    drop(damaged);
    assert_eq!(rows(&api.path("whole.sqlite")), expected);
}

/// The program is killed while it rebuilds the index, again and again: whatever it left, the next one ends with the rows
/// of an index that nothing disturbed.
#[tokio::test]
async fn a_reindex_that_is_killed_is_finished_by_the_next_one() {
    let api = ApiServer::open().await;
    busy(&api).await;
    let files = Files::new();
    files.secret("reader.url", "postgres://none@127.0.0.1:1/none");
    furnish(&files, &serde_json::json!({"sqlite": {"path": api.path("ledger.sqlite")}}));
    std::fs::create_dir_all(files.path("state")).unwrap();
    let reindex = ["ledger", "reindex", "--config", "hub.yaml", "--json"];
    let index = files.path("state/console.sqlite");
    for _ in 0..4 {
        let killed = Process::start(files.command(&reindex));
        until("the index", || async { index.exists() }).await;
        kill_process(killed.pid(), Signal::KILL).unwrap();
        drop(killed);
    }
    let done = files.try_run(&reindex).ok();
    assert_eq!(done.json()["behind"], 0, "{done:?}");
    let reader = SqliteReader::open(&api.path("ledger.sqlite")).await.unwrap();
    let undisturbed = Index::open(&api.path("undisturbed.sqlite")).unwrap();
    undisturbed.fill(&reader, None, (SystemClock::new().now(), u64::MAX)).await.unwrap();
    drop(undisturbed);
    assert_eq!(rows(&index), rows(&api.path("undisturbed.sqlite")));
}
