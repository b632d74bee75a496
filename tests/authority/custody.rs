//! Evidence that is taken away and payloads that are erased through the office, with one's own name on it.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use wicketgate::domain::json::Json;
use wicketgate::ledger::postgres::{Login, PostgresReader, migrate};
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::LedgerReader;
use wicketgate::record::{Entry, Kind};

use crate::agent::Agent;
use crate::checker::check;
use crate::people::{People, RULES, done};
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;
use wicketgate_support::hub::Hub;
use wicketgate_support::pg::{Pg, TestDb};
use wicketgate_support::program;

/// Otto operates, Vera audits, Hugo looks; Grace approves and operates, Mallory audits and operates.
const ROLES: [(&str, &[&str]); 6] = [
    ("ada", &["approver"]),
    ("grace", &["approver", "operator"]),
    ("otto", &["operator"]),
    ("vera", &["auditor"]),
    ("hugo", &["viewer"]),
    ("mallory", &["auditor", "operator"]),
];

fn configure(people: &People, config: &mut Value) {
    people.configure(config, false);
    let member = |(name, roles): (&str, &[&str])| json!({"subject": name, "roles": roles, "token_file": people.path(&format!("{name}.token"))});
    config["operators"] = ROLES.into_iter().map(member).collect();
    config["fleet"] = json!({"key": "fleet.pem"});
    config["evidence"] = json!({"key": "evidence.pem"});
}

/// One machine.
struct Setup {
    people: People,
    tool: Tool,
    estate: Estate,
    sidecar: Sidecar,
    agent: Agent,
}

impl Setup {
    async fn new() -> Setup {
        let (people, tool) = (People::new(), Tool::start().await);
        people.custodians();
        let estate = Estate::sqlite(&tool);
        keys(&estate);
        estate.bundle("1.0.1", RULES, "policy");
        estate.configure(|config| configure(&people, config));
        let sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        Setup { people, tool, estate, sidecar, agent }
    }

    fn url(&self) -> String {
        self.sidecar.operator_url()
    }

    fn asks(&self, who: &str, args: &[&str]) -> (Option<i32>, String) {
        self.people.asks(who, &self.url(), args)
    }

    /// Erases the run, or says why not.
    fn erases(&self, who: &str, more: &[&str]) -> (Option<i32>, String) {
        let what = ["payload", "erase", "--yes", "--basis", "Art. 17", "--run", &self.agent.run];
        self.orders(who, &[&what[..], more].concat())
    }

    fn orders(&self, who: &str, args: &[&str]) -> (Option<i32>, String) {
        self.people.orders(who, &self.url(), args)
    }

    /// What the fleet log has of this kind.
    async fn recorded(&self, kind: Kind) -> Vec<Json> {
        let reader = SqliteReader::open(&self.estate.path("state/ledger.sqlite")).await.unwrap();
        fleet_entries(&reader, kind).await
    }

    async fn close(mut self) {
        self.sidecar.stop().await;
        check(&self.estate.database, &self.tool, &self.estate.receipts);
    }
}

fn keys(estate: &Estate) {
    for name in ["fleet.pem", "evidence.pem"] {
        run(&estate.path("."), &["keygen", "--out", name]);
    }
}

async fn fleet_entries(reader: &dyn LedgerReader, kind: Kind) -> Vec<Json> {
    let chains = reader.chains().await.unwrap();
    let mut found = Vec::new();
    for chain in chains.iter().filter(|chain| chain.origin.ends_with("/fleet")) {
        let rows = reader.entries_of(&chain.chain, &[kind.as_str()]).await.unwrap();
        found.extend(rows.iter().map(|row| Json::of(&Entry::parse(&row.body).unwrap().draft.body)));
    }
    found
}

fn text<'a>(json: &'a Json, name: &str) -> &'a str {
    json.get(name).and_then(Json::as_str).unwrap_or_default()
}

