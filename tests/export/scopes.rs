//! Spans and populations of real gates, in SQLite and in PostgreSQL.

use serde_json::{Value, json};

use crate::auditor::{auditor, export, manifest, recorded, verify};
use crate::fleet::{anchor, fleet, sqlite};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate::domain::plural::many;
use wicketgate_support::pg::{Pg, TestDb};

/// Two runs with a call that is allowed and one that is denied in each.
async fn runs(estate: &Estate) {
    let mut gate = estate.serve().await;
    for _ in 0..2 {
        let agent = gate.open().await;
        agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
        agent.call("work.unbound", "b", "{}").await.unwrap_err();
        agent.seal().await.unwrap();
    }
    gate.stop().await;
}

fn told(estate: &Estate, bundle: &str) -> Value {
    let text = std::fs::read(estate.path(bundle).join("population.json")).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// Spans and populations of what these gates wrote; the first has the fleet key. Logs by name.
async fn spans_and_populations(gates: &[&Estate], logs: &[&str]) {
    let estate = gates[0];
    auditor(estate, gates);
    anchor(estate).await.ends(0);
    let mut bundles = Vec::new();
    // A span of the whole log, one from the middle of a run to the middle of another, one entry.
    for (from, to) in [("0", ""), ("7", "14"), ("6", "7")] {
        let (out, log) = (format!("span-{from}"), format!("{}:{from}..{to}", logs[0]));
        let made = export(estate, &["--range", &log], &out).await.ends(0).json();
        assert_eq!(made["logs"][0]["log"], logs[0], "{made}");
        let said = verify(estate, &[], &out).await.ends(0).says("VALID         F1 ");
        said.says(&format!("VALID         R1 no entry of the span is missing: {from}.."));
        bundles.push(out);
    }
    // Everything, and what a query picks from everything.
    let denied = &["--population", "--verdict", "deny"][..];
    let queries = [
        ("all", &["--population"][..], 4 * gates.len()),
        ("denied", denied, 2 * gates.len()),
        ("nobody", &["--population", "--agent", "nobody"][..], 0),
    ];
    for (out, query, matched) in queries {
        export(estate, query, out).await.ends(0);
        let said = verify(estate, &[], out).await.ends(0);
        said.says(&format!("{}, ", many(logs.len(), "chain"))).says("VALID         R2 ");
        let population = told(estate, out);
        assert_eq!(population["totals"]["matched"], json!(matched), "{out}: {population}");
        assert_eq!(population["totals"]["runs"], json!(2 * gates.len()), "{population}");
        bundles.push(out.to_owned());
    }
    // What is not there is refused with a reason, and leaves neither bundle nor record.
    let beyond = format!("{}:900..", logs[0]);
    export(estate, &["--range", &beyond], "no").await.ends(64).says("is no span of it");
    export(estate, &["--range", "nowhere:0.."], "no").await.ends(1).says("no log `nowhere`");
    let nowhere = ["--population", "--chain", "nowhere"];
    export(estate, &nowhere, "no").await.ends(1).says("no log `nowhere`");
    export(estate, &["--population"], "all").await.ends(64).says("is not empty");
    assert!(!estate.path("no").exists());
    let manifests: Vec<Option<String>> =
        bundles.iter().map(|bundle| manifest(&estate.path(bundle))).collect();
    let recorded: Vec<Option<String>> = recorded(estate).await.into_iter().map(Some).collect();
    assert_eq!(recorded, manifests);
    // One byte of one entry, in the middle of the population.
    let lines = estate.path("all/chains/0/entries.jsonl");
    let text = std::fs::read_to_string(&lines).unwrap();
    std::fs::write(&lines, text.replacen(r#""verdict":"deny""#, r#""verdict":"allow""#, 1))
        .unwrap();
    verify(estate, &[], "all").await.ends(1).says("INVALID       R1 ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_and_populations_of_a_sqlite_ledger_are_exported_recorded_and_hold() {
    let tool = Tool::start().await;
    let estate = sqlite(&tool);
    runs(&estate).await;
    spans_and_populations(&[&estate], &[&estate.origin().await]).await;
}

/// A database whose writer may read, too.
pub async fn database() -> TestDb {
    let pg = tokio::task::spawn_blocking(Pg::cluster).await.unwrap();
    pg.database_of_a_reading_writer().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_and_populations_of_a_postgres_ledger_of_two_gates_are_exported_recorded_and_hold() {
    let tool = Tool::start().await;
    let db = database().await;
    let gate = || Estate::postgres(&tool, &db.writer_url, &db.admin_url, "shop/agents");
    let (one, two) = (gate(), gate());
    // Each holds a slot of its own while the other runs.
    let held = two.serve().await;
    runs(&one).await;
    drop(held);
    runs(&two).await;
    fleet(&one);
    let logs = ["wicketgate.dev/default/shop/agents/0/0", "wicketgate.dev/default/shop/agents/1/0"];
    spans_and_populations(&[&one, &two], &logs).await;
}
