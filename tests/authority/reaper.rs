//! The hub's reaper: what a dead sidecar left open is closed by somebody, and nobody alive is fenced.

use serde_json::{Value, json};
use wicketgate::domain::id::ChainId;
use wicketgate::ledger::postgres::PostgresReader;
use wicketgate::ledger::store::{ChainRow, EntryRow, LedgerReader as _};
use wicketgate::record::Kind;

use crate::checker::{calls, check, check_running, kinds};
use crate::people::{People, RULES};
use crate::proxy::{Proxy, Way};
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;
use wicketgate_support::hub::Hub;
use wicketgate_support::pg::{Pg, TestDb};

/// Two seconds of lease, two of grace.
fn short(config: &mut Value) {
    config["ledger"]["postgres"]["lease_seconds"] = json!(2);
}

/// A gate of its own on this database, with rules that hold calls.
fn gate(tool: &Tool, db: &TestDb, people: &People) -> Estate {
    let estate = Estate::postgres(tool, &db.writer_url, &db.admin_url, "local");
    estate.bundle("1.0.1", RULES, "policy");
    estate.configure(|config| {
        people.configure(config, false);
        short(config);
    });
    estate
}

/// A hub beside this gate that certifies with the gate's enrolment key and reaps after two seconds.
async fn hub(estate: &Estate, people: &People, db: &TestDb, name: &str) -> Hub {
    let urls = (db.operator_url.as_str(), db.reader_url.as_str());
    let change = |config: &mut Value| {
        short(config);
        config["fleet"] = json!({"enrolment_key": "state/enrolment.key"});
        config["hub"]["reap_after_seconds"] = json!(2);
    };
    Hub::configured(estate, people, urls, (name, &change)).await
}

/// Shares one enrolment key, as the sidecars of a deployment do.
fn same_key(one: &Estate, other: &Estate) {
    let key = one.path("state/enrolment.key").display().to_string();
    other.configure(|config| config["fleet"] = json!({"enrolment_key": key}));
}

async fn chains(db: &TestDb) -> Vec<ChainRow> {
    let reader = PostgresReader::connect(&db.reader_url).await.unwrap();
    let mut rows = reader.chains().await.unwrap();
    rows.retain(|row| row.slot.starts_with("local/"));
    rows
}

async fn entries(db: &TestDb, chain: &ChainId) -> Vec<EntryRow> {
    let reader = PostgresReader::connect(&db.reader_url).await.unwrap();
    reader.entries(chain, 0, 1000).await.unwrap()
}

fn count(rows: &[EntryRow], kind: Kind) -> usize {
    rows.iter().filter(|row| row.kind == kind.as_str()).count()
}

/// Waits until the last word of this chain is that its writer stopped.
async fn closed(db: &TestDb, chain: &ChainId, hub: &Hub) {
    crate::until(std::fmt::from_fn(|f| write!(f, "a closed slot: {}", hub.said())), || async {
        entries(db, chain).await.last().is_some_and(|row| row.kind == Kind::WriterStopped.as_str())
    })
    .await;
}

/// The program's own verifier finds nothing wrong.
fn verifies(estate: &Estate, db: &TestDb) {
    std::fs::write(estate.path("reader.url"), &db.reader_url).unwrap();
    let key = estate.path("state/enrolment.key.pub");
    std::fs::write(estate.path("trust"), format!("enrolment-key {}\n", key.display())).unwrap();
    let args = ["ledger", "verify", "--postgres-url-file", "reader.url", "--trust", "trust"];
    run(&estate.path("."), &args);
}

async fn cluster() -> TestDb {
    tokio::task::spawn_blocking(Pg::cluster).await.unwrap().database().await
}