/// Both programs verify a bundle against these keys: nothing of it is wrong, and its entries are in their
/// log.
#[track_caller]
pub fn verify(dir: &Path, bundle: &Path, enrolment: &[PathBuf]) {
    let mut trust = format!(
        "evidence-key evidence.pem.pub\nmanifest-key {}\n",
        crate::sidecar::key("manifest.pub")
    );
    for key in enrolment {
        trust.push_str(&format!("enrolment-key {}\n", key.display()));
    }
    std::fs::write(dir.join("trust.txt"), trust).unwrap();
    let gate = Path::new(program::gate());
    let small = gate.with_file_name("wicketgate-verify");
    let large = (gate.as_os_str(), &["evidence", "verify"][..]);
    let small = (small.as_os_str(), &[][..]);
    let mut reports = Vec::new();
    for (program, words) in [large, small] {
        let done = Command::new(program)
            .args(words)
            .args(["--json", "--trust", "trust.txt"])
            .arg(bundle)
            .current_dir(dir)
            .output()
            .unwrap();
        let said: Value = serde_json::from_slice(&done.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&done.stderr)));
        let all = said["checks"].as_array().unwrap();
        let wrong: Vec<&Value> = all.iter().filter(|one| one["outcome"] == "INVALID").collect();
        assert!(wrong.is_empty(), "{wrong:?}");
        for id in ["B1", "B3", "H1", "E2"] {
            let check = all.iter().find(|one| one["id"] == id);
            assert_eq!(check.map(|one| &one["outcome"]), Some(&json!("VALID")), "{id}: {said}");
        }
        reports.push(said["checks"].to_string());
    }
    assert_eq!(reports[0], reports[1]);
}

/// A hub verifies a run of a gate whose writer its own key enrolled.
async fn audit(people: &People, url: &str, run: &str) {
    let (asked, token) = (json!({"run": run}), people.token("vera"));
    let line = "POST /v1/audit/verify";
    let (status, _, report) = crate::people::ask(url, &token, line, &asked).await;
    assert!(status == 200 && report["outcome"] != "fail", "{report}");
    let passed = |id: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().any(|one| one["id"] == id && one["outcome"] == "pass")
    };
    assert!(["D1", "D2", "H1", "E2", "S1", "P5"].into_iter().all(passed), "{report}");
}

