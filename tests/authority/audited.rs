//! A gate that verifies its own ledger for an auditor, and bundles that are tested on what was recorded: over the
//! operator API, with the built program.

use serde_json::{Value, json};

use crate::amend::{FIRST, SECOND, draft, proposed};
use crate::people::{self, People, RULES};
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;
use crate::waiting::until;

/// One machine whose gate has an evidence key.
struct Setup {
    people: People,
    _tool: Tool,
    estate: Estate,
    sidecar: Sidecar,
}

impl Setup {
    async fn new(rules: &str, configure: impl FnOnce(&People, &mut Value)) -> Self {
        let (people, tool) = (People::new(), Tool::start().await);
        let estate = Estate::sqlite(&tool);
        for name in ["fleet.pem", "evidence.pem"] {
            run(&estate.path("."), &["keygen", "--out", name]);
        }
        estate.bundle("1.0.0", rules, "policy");
        estate.configure(|config| {
            configure(&people, config);
            config["fleet"] = json!({"key": "fleet.pem"});
            config["evidence"] = json!({"key": "evidence.pem"});
        });
        let sidecar = estate.serve().await;
        Self { people, _tool: tool, estate, sidecar }
    }

    async fn ask(&self, who: &str, line: &str, body: &Value) -> (u16, Value) {
        let (url, token) = (self.sidecar.operator_url(), self.people.token(who));
        let (status, _, answer) = people::ask(&url, &token, line, body).await;
        (status, answer)
    }

    async fn audit(&self, body: &Value) -> Value {
        let (status, report) = self.ask("vera", "POST /v1/audit/verify", body).await;
        assert_eq!(status, 200, "{body}: {report}");
        report
    }

