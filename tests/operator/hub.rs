//! The hub, as its own process in front of Postgres.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use wicketgate::ledger::postgres::PostgresReader;
use wicketgate::ledger::store::LedgerReader as _;
use wicketgate::record::{Entry, Kind};

use crate::hall::token;
use wicketgate_support::pg::{Pg, TestDb};

const PROGRAM: &str = env!("CARGO_BIN_EXE_wicketgate");

struct Hub {
    dir: tempfile::TempDir,
    child: Child,
    url: String,
}

impl Drop for Hub {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn run(dir: &Path, args: &[&str]) -> (Option<i32>, String) {
    let done = Command::new(PROGRAM).args(args).current_dir(dir).output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8(text).unwrap())
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn furnish(dir: &Path, ledger: &serde_json::Value) {
    assert_eq!(run(dir, &["keygen", "--out", "manifest"]).0, Some(0));
    let manifest = json!({
        "apiVersion": "wicketgate.dev/v1", "kind": "AgentManifest",
        "metadata": {"name": "a", "version": "1.0.0", "owner": "tests@example.com"},
        "spec": {"status": "active", "model": {"provider": "example", "names": ["m"]},
            "instructions": [{"sha256": "ab".repeat(32), "scope": "whole"}],
            "tools": [{"name": "work.do", "tier": "T1"}],
            "validity": {"not_before": "2020-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z"}},
    });
    std::fs::write(dir.join("agent.yaml"), manifest.to_string()).unwrap();
    assert_eq!(run(dir, &["manifest", "sign", "agent.yaml", "--key", "manifest"]).0, Some(0));
    for who in ["vera", "otto"] {
        private(&dir.join(format!("{who}.token")), &token(who));
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
    std::fs::write(dir.join("hub.yaml"), config.to_string()).unwrap();
}

impl Hub {
    fn start(db: &TestDb) -> Self {
        let dir = tempfile::tempdir().unwrap();
        private(&dir.path().join("operator.url"), &db.operator_url);
        private(&dir.path().join("reader.url"), &db.reader_url);
        furnish(dir.path(), &json!({"postgres": {"url_file": "operator.url"}}));
        let mut child = Command::new(PROGRAM)
            .args(["hub", "--config", "hub.yaml"])
            .current_dir(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        let mut url = None;
        for line in lines.by_ref().map_while(Result::ok) {
            if let Some(at) =
                line.find("127.0.0.1:").filter(|_| line.contains("operator API listening"))
            {
                let address =
                    line[at..].chars().take_while(|c| c.is_ascii_digit() || ".:".contains(*c));
                url = Some(format!("http://{}", address.collect::<String>()));
            }
            if line.contains("readiness") && line.contains("true") {
                break;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        std::thread::spawn(move || lines.for_each(drop));
        let url = url.unwrap_or_else(|| panic!("{seen}"));
        Self { dir, child, url }
    }

    fn command(&self, who: &str, args: &[&str]) -> (Option<i32>, String) {
        let file = format!("{who}.token");
        let door = ["--url", &self.url, "--token-file", &file];
        run(self.dir.path(), &[args, &door[..]].concat())
    }
}

#[tokio::test]
async fn the_hub_takes_orders_for_a_tenant_and_records_them_in_a_chain_of_its_own() {
    let db = Pg::cluster().database().await;
    let hub = Hub::start(&db);
    let kill = ["control", "kill", "agent", "a", "--reason", "loops"];
    let (code, said) = hub.command("otto", &kill);
    assert_eq!(code, Some(1), "no gate is there: {said}");
    assert!(
        said.contains("recorded as entry") && said.contains("NO GATE HAS APPLIED IT"),
        "{said}"
    );
    let (code, said) = hub.command("vera", &["control", "list"]);
    assert!(code == Some(0) && said.contains("otto  kill agent a  loops"), "{said}");
    assert_eq!(hub.command("vera", &kill).0, Some(1));
    assert_eq!(hub.command("vera", &["approval", "list"]).0, Some(0));
    assert_eq!(hub.command("vera", &["control", "fleet"]).0, Some(0));

    let reader = PostgresReader::connect(&db.reader_url).await.unwrap();
    let chains = reader.chains().await.unwrap();
    let own = chains.iter().find(|chain| chain.slot == "hub/0").unwrap();
    let rows = reader.entries(&own.chain, 0, 100).await.unwrap();
    let kinds = rows.iter().map(|row| Entry::parse(&row.body).unwrap().draft.kind());
    assert_eq!(kinds.filter(|kind| *kind == Kind::ControlSet).count(), 1);
}

#[test]
fn a_hub_without_postgres_or_without_operators_does_not_start_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    private(&dir.path().join("reader.url"), "postgres://nobody@127.0.0.1:1/none");
    furnish(dir.path(), &json!({"sqlite": {}}));
    let (code, said) = run(dir.path(), &["hub", "--config", "hub.yaml"]);
    assert_eq!(code, Some(78), "{said}");
    assert!(said.contains("a hub needs `postgres`"), "{said}");
}