/// A gate that dies inside a call; its chain.
async fn dies_in_a_call(tool: &Tool, estate: &Estate, sidecar: &mut Sidecar, id: &str) {
    let agent = sidecar.open().await;
    let before = tool.count();
    tool.hold();
    let (caller, call) = (agent.clone(), id.to_owned());
    let calling = tokio::spawn(async move { caller.call("work.do", &call, "{}").await });
    crate::until("the call inside the tool", || async { tool.count() == before + 1 }).await;
    sidecar.kill();
    tool.release();
    assert!(calling.await.unwrap().is_err(), "{}", estate.receipts.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_killed_in_a_call_is_closed_by_the_hub_and_comes_back_to_its_slot() {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let estate = gate(&tool, &db, &people);
    let mut sidecar = estate.serve().await;
    let hub = hub(&estate, &people, &db, "hub").await;
    dies_in_a_call(&tool, &estate, &mut sidecar, "a").await;
    let chain = chains(&db).await[0].chain;
    closed(&db, &chain, &hub).await;
    let rows = entries(&db, &chain).await;
    let found = [Kind::CallUnknown, Kind::RunSealed, Kind::WriterStarted].map(|k| count(&rows, k));
    assert_eq!(found, [1, 1, 2], "{rows:?}");
    let text = String::from_utf8(
        rows.iter().rfind(|row| row.kind == "writer.started").unwrap().body.clone(),
    );
    assert!(text.unwrap().contains(r#""reason":"reaped""#));
    crate::until("the hub to say so", || async { hub.said().contains("closed an abandoned slot") })
        .await;
    verifies(&estate, &db);
    // Its own slot is free again, and nothing of the dead life is taken up.
    let mut sidecar = estate.serve().await;
    sidecar.open().await.call("work.do", "b", "{}").await.unwrap();
    sidecar.stop().await;
    assert_eq!(chains(&db).await.len(), 1, "the same slot");
    let summary = check(&estate.database, &tool, &estate.receipts);
    let states = ["completed", "unknown"].map(|state| calls(&summary, state));
    assert_eq!((states, summary["runs_open"].as_u64()), ([1, 1], Some(1)), "{summary}");
    verifies(&estate, &db);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slot_of_a_held_call_stays_open_until_the_call_can_no_longer_be_approved() {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let estate = gate(&tool, &db, &people);
    estate.configure(|config| config["limits"]["hold_seconds"] = json!(14));
    let mut sidecar = estate.serve().await;
    let hub = hub(&estate, &people, &db, "hub").await;
    let agent = sidecar.open().await;
    let held = agent.call("work.do", "h", r#"{"hold":true}"#).await;
    assert_eq!(held.unwrap_err().code, "call.held");
    sidecar.kill();
    crate::until("the hub to leave it", || async {
        hub.said().contains("one of its held calls may still be approved")
    })
    .await;
    // Back in time: the run goes on, and the call is still held.
    let mut sidecar = estate.serve().await;
    assert_eq!(agent.get("h").await.unwrap_err().code, "call.held");
    sidecar.kill();
    let chain = chains(&db).await[0].chain;
    closed(&db, &chain, &hub).await;
    let rows = entries(&db, &chain).await;
    let found = [Kind::CallExpired, Kind::CallCancelled, Kind::RunSealed].map(|k| count(&rows, k));
    assert_eq!(found, [1, 0, 1], "{rows:?}");
    check(&estate.database, &tool, &estate.receipts);
    verifies(&estate, &db);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hubs_close_each_dead_slot_once_and_leave_a_live_one_alone() {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let estates = [(); 3].map(|()| gate(&tool, &db, &people));
    let mut live = estates[0].serve().await;
    let mut dead = Vec::new();
    for estate in &estates[1..] {
        same_key(&estates[0], estate);
        dead.push(estate.serve().await);
    }
    let hubs =
        [hub(&estates[0], &people, &db, "one").await, hub(&estates[0], &people, &db, "two").await];
    let agent = live.open().await;
    for (sidecar, (estate, id)) in dead.iter_mut().zip(estates[1..].iter().zip(["a", "b"])) {
        dies_in_a_call(&tool, estate, sidecar, id).await;
    }
    let all = chains(&db).await;
    assert_eq!(all.len(), 3);
    for row in all.iter().filter(|row| row.slot != "local/0") {
        closed(&db, &row.chain, &hubs[0]).await;
        let rows = entries(&db, &row.chain).await;
        let found = [Kind::CallUnknown, Kind::RunSealed, Kind::WriterStarted];
        assert_eq!(found.map(|kind| count(&rows, kind)), [1, 1, 2], "{rows:?}");
    }
    let own = all.iter().find(|row| row.slot == "local/0").unwrap();
    assert_eq!(own.epoch, 1, "the live slot was never taken");
    agent.call("work.do", "c", "{}").await.unwrap();
    // Two that come back to slots that were closed are served.
    for estate in &estates[1..] {
        let mut sidecar = estate.serve().await;
        sidecar.open().await.call("work.do", "d", "{}").await.unwrap();
        sidecar.stop().await;
    }
    live.stop().await;
    assert_eq!(chains(&db).await.len(), 3);
    for estate in &estates {
        check_running(&estate.database, &tool, &estate.receipts);
    }
    verifies(&estates[0], &db);
}

/// What a spool said last about the ledger.
fn last_spool_line(estate: &Estate) -> String {
    let spool = std::fs::read_to_string(estate.path("state/spool/current.spool")).unwrap();
    // Zeros wait at its end for the next line.
    spool.lines().rfind(|line| !line.trim_matches('\0').is_empty()).unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_never_reached_the_ledger_is_withdrawn_when_the_slot_was_closed_meanwhile() {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let proxy = Proxy::to(Pg::cluster().port()).await;
    let port = format!(":{}/", Pg::cluster().port());
    let url = db.writer_url.replace(&port, &format!(":{}/", proxy.port));
    let estate = gate(&tool, &TestDb { writer_url: url, ..db.clone() }, &people);
    let mut sidecar = estate.serve().await;
    let hub = hub(&estate, &people, &db, "hub").await;
    let agent = sidecar.open().await;
    agent.call("work.do", "before", "{}").await.unwrap();
    assert!(
        last_spool_line(&estate).contains("\"settled\""),
        "the ledger has it: {}",
        last_spool_line(&estate)
    );
    proxy.asked(Way::Held);
    let refused = agent.call("work.do", "lost", "{}").await.unwrap_err();
    assert!(refused.code.starts_with("ledger."), "{refused:?}");
    sidecar.kill();
    assert!(
        last_spool_line(&estate).contains("\"entries\""),
        "nobody knows: {}",
        last_spool_line(&estate)
    );
    let chain = chains(&db).await[0].chain;
    closed(&db, &chain, &hub).await;
    proxy.asked(Way::Open);
    let mut sidecar = estate.serve().await;
    assert!(
        sidecar.said().contains("dropping entries that were never acknowledged"),
        "{}",
        sidecar.said()
    );
    sidecar.open().await.call("work.do", "after", "{}").await.unwrap();
    sidecar.stop().await;
    assert_eq!((chains(&db).await.len(), tool.count_of("lost")), (1, 0));
    check(&estate.database, &tool, &estate.receipts);
    verifies(&estate, &db);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_whose_database_was_away_is_not_dead_however_long_that_took() {
    let (people, tool) = (People::new(), Tool::start().await);
    let pg = tokio::task::spawn_blocking(Pg::own_cluster).await.unwrap();
    let db = pg.database().await;
    let estates = [(); 2].map(|()| gate(&tool, &db, &people));
    let mut live = estates[0].serve().await;
    same_key(&estates[0], &estates[1]);
    let mut dead = estates[1].serve().await;
    let hub = hub(&estates[0], &people, &db, "hub").await;
    let agent = dead.open().await;
    agent.call("work.do", "before", "{}").await.unwrap();
    pg.freeze();
    // Signed and in its spool, and not in the database; then it dies.
    let refused = agent.call("work.do", "lost", "{}").await.unwrap_err();
    assert!(refused.code.starts_with("ledger."), "{refused:?}");
    dead.kill();
    crate::until("three looks that failed", || async {
        hub.said().matches("the list of abandoned slots cannot be read").count() >= 3
    })
    .await;
    pg.thaw();
    let slot =
        |rows: Vec<ChainRow>, name: &str| rows.into_iter().find(|row| row.slot == name).unwrap();
    let gone = slot(chains(&db).await, "local/1").chain;
    closed(&db, &gone, &hub).await;
    let own = slot(chains(&db).await, "local/0");
    assert_eq!(own.epoch, 1, "the live one kept its slot");
    live.ready().await;
    live.open().await.call("work.do", "on", "{}").await.unwrap();
    // It remembers more than the ledger has, and all of that was never acknowledged.
    let mut back = estates[1].serve().await;
    back.open().await.call("work.do", "after", "{}").await.unwrap();
    back.stop().await;
    live.stop().await;
    assert_eq!(chains(&db).await.len(), 2);
    let receipts = crate::agent::Receipts::all(&estates.each_ref().map(|e| e.receipts.clone()));
    let summary = check(&estates[0].database, &tool, &receipts);
    assert_eq!((calls(&summary, "completed"), kinds(&summary, "run.sealed")), (3, 1), "{summary}");
    verifies(&estates[0], &db);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_with_another_enrolment_key_leaves_the_slot_open_and_says_which_key_it_needs() {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let estate = gate(&tool, &db, &people);
    let mut sidecar = estate.serve().await;
    let urls = (db.operator_url.as_str(), db.reader_url.as_str());
    let change = |config: &mut Value| {
        short(config);
        config["hub"]["reap_after_seconds"] = json!(2);
    };
    let hub = Hub::configured(&estate, &people, urls, ("hub", &change)).await;
    dies_in_a_call(&tool, &estate, &mut sidecar, "a").await;
    let before = chains(&db).await[0].head.size;
    crate::until("the hub to say so", || async { hub.said().contains("fleet.enrolment_key") })
        .await;
    assert_eq!(chains(&db).await[0].head.size, before, "nothing was written");
    check_running(&estate.database, &tool, &estate.receipts);
}
