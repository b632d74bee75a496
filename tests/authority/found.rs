//! What an agent did is found, seen and proven afterwards, on either store: by the API of a gate or a hub, and in the
//! ledger itself.

use rustix::process::{Signal, kill_process};
use serde_json::Value;
use sqlx::{Connection as _, PgConnection, Row as _};
use wicketgate_support::hub::Hub;
use wicketgate_support::people::{People, RULES, done};
use wicketgate_support::pg::{Pg, TestDb};
use wicketgate_support::process::Process;
use wicketgate_support::waiting::until;

use crate::agent::Agent;
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

/// Types a command that must succeed, with `--json`: what it printed.
#[track_caller]
fn shown(people: &People, who: &str, url: &str, args: &[&str]) -> Value {
    let (exit, said) = people.types(who, url, &[args, &["--json"]].concat());
    assert_eq!(exit, Some(0), "{args:?}: {said}");
    serde_json::from_str(&said).unwrap_or_else(|e| panic!("{args:?}: {e}: {said}"))
}

fn calls(found: &Value) -> Vec<&str> {
    let calls = found["calls"].as_array().unwrap_or_else(|| panic!("{found}"));
    calls.iter().map(|call| call["call"].as_str().unwrap()).collect()
}

/// The agent does three things: one call runs, one is denied, one waits for people.
async fn works(sidecar: &Sidecar) -> Agent {
    let agent = sidecar.open().await;
    agent.call("work.do", "ran", r#"{"secret":"of-mine"}"#).await.unwrap();
    agent.call("policy.undefined", "denied", "{}").await.unwrap_err();
    let held = agent.call("work.do", "held", r#"{"hold":2}"#).await.unwrap_err();
    assert_eq!(held.code, "call.held");
    agent
}

/// Everything that operators find of this agent's run at this API.
async fn finds(people: &People, url: &str, agent: &Agent) {
    let run = agent.run.as_str();
    let all = shown(people, "otto", url, &["call", "list", &format!("run:{run}")]);
    assert_eq!(calls(&all), ["held", "denied", "ran"], "the newest first: {all}");
    assert_eq!((&all["behind"], &all["next"]), (&0.into(), &Value::Null), "{all}");
    for (query, expected) in [
        ("state:completed", &["ran"][..]),
        ("verdict:deny", &["denied"]),
        ("state:held tool:work.*", &["held"]),
        ("code:two", &["held"]),
        ("-verdict:allow since:1h", &["held", "denied"]),
        ("until:1h", &[]),
        ("host:127.0.0.1", &["held", "denied", "ran"]),
        ("host:elsewhere.test", &[]),
        ("ran", &["ran"]),
    ] {
        let query = format!("run:{run} {query}");
        let found = shown(people, "otto", url, &["call", "list", &query]);
        assert_eq!(calls(&found), expected, "{query}: {found}");
    }
    let beginning = run.get(..8).unwrap();
    let both = shown(people, "otto", url, &["search", beginning]);
    assert_eq!(both["runs"]["runs"][0]["run"], run, "{both}");
    assert_eq!(calls(&both["calls"]).len(), 3, "{both}");
    let open = shown(people, "otto", url, &["run", "list", "agent:test-agent tool:work.do"]);
    let counts =
        ["calls", "in_flight", "held", "denied"].map(|name| open["runs"][0][name].as_u64());
    assert_eq!(counts, [Some(3), Some(0), Some(1), Some(1)], "{open}");
    let line = shown(people, "otto", url, &["run", "show", run]);
    let states: Vec<&Value> =
        line["timeline"].as_array().unwrap().iter().map(|call| &call["state"]).collect();
    assert_eq!(states, ["completed", "denied", "held"], "in the order they began: {line}");

    // Who may only look sees no payload; who may read does, and that is recorded.
    let (exit, said) = people.types("otto", url, &["call", "show", run, "ran", "--payloads"]);
    assert_eq!(exit, Some(1), "{said}");
    assert!(said.contains("operator.forbidden") && !said.contains("of-mine"), "{said}");
    let one = shown(people, "ada", url, &["call", "show", run, "ran", "--payloads"]);
    let args = &one["payloads"][0];
    assert_eq!((&args["role"], &args["withheld"]), (&"args".into(), &Value::Null), "{one}");
    assert!(args["text"].as_str().unwrap().contains("of-mine"), "{one}");
    assert_eq!(one["entries"][0]["kind"], "call.authorized", "{one}");

    // Two people approve the call that waits; who they were is found, and why it waited is kept.
    assert_eq!(done(&people.says("ada", "approve", url, (run, "held")).1).0, "held");
    assert_eq!(done(&people.says("grace", "approve", url, (run, "held")).1).0, "authorized");
    agent.wait("held", 20_000).await.unwrap();
    let approved = shown(people, "otto", url, &["call", "list", &format!("run:{run} by:ada")]);
    assert_eq!(calls(&approved), ["held"], "{approved}");
    let call = &approved["calls"][0];
    let facts = ["state", "verdict", "detail"].map(|name| call[name].as_str().unwrap_or_default());
    assert_eq!(facts, ["completed", "allow", "two"], "{call}");
    assert_eq!(
        (&call["approvals"], call["decided_by"].as_array().map(Vec::len)),
        (&2.into(), Some(2))
    );
    // Every entry of the call is in the signed checkpoint, its hash computed again.
    let proven = shown(people, "otto", url, &["call", "show", run, "held"]);
    assert!(proven["checkpoint"].is_u64() && proven["unproven"].is_null(), "{proven}");

    // The next call of its kind is shown beside it.
    let again = agent.call("work.do", "again", r#"{"hold":true,"more":"x"}"#).await.unwrap_err();
    assert_eq!(again.code, "call.held");
    let (exit, beside) = people.types("ada", url, &["approval", "show", run, "again"]);
    assert_eq!(exit, Some(0), "{beside}");
    for part in ["AGAINST held, APPROVED BY ada", "/hold  2 → true", "/more  nothing → \"x\""] {
        assert!(beside.contains(part), "{part}: {beside}");
    }
    let told = people.types("otto", url, &["call", "list", "verdikt:deny"]);
    assert!(told.1.contains("`verdikt:deny` at column 1") && told.0 == Some(1), "{told:?}");
}

/// What was shown to whom is an entry before it is shown.
#[track_caller]
fn viewed(tail: &str, run: &str) {
    let entries = tail.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let viewed: Vec<Value> = entries.filter(|entry| entry["kind"] == "payload.viewed").collect();
    assert_eq!(viewed.len(), 2, "{tail}");
    // The second was shown beside a held call.
    for (entry, call) in viewed.iter().zip(["ran", "held"]) {
        let data = &entry["data"];
        let facts = ["by", "run", "call"].map(|name| data[name].as_str().unwrap());
        assert_eq!(facts, ["ada", run, call], "{data}");
        assert!(!data["c"].as_array().unwrap().is_empty(), "{data}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite_the_gate_finds_what_an_agent_did_and_so_does_the_ledger_alone() {
    let (people, tool) = (People::new(), Tool::start().await);
    let estate = Estate::sqlite(&tool);
    estate.bundle("1.0.1", RULES, "policy");
    estate.configure(|config| people.configure(config, true));
    let mut sidecar = estate.serve().await;
    let agent = works(&sidecar).await;
    finds(&people, &sidecar.operator_url(), &agent).await;
    let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "--number", "200", "--json"];
    viewed(&estate.try_run(&tail).ok().out, &agent.run);

    // The ledger answers alike without a gate, and the run is watched to its end.
    sidecar.stop().await;
    let local = |args: &[&str]| {
        estate.try_run(&[args, &["--config", "wicketgate.yaml", "--json"]].concat()).ok().json()
    };
    let found = local(&["call", "list", "verdict:deny"]);
    assert_eq!(calls(&found), ["denied"], "{found}");
    let run = local(&["run", "show", &agent.run, "--payloads"]);
    let args = run["timeline"][0]["payloads"][0]["text"].as_str().unwrap();
    assert!(args.contains("of-mine"), "{run}");

    // The index that the gate filled is, row by row, the one that is filled anew.
    let before = rows(&estate);
    let reindexed = local(&["ledger", "reindex"]);
    assert_eq!(reindexed["behind"], 0, "{reindexed}");
    let after = rows(&estate);
    let calls = |rows: &[String]| rows.iter().filter(|row| row.starts_with("call ")).count();
    assert_eq!((calls(&before), calls(&after)), (4, 4), "{before:?}");
    // The gate went on after its index was last filled: only its cursor may have moved on.
    let settled = |rows: Vec<String>| -> Vec<String> {
        rows.into_iter().filter(|row| !row.starts_with("cursor ")).collect()
    };
    assert_eq!(settled(before), settled(after));
}

/// Every row of the index beside this gate, in order.
fn rows(estate: &Estate) -> Vec<String> {
    let file = rusqlite::Connection::open(estate.path("state/console.sqlite")).unwrap();
    let mut rows = Vec::new();
    for (table, key) in
        [("call", "chain, seq"), ("cursor", "chain"), ("mark", "kind, value"), ("run", "run")]
    {
        let mut select = file.prepare(&format!("SELECT * FROM {table} ORDER BY {key}")).unwrap();
        let columns = select.column_count();
        let mut found = select.query([]).unwrap();
        while let Some(row) = found.next().unwrap() {
            let values: Vec<rusqlite::types::Value> =
                (0..columns).map(|at| row.get(at).unwrap()).collect();
            rows.push(format!("{table} {values:?}"));
        }
    }
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres_the_hub_finds_what_an_agent_did() {
    let (people, tool) = (People::new(), Tool::start().await);
    let db = Pg::cluster().database().await;
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    estate.bundle("1.0.1", RULES, "policy");
    estate.configure(|config| people.configure(config, false));
    let mut sidecar = estate.serve().await;
    let hub = Hub::start(&estate, &people, (&db.operator_url, &db.reader_url)).await;
    let agent = works(&sidecar).await;
    finds(&people, &hub.url(), &agent).await;
    estate.secret("reader.url", &db.reader_url);
    let tail = ["ledger", "tail", "--postgres-url-file", "reader.url", "--number", "200", "--json"];
    viewed(&estate.try_run(&tail).ok().out, &agent.run);
    rebuilt(&estate, &db).await;

    // A forged row lists the call wrongly; the call is read from its entries, which are proven.
    let forge = "UPDATE console.call SET verdict = 'allow', state = 'completed', agent = 'x' WHERE call = 'denied'";
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    sqlx::query(forge).execute(&mut admin).await.unwrap();
    let list = ["call", "list", &format!("run:{} call:denied", agent.run)];
    assert_eq!(shown(&people, "otto", &hub.url(), &list)["calls"][0]["verdict"], "allow");
    let one = shown(&people, "otto", &hub.url(), &["call", "show", &agent.run, "denied"]);
    assert_eq!((&one["verdict"], &one["agent"]), (&"deny".into(), &"test-agent".into()), "{one}");
    assert!(one["checkpoint"].is_u64(), "{one}");
    sidecar.stop().await;
}

/// Every call and run of the index of a hub, in order.
async fn hub_rows(db: &TestDb) -> Vec<String> {
    let mut admin = PgConnection::connect(&db.admin_url).await.unwrap();
    let mut rows = Vec::new();
    for table in ["call", "mark", "run"] {
        let sql = format!("SELECT t::text FROM console.{table} t ORDER BY t::text");
        for row in sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_all(&mut admin).await.unwrap() {
            rows.push(format!("{table} {}", row.get::<String, _>(0)));
        }
    }
    rows
}

/// The program is killed while it rebuilds the index of the hub, which fills it too: the next one ends with the rows that
/// were there.
async fn rebuilt(estate: &Estate, db: &TestDb) {
    let before = hub_rows(db).await;
    assert!(before.iter().any(|row| row.starts_with("mark ") && row.contains("ada")), "{before:?}");
    let reindex = ["ledger", "reindex", "--config", "hub.yaml", "--json"];
    for _ in 0..4 {
        let killed = Process::start(estate.command(&reindex));
        kill_process(killed.pid(), Signal::KILL).unwrap();
    }
    let done = estate.try_run(&reindex).ok().json();
    assert_eq!((&done["behind"], &done["index"]), (&0.into(), &"schema console".into()), "{done}");
    // A statement of a killed program may end after it; the hub fills on.
    until("the rows that were there", async || hub_rows(db).await == before).await;
}