/// One request to the office as somebody: status, head and body.
async fn ask(setup: &Setup, who: &str, line: &str, body: &Value) -> (u16, String, Value) {
    crate::people::ask(&setup.url(), &setup.people.token(who), line, body).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_auditor_takes_a_run_away_and_the_fleet_log_has_the_auditors_name() {
    let setup = Setup::new().await;
    for id in ["a", "b"] {
        setup.agent.call("work.do", id, r#"{"n":1}"#).await.unwrap();
    }
    setup.agent.seal().await.unwrap();
    let dir = setup.estate.path(".");
    let (zip, folder) = (dir.join("run.zip"), dir.join("run"));
    let takes = |who: &str, run: &str, out: &Path| {
        let out = out.display().to_string();
        setup.asks(who, &["evidence", "export", "--run", run, "--out", &out])
    };
    for who in ["otto", "ada", "hugo"] {
        let (exit, said) = takes(who, &setup.agent.run, &zip);
        assert!(exit == Some(1) && said.contains("operator.forbidden"), "{who}: {said}");
    }
    let nobodys = "00000000-0000-4000-8000-000000000000";
    let (exit, said) = takes("vera", nobodys, &zip);
    assert!(exit == Some(1) && said.contains("run.unknown"), "{said}");
    assert_eq!(setup.recorded(Kind::EvidenceExported).await, []);
    assert!(!zip.exists());
    for out in [&zip, &folder] {
        let (exit, said) = takes("vera", &setup.agent.run, out);
        assert_eq!(exit, Some(0), "{said}");
        verify(&dir, out, &[dir.join("state/enrolment.key.pub")]);
    }
    let recorded = setup.recorded(Kind::EvidenceExported).await;
    let manifest = std::fs::read(folder.join("manifest.json")).unwrap();
    let digest = wicketgate::domain::digest::Digest::of(&[&manifest]).hex();
    assert_eq!(recorded.len(), 2);
    assert_eq!(
        (text(&recorded[1], "requester"), text(&recorded[1], "scope")),
        ("operator:vera", "run")
    );
    assert_eq!(text(&recorded[1], "manifest"), digest, "what was recorded is what was sent");
    let left = std::fs::read_dir(dir.join("state/exports")).unwrap().count();
    assert_eq!(left, 0, "nothing is left of a bundle that was sent");
    // A place that is taken is not written to.
    assert_eq!(takes("vera", &setup.agent.run, &zip).0, Some(64));
    // What an export left that was killed in the middle goes when the office opens again.
    let mut setup = setup;
    setup.sidecar.kill();
    std::fs::write(dir.join("state/exports/left.zip"), "a bundle").unwrap();
    setup.sidecar = setup.estate.serve().await;
    assert!(!dir.join("state/exports/left.zip").exists());
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_that_cannot_be_recorded_is_not_sent_and_a_bad_request_names_its_cause() {
    let setup = Setup::new().await;
    setup.agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    let run = setup.agent.run.clone();
    let log = setup.estate.origin().await;
    for (body, code) in [
        (json!({}), "export.query"),
        (json!({"query": {"scope": "run", "run": run, "log": "x"}}), "export.query"),
        (json!({"query": {"scope": "run", "run": run}, "since": ["1"]}), "export.options"),
        (json!({"query": {"scope": "run", "run": run}, "payloads": 1}), "export.options"),
        (json!({"query": {"scope": "run", "run": run}, "redact": ["nonsense"]}), "export.options"),
        (json!({"query": {"scope": "range", "log": "none", "from": 0, "to": 1}}), "export.log"),
        (json!({"query": {"scope": "range", "log": log, "from": 9000, "to": 9001}}), "export.span"),
    ] {
        let (status, _, said) = ask(&setup, "vera", "POST /v1/exports", &body).await;
        assert_eq!((status, said["cause"].as_str()), (400, Some(code)), "{body}: {said}");
    }
    let (status, _, said) = ask(&setup, "vera", "POST /v1/exports", &json!({"run": run})).await;
    assert_eq!((status, said["code"].as_str()), (400, Some("request.malformed")), "{said}");
    // The fleet log has another key than the one it is written with from now on: it is not continued.
    let asked = json!({"query": {"scope": "run", "run": run}});
    assert_eq!(ask(&setup, "vera", "POST /v1/exports", &asked).await.0, 200);
    let dir = setup.estate.path(".");
    std::fs::remove_file(dir.join("fleet.pem")).unwrap();
    let (status, head, said) = ask(&setup, "vera", "POST /v1/exports", &asked).await;
    assert_eq!((status, said["cause"].as_str()), (503, Some("export.failed")), "{said}");
    assert!(!head.contains("application/zip") && !said.to_string().contains("fleet.pem"), "{said}");
    assert_eq!(setup.recorded(Kind::EvidenceExported).await.len(), 1);
    setup.agent.seal().await.unwrap();
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_erases_holds_nothing_and_had_no_part_in_what_is_erased() {
    let setup = Setup::new().await;
    let held = setup.agent.call("work.do", "c", r#"{"hold":true}"#).await;
    assert_eq!(held.unwrap_err().code, "call.held");
    let told = setup.people.says("grace", "approve", &setup.url(), (&setup.agent.run, "c")).1;
    assert_eq!(done(&told).0, "authorized");
    setup.agent.wait("c", 20_000).await.unwrap();
    setup.agent.seal().await.unwrap();
    for who in ["vera", "ada", "hugo"] {
        let (exit, said) = setup.erases(who, &[]);
        assert!(exit == Some(1) && said.contains("operator.forbidden"), "{who}: {said}");
    }
    let (exit, said) = setup.erases("grace", &[]);
    assert!(exit == Some(1) && said.contains("erasure.part"), "she approved it: {said}");
    // Naming the payloads instead of their run is no way round.
    let list = ["payload", "list", "--config", "wicketgate.yaml", "--json"];
    let listed = run(&setup.estate.path("."), &list);
    let first: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    let one = first["commitment"].as_str().unwrap();
    let some = ["payload", "erase", "--yes", "--basis", "b", "--commitment", one];
    let (exit, said) = setup.orders("grace", &some);
    assert!(exit == Some(1) && said.contains("erasure.part"), "{said}");
    let hold = |who: &str, verb: &str| {
        let why = ["--run", &setup.agent.run, "--reason", "case 4"];
        let args = [&["payload", verb][..], &why].concat();
        if verb == "hold" { setup.asks(who, &args) } else { setup.orders(who, &args) }
    };
    assert!(hold("otto", "hold").1.contains("operator.forbidden"));
    assert!(hold("mallory", "release").1.contains("hold.none"));
    assert!(hold("vera", "release").1.contains("order.signer"), "she gives no orders");
    assert_eq!(hold("vera", "hold").0, Some(0));
    assert!(hold("mallory", "hold").1.contains("already held"));
    let (exit, said) = setup.erases("otto", &[]);
    assert!(exit == Some(1) && said.contains("erasure.held") && said.contains("case 4"), "{said}");
    let (_, _, holds) = ask(&setup, "otto", "GET /v1/holds", &json!({})).await;
    assert_eq!(holds["holds"][0]["by"], "operator:vera", "{holds}");
    // Whoever lifts the hold is not the one who erases.
    assert_eq!(hold("mallory", "release").0, Some(0));
    let (exit, said) = setup.erases("mallory", &[]);
    assert!(exit == Some(1) && said.contains("erasure.part"), "{said}");
    assert_eq!(setup.recorded(Kind::PayloadErased).await, []);
    let (exit, said) = setup.erases("otto", &[]);
    assert_eq!(exit, Some(0), "{said}");
    let recorded = setup.recorded(Kind::PayloadErased).await;
    assert_eq!(text(&recorded[0], "by"), "operator:otto");
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_erased_is_gone_once_and_its_receipt_can_be_had_again() {
    let setup = Setup::new().await;
    setup.agent.call("work.do", "a", r#"{"note":"secret-4711"}"#).await.unwrap();
    setup.agent.seal().await.unwrap();
    let dir = setup.estate.path(".");
    let count = || {
        let list = ["payload", "list", "--config", "wicketgate.yaml", "--json"];
        run(&dir, &list).lines().count()
    };
    let before = count();
    assert!(before > 0);
    let unknown = "ab".repeat(32);
    let (exit, said) = setup
        .orders("otto", &["payload", "erase", "--yes", "--basis", "b", "--commitment", &unknown]);
    assert!(exit == Some(1) && said.contains("erasure.unknown"), "{said}");
    let run_of_nobody = json!({"run": "00000000-0000-4000-8000-000000000000", "dry_run": true});
    let (status, _, said) = ask(&setup, "otto", "POST /v1/erasures", &run_of_nobody).await;
    assert_eq!((status, said["code"].as_str()), (404, Some("run.unknown")), "{said}");
    for body in [
        json!({"dry_run": true}),
        json!({"run": setup.agent.run, "dry_run": "yes"}),
        json!({"run": setup.agent.run, "dry_run": true, "commitments": [unknown]}),
        json!({"commitments": [unknown], "role": "args", "dry_run": true}),
        json!({"commitments": [], "dry_run": true}),
        json!({"run": setup.agent.run, "dry_run": true, "by": "somebody else"}),
        json!({"statement": "{}", "signature": "s"}),
        json!({"statement": "{}"}),
    ] {
        let (status, _, said) = ask(&setup, "otto", "POST /v1/erasures", &body).await;
        assert_eq!((status, said["code"].as_str()), (400, Some("request.malformed")), "{body}");
    }
    let (status, _, said) =
        ask(&setup, "otto", "POST /v1/erasures", &json!({"run": setup.agent.run})).await;
    assert_eq!((status, said["cause"].as_str()), (403, Some("order.unsigned")), "{said}");
    // Without `--yes` nothing happens.
    let dry = ["payload", "erase", "--basis", "b", "--run", &setup.agent.run];
    let (exit, said) = setup.asks("otto", &dry);
    assert!(exit == Some(0) && said.contains("nothing was erased: add `--yes`"), "{said}");
    assert_eq!((count(), setup.recorded(Kind::PayloadErased).await), (before, vec![]));
    let first = dir.join("first.receipt").display().to_string();
    let (exit, said) = setup.erases("otto", &["--request", "ticket 9", "--receipt", &first]);
    assert!(exit == Some(0) && said.contains(&format!("{before} payloads erased")), "{said}");
    assert_eq!(count(), 0);
    let (exit, said) = setup.erases("otto", &["--receipt", "none.receipt"]);
    assert!(
        exit == Some(0) && said.contains("no receipt, because nothing new was recorded"),
        "{said}"
    );
    assert_eq!(setup.recorded(Kind::PayloadErased).await.len(), 1, "twice is once");
    let (_, _, all) = ask(&setup, "vera", "GET /v1/erasures", &json!({})).await;
    assert_eq!(all["erasures"].as_array().map(Vec::len), Some(1), "{all}");
    let (said, entry) = (&all["erasures"][0], all["erasures"][0]["entry"].as_u64().unwrap());
    assert_eq!(
        (said["request"].as_str(), said["by"].as_str()),
        (Some("ticket 9"), Some("operator:otto"))
    );
    let (status, _, again) =
        ask(&setup, "vera", &format!("GET /v1/erasures/{entry}"), &json!({})).await;
    assert_eq!(status, 200, "{again}");
    std::fs::write(dir.join("again.receipt"), again["receipt"].to_string()).unwrap();
    for receipt in [&first, "again.receipt"] {
        let keys = ["--key", "evidence.pem.pub", "--fleet-key", "fleet.pem.pub"];
        let said = run(&dir, &[&["payload", "receipt", receipt][..], &keys].concat());
        assert!(said.contains(&format!("entry {entry} of")) && said.contains("Art. 17"), "{said}");
    }
    let line = format!("GET /v1/erasures/{}", entry + 1);
    assert_eq!(ask(&setup, "vera", &line, &json!({})).await.0, 404);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn erasing_in_a_live_run_takes_what_it_stored_and_lets_it_go_on() {
    let setup = Setup::new().await;
    setup.agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    let (exit, said) = setup.erases("otto", &[]);
    assert_eq!(exit, Some(0), "{said}");
    // The result is gone: it is not made anew.
    let again = setup.agent.call("work.do", "a", r#"{"n":1}"#).await;
    assert_eq!(again.unwrap_err().code, "call.result_unavailable");
    assert_eq!(setup.tool.count(), 1);
    setup.agent.call("work.do", "b", r#"{"n":2}"#).await.unwrap();
    setup.agent.seal().await.unwrap();
    let out = setup.estate.path("after.zip");
    let shown = out.display().to_string();
    let take = ["evidence", "export", "--run", &setup.agent.run, "--out", &shown];
    let (exit, said) = setup.asks("vera", &take);
    assert_eq!(exit, Some(0), "{said}");
    let dir = setup.estate.path(".");
    verify(&dir, &out, &[dir.join("state/enrolment.key.pub")]);
    setup.close().await;
}

/// Two gates over one database that has a role that erases, each with one sealed run.
async fn two_gates(tool: &Tool) -> (TestDb, Vec<(Estate, Sidecar, Agent)>) {
    let db = tokio::task::spawn_blocking(Pg::cluster).await.unwrap().database().await;
    let eraser = Login::Eraser { name: "wg_eraser".to_owned(), password: None };
    migrate(&db.admin_url, &[eraser]).await.unwrap();
    let mut gates = Vec::new();
    for _ in 0..2 {
        let estate = Estate::postgres(tool, &db.writer_url, &db.admin_url, "local");
        let sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
        agent.seal().await.unwrap();
        gates.push((estate, sidecar, agent));
    }
    (db, gates)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_exports_every_chain_of_its_tenant_and_erases_with_a_role_of_its_own() {
    let (people, tool) = (People::new(), Tool::start().await);
    let (db, mut gates) = two_gates(&tool).await;
    let home = &gates[0].0;
    keys(home);
    let private = |name: &str, text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(home.path(name), text).unwrap();
        std::fs::set_permissions(home.path(name), std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    private("eraser.url", &db.reader_url.replace("wg_reader@", "wg_eraser@"));
    let urls = (db.operator_url.as_str(), db.reader_url.as_str());
    let change = |erases: bool| {
        let people = &people;
        move |config: &mut Value| {
            configure(people, config);
            config["fleet"]["enrolment_key"] = json!("state/enrolment.key");
            config["evidence"]["artifacts"] = json!("state/artifacts");
            if erases {
                config["evidence"]["eraser_url_file"] = json!("eraser.url");
            }
        }
    };
    let hub = Hub::configured(home, &people, urls, ("reads", &change(false))).await;
    let run_id = gates[1].2.run.clone();
    let erase = ["payload", "erase", "--yes", "--basis", "Art. 17", "--run", &run_id];
    let (exit, said) = people.orders("otto", &hub.url(), &erase);
    assert!(exit == Some(1) && said.contains("erasure.none"), "{said}");
    drop(hub);
    let hub = Hub::configured(home, &people, urls, ("hub", &change(true))).await;
    let take = |name: &str| {
        let out = home.path(name).display().to_string();
        people.asks(
            "vera",
            &hub.url(),
            &["evidence", "export", "--population", "--payloads", "--out", &out],
        )
    };
    let (exit, said) = take("before.zip");
    assert_eq!(exit, Some(0), "{said}");
    let (enrolments, dir): (Vec<PathBuf>, _) = (
        gates.iter().map(|(estate, ..)| estate.path("state/enrolment.key.pub")).collect(),
        home.path("."),
    );
    verify(&dir, &home.path("before.zip"), &enrolments);
    audit(&people, &hub.url(), &gates[0].2.run).await;
    let receipt = home.path("erased.receipt").display().to_string();
    let (exit, said) =
        people.orders("otto", &hub.url(), &[&erase[..], &["--receipt", &receipt]].concat());
    assert!(exit == Some(0) && said.contains(" erased with the salts"), "{said}");
    let keys = ["--key", "evidence.pem.pub", "--fleet-key", "fleet.pem.pub"];
    run(&dir, &[&["payload", "receipt", &receipt][..], &keys].concat());
    let (exit, said) = take("after.zip");
    assert_eq!(exit, Some(0), "{said}");
    verify(&dir, &home.path("after.zip"), &enrolments);
    let reader = PostgresReader::connect(&db.reader_url).await.unwrap();
    let exported = fleet_entries(&reader, Kind::EvidenceExported).await;
    assert_eq!(exported.len(), 2);
    assert!(exported.iter().all(|data| text(data, "requester") == "operator:vera"));
    let logs = text(&fleet_entries(&reader, Kind::PayloadErased).await[0], "log").to_owned();
    assert!(logs.starts_with("wicketgate.dev/default/local/"), "{logs}");
    for (_, sidecar, _) in &mut gates {
        sidecar.stop().await;
    }
    for (estate, ..) in &gates {
        check(&estate.database, &tool, &estate.receipts);
    }
}
