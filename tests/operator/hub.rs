//! The hub, as its own process in front of Postgres.

use serde_json::json;
use wicketgate::ledger::postgres::PostgresReader;
use wicketgate::ledger::store::LedgerReader as _;
use wicketgate::record::{Entry, Kind};
use wicketgate_support::files::Files;
use wicketgate_support::pg::{Pg, TestDb};
use wicketgate_support::process::Process;
use wicketgate_support::ran::Ran;

use crate::api::token;

struct Hub {
    files: Files,
    _process: Process,
    url: String,
}

pub fn furnish(files: &Files, ledger: &serde_json::Value) {
    files.keys(&["manifest"]);
    let spec = json!({"model": {"provider": "example", "names": ["m"]},
        "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
        "tools": [{"name": "work.do", "tier": "T1"}]});
    files.grant("agent.yaml", "a", spec);
    for who in ["vera", "otto"] {
        files.secret(&format!("{who}.token"), token(who));
    }
    let config = json!({
        "state": "state", "operator": {"listen": "127.0.0.1:0"}, "ledger": ledger,
        "hub": {"reader_url_file": "reader.url"},
        "operators": [
            {"subject": "vera", "roles": ["viewer"], "token_file": "vera.token"},
            {"subject": "otto", "roles": ["operator"], "token_file": "otto.token"},
        ],
        "trust": {"manifest_keys": ["manifest.pub"]},
        "agents": [{"manifest": "agent.yaml", "callers": [{"uid": 1}]}],
    });
    files.write_json("hub.yaml", &config);
}

impl Hub {
    fn start(db: &TestDb) -> Self {
        let files = Files::new();
        files.secret("operator.url", &db.operator_url);
        files.secret("reader.url", &db.reader_url);
        furnish(&files, &json!({"postgres": {"url_file": "operator.url"}}));
        let process = Process::start(files.command(&["hub", "--config", "hub.yaml"]));
        let address = process.hear("its address", |line| {
            let at = line.find("127.0.0.1:").filter(|_| line.contains("operator API listening"))?;
            let end = |c: char| !(c.is_ascii_digit() || ".:".contains(c));
            line[at..].split(end).next().map(str::to_owned)
        });
        process.hear("readiness", |line| {
            (line.contains("readiness") && line.contains("true")).then_some(())
        });
        Self { files, _process: process, url: format!("http://{address}") }
    }

    fn command(&self, who: &str, args: &[&str]) -> Ran {
        let file = format!("{who}.token");
        self.files.try_run(&[args, &["--url", &self.url, "--token-file", &file]].concat())
    }
}

#[tokio::test]
async fn the_hub_takes_orders_for_a_tenant_and_records_them_in_a_chain_of_its_own() {
    let db = Pg::cluster().database().await;
    let hub = Hub::start(&db);
    let kill = ["control", "kill", "agent", "a", "--reason", "loops"];
    let ordered = hub.command("otto", &kill).ends(1);
    ordered.says("recorded as entry").says("NO GATE HAS APPLIED IT");
    hub.command("vera", &["control", "list"]).ok().says("otto  kill agent a  loops");
    hub.command("vera", &kill).ends(1);
    hub.command("vera", &["approval", "list"]).ok();
    hub.command("vera", &["control", "fleet"]).ok();

    let reader = PostgresReader::connect(&db.reader_url).await.unwrap();
    let chains = reader.chains().await.unwrap();
    let own = chains.iter().find(|chain| chain.slot == "hub/0").unwrap();
    let rows = reader.entries(&own.chain, 0, 100).await.unwrap();
    let kinds = rows.iter().map(|row| Entry::parse(&row.body).unwrap().draft.kind());
    assert_eq!(kinds.filter(|kind| *kind == Kind::ControlSet).count(), 1);
}

#[test]
fn a_hub_without_postgres_or_without_operators_does_not_start_and_says_why() {
    let files = Files::new();
    files.secret("reader.url", "postgres://nobody@127.0.0.1:1/none");
    furnish(&files, &json!({"sqlite": {}}));
    files.try_run(&["hub", "--config", "hub.yaml"]).ends(78).says("a hub needs `postgres`");
}