    /// Changes rows of the ledger behind its triggers.
    fn tamper(&self, sql: &str) {
        let database = self.estate.path("state/ledger.sqlite");
        let database = rusqlite::Connection::open(database).unwrap();
        database.busy_timeout(std::time::Duration::from_secs(10)).unwrap();
        let triggers: Vec<String> = {
            let sql = "SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'stored_entry'";
            let mut found = database.prepare(sql).unwrap();
            found.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        for trigger in triggers {
            database.execute_batch(&format!("DROP TRIGGER \"{trigger}\"")).unwrap();
        }
        assert_eq!(database.execute(sql, []).unwrap(), 1, "{sql}");
    }
}

/// Vera audits, Otto operates, Hugo looks.
fn auditors(people: &People, config: &mut Value) {
    people.configure(config, false);
    let member = |name: &str, role: &str| json!({"subject": name, "roles": [role], "token_file": people.path(&format!("{name}.token"))});
    config["operators"] = json!([
        member("ada", "approver"),
        member("otto", "operator"),
        member("vera", "auditor"),
        member("hugo", "viewer"),
    ]);
}

fn outcome<'v>(report: &'v Value, id: &str) -> (&'v str, &'v str) {
    let checks = report["checks"].as_array().unwrap_or_else(|| panic!("{report}"));
    let one = checks.iter().find(|one| one["id"] == id).unwrap_or_else(|| panic!("{report}"));
    (one["outcome"].as_str().unwrap(), one["detail"].as_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_verifies_a_run_a_call_and_a_range_of_its_ledger_and_names_a_changed_row() {
    let mut setup = Setup::new(RULES, auditors).await;
    let agent = setup.sidecar.open().await;
    for id in ["a", "b"] {
        agent.call("work.do", id, r#"{"n":1}"#).await.unwrap();
    }
    agent.call("policy.undefined", "c", "{}").await.unwrap_err();
    agent.seal().await.unwrap();

    let report = setup.audit(&json!({"run": agent.run})).await;
    for id in ["D1", "D2", "B1", "B3", "H1", "E1", "E2", "S1", "S2", "S3", "S4", "S5", "P1", "P5"] {
        assert_eq!(outcome(&report, id).0, "pass", "{id}: {report}");
    }
    for (id, why) in [("R2", "whole tenant"), ("H2", "no head"), ("F1", "no fleet key")] {
        let (outcome, detail) = outcome(&report, id);
        assert!(outcome == "not_applicable" && detail.contains(why), "{id}: {report}");
    }
    assert_ne!(report["outcome"], "fail", "{report}");
    assert!(report["took_ms"].is_u64() && report["began"].is_string(), "{report}");
    assert_eq!(report["steps"].as_array().unwrap().len(), 8, "{report}");
    let whole = report["entries"].as_u64().unwrap();

    let call = setup.audit(&json!({"run": agent.run, "call": "a"})).await;
    assert_eq!((call["entries"].as_u64(), outcome(&call, "S5").0), (Some(2), "pass"), "{call}");
    let log = setup.estate.origin().await;
    let range = setup.audit(&json!({"chain": log, "from": 2, "to": 6})).await;
    assert_eq!(range["entries"], 4, "{range}");
    assert_eq!((outcome(&range, "R1").0, outcome(&report, "R1").0), ("pass", "not_applicable"));
    // Nothing was handed out, so nothing is recorded.
    let (status, exports) = setup.ask("vera", "GET /v1/exports", &Value::Null).await;
    assert_eq!((status, &exports["exports"]), (200, &json!([])), "{exports}");

    for (body, code) in [
        (json!({}), "audit.selection"),
        (json!({"run": agent.run, "chain": log}), "audit.selection"),
        (json!({"run": "x"}), "audit.selection"),
        (json!({"chain": log, "call": "a"}), "audit.selection"),
        (json!({"chain": log, "from": 3, "to": 3}), "audit.selection"),
        (json!({"chain": log, "from": 90_000, "to": 90_001}), "export.span"),
        (json!({"chain": "none"}), "export.log"),
    ] {
        let (status, said) = setup.ask("vera", "POST /v1/audit/verify", &body).await;
        assert_eq!((status, said["cause"].as_str()), (400, Some(code)), "{body}: {said}");
    }
    let unknown = json!({"run": agent.run, "call": "none"});
    assert_eq!(setup.ask("vera", "POST /v1/audit/verify", &unknown).await.0, 404);
    for who in ["otto", "ada", "hugo"] {
        let (status, _) = setup.ask(who, "POST /v1/audit/verify", &json!({"run": agent.run})).await;
        assert_eq!(status, 403, "{who}");
    }

    // A row of the run that says something else than what was signed.
    let (_, found) = setup.ask("vera", "GET /v1/calls?q=call%3Aa", &Value::Null).await;
    let at = found["calls"][0]["seq"].as_u64().unwrap_or_else(|| panic!("{found}"));
    let (signed, edited) = (r#""enforced":true"#, r#""enforced":false"#);
    setup.tamper(&format!(
        "UPDATE stored_entry SET body = CAST(replace(CAST(body AS TEXT), '{signed}', '{edited}') AS BLOB) \
         WHERE id & 1099511627775 = {at}"
    ));
    for body in [json!({"run": agent.run}), json!({"chain": log, "from": 0, "to": at + 1})] {
        let broken = setup.audit(&body).await;
        assert_eq!(broken["outcome"], "fail", "{broken}");
        assert_eq!(broken["damage"]["entry"], at, "{broken}");
        let named = broken["checks"].as_array().unwrap();
        let failed: Vec<&Value> = named.iter().filter(|one| one["outcome"] == "fail").collect();
        assert_eq!(failed.len(), 1, "{broken}");
        assert!(failed[0]["detail"].as_str().unwrap().contains(&format!("entry {at}")), "{broken}");
        assert_eq!(outcome(&broken, "P5").0, "undecided", "{broken}");
    }
    assert!(whole > 4);
    setup.sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proposed_bundle_is_compared_and_tested_on_recorded_decisions_and_the_result_is_signed() {
    let mut setup =
        Setup::new(FIRST, |people, config| people.configure_amendments(config, true)).await;
    let agent = setup.sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    agent.call("work.do", "b", r#"{"n":2}"#).await.unwrap();
    agent.seal().await.unwrap();
    let (status, policy) = setup.ask("vera", "GET /v1/policy", &Value::Null).await;
    assert_eq!(status, 200, "{policy}");
    let first = policy["bundles"][0]["bundle"].as_str().unwrap().to_owned();
    assert_eq!(policy["bundles"][0]["version"], "1.0.0", "{policy}");
    let dir = draft(&setup.estate, "1.0.1", SECOND, "policy");
    let bundle = proposed(&setup.people, "paula", &setup.sidecar.operator_url(), &dir);

    let (status, detail) =
        setup.ask("vera", &format!("GET /v1/policy/{bundle}"), &Value::Null).await;
    assert_eq!(status, 200, "{detail}");
    assert_eq!(detail["against"], first.as_str(), "{detail}");
    let changes = detail["changes"].as_array().unwrap();
    assert!(changes.iter().any(|one| one["what"] == "rule (a grant)"), "{detail}");
    let file =
        |name: &str| detail["files"].as_array().unwrap().iter().find(|one| one["name"] == name);
    assert_eq!(file("agent/main.rego").unwrap()["text"], SECOND, "{detail}");
    assert_eq!(detail["signers"].as_array().unwrap().len(), 1, "{detail}");
    assert_eq!(detail["proposal"]["standing"], "proposed", "{detail}");
    let (status, current) =
        setup.ask("vera", &format!("GET /v1/policy/{first}"), &Value::Null).await;
    assert_eq!((status, current["in_force"].as_array().unwrap().len()), (200, 1), "{current}");

    let (status, job) = setup.ask("vera", "POST /v1/backtests", &json!({"bundle": bundle})).await;
    assert_eq!((status, job["state"].as_str()), (202, Some("running")), "{job}");
    let path = format!("GET /v1/backtests/{}", job["id"].as_str().unwrap());
    until("the end of the backtest", || async {
        setup.ask("vera", &path, &Value::Null).await.1["state"] != "running"
    })
    .await;
    let (status, done) = setup.ask("vera", &path, &Value::Null).await;
    assert_eq!((status, done["state"].as_str()), (200, Some("done")), "{done}");
    assert_eq!(done["result"]["result"]["flips"], 1, "only the call with n = 1: {done}");
    setup.estate.write("backtest.dsse.json", done["statement"].to_string());
    let shown = dir.display().to_string();
    let verify = [
        "policy",
        "backtest",
        "--verify",
        "backtest.dsse.json",
        "--public-key",
        "evidence.pem.pub",
        "--bundle",
        &shown,
    ];
    assert!(run(&setup.estate.path("."), &verify).contains("1 changed"));
    let left = std::fs::read_dir(setup.estate.path("state/exports")).unwrap().count();
    assert_eq!(left, 0, "the bundle for the child is gone");

    let (_, all) = setup.ask("vera", "GET /v1/backtests", &Value::Null).await;
    assert_eq!(all["backtests"].as_array().unwrap().len(), 1, "{all}");
    let none = json!({"bundle": format!("sha256:{}", "0".repeat(64))});
    assert_eq!(setup.ask("vera", "POST /v1/backtests", &none).await.0, 404);
    for wrong in [
        json!({"bundle": "x"}),
        json!({"bundle": bundle, "since": "soon"}),
        json!({"bundle": bundle, "tool": "--sqlite"}),
    ] {
        let (status, said) = setup.ask("vera", "POST /v1/backtests", &wrong).await;
        assert_eq!(status, 400, "{wrong}: {said}");
    }
    setup.sidecar.stop().await;
}
