//! From the signed statement to the tool: the office passes it on, the gate checks it, judges the call
//! again and commits, and only then the call starts.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wicketgate::approval::NAMESPACE;
use wicketgate::approval::sign::{Key, sign_bytes};
use wicketgate::crypto::openssh;

use crate::Plan;
use wicketgate_support::agent::Agent;
use wicketgate_support::bench::floor;
use wicketgate_support::bench::load::{Seen, short};
use wicketgate_support::bench::table::{Row, Table};
use wicketgate_support::hub::Hub;
use wicketgate_support::people::{People, RULES, ask};
use wicketgate_support::pg::TestDb;
use wicketgate_support::sidecar::Estate;
use wicketgate_support::tool::Tool;

/// On one machine: the sidecar serves its own operator API.
pub async fn sqlite(plan: &Plan, dir: &Path, table: &mut Table) {
    let (people, tool) = (People::new(), Tool::start().await);
    let estate = Estate::sqlite(&tool);
    estate.bundle("1.0.1", RULES, "policy");
    estate.configure(|config| people.configure(config, true));
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    let seen = released(plan, &people, &sidecar.operator_url(), &agent, &tool).await;
    let sync = floor::fdatasync(dir);
    add(table, "SQLite, the sidecar's own operator API", &seen, &sync, "fdatasync");
    sidecar.stop().await;
}

/// Through a hub, over one database.
pub async fn postgres(plan: &Plan, db: &TestDb, table: &mut Table) {
    let (people, tool) = (People::new(), Tool::start().await);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    estate.bundle("1.0.1", RULES, "policy");
    estate.configure(|config| people.configure(config, false));
    let mut sidecar = estate.serve().await;
    let urls = (db.operator_url.as_str(), db.reader_url.as_str());
    let hub = Hub::configured(&estate, &people, urls, ("hub", &|_| ())).await;
    let agent = sidecar.open().await;
    let seen = released(plan, &people, &hub.url(), &agent, &tool).await;
    let commit = floor::commit(&db.admin_url, plan.each / 4).await;
    add(table, "Postgres, through a hub", &seen, &commit, "durable INSERT");
    drop(hub);
    sidecar.stop().await;
}

fn add(table: &mut Table, what: &str, seen: &Seen, commit: &Seen, of: &str) {
    let two = commit.p50 * 2;
    table.add(Row {
        what: format!("approval released, {what}: statement posted to tool reached"),
        ours: format!("p50 {}, p99 {}", short(seen.p50), short(seen.p99)),
        floor: format!("two of {of}: p50 {}, p99 {}", short(two), short(commit.p99 * 2)),
        ratio: Some(seen.p50.as_secs_f64() / two.as_secs_f64()),
        target: None,
    });
}

/// Holds a call, signs its statement beforehand, then posts it and waits until the call is at its tool.
async fn released(plan: &Plan, people: &People, door: &str, agent: &Agent, tool: &Tool) -> Seen {
    let secret = openssh::load(&people.path("ada"), &|_| None).unwrap();
    let key = Key::File(secret);
    let (mut all, began) = (Vec::new(), Instant::now());
    for n in 0..plan.times {
        let id = format!("c{n}");
        let held = agent.call("work.do", &id, &format!(r#"{{"hold":true,"n":{n}}}"#)).await;
        assert_eq!(held.unwrap_err().code, "call.held");
        let line = format!("GET /v1/approvals/{}/{id}", agent.run);
        let token = people.token("ada");
        let (status, _, shown) = ask(door, &token, &line, &json!({})).await;
        assert_eq!(status, 200, "{shown}");
        let statement = shown["statement"].as_str().unwrap();
        let signature = sign_bytes(&key, NAMESPACE, statement.as_bytes()).unwrap();
        let body: Value = json!({"statement": statement, "signature": signature});
        let line = format!("POST /v1/approvals/{}/{id}", agent.run);
        tool.hold();
        let posted = Instant::now();
        let (answered, reached) = tokio::join!(ask(door, &token, &line, &body), async {
            tool.entered(1).await;
            let reached = posted.elapsed();
            tool.release();
            reached
        });
        assert_eq!(answered.0, 200, "{}", answered.2);
        all.push(reached);
        agent.wait(&id, 20_000).await.unwrap();
        tool.inside(0).await;
    }
    let took = began.elapsed().max(Duration::from_millis(1));
    Seen::of(all, took)
}
