//! Held calls that people decide alike become a proposed rule, and only signatures put it in force.

use serde_json::{Value, json};

use crate::amend::{proposed, types};
use crate::people::{People, ask, done};
use crate::sidecar::{self, Estate, Sidecar, key};
use crate::tool::Tool;
use wicketgate_support::ran::Ran;

/// A transfer above ten waits for a person.
const RULES: &str = "package wicketgate.agent\nimport rego.v1\nallow if startswith(input.tool.name, \"work.\")\n\
    require_approval contains {\"code\": \"large\", \"message\": \"a large one\"} if input.args.n > 10\n";

struct Setup {
    people: People,
    estate: Estate,
    sidecar: Sidecar,
}

impl Setup {
    async fn new() -> Setup {
        let (people, tool) = (People::new(), Tool::start().await);
        let estate = Estate::sqlite(&tool);
        estate.bundle("1.0.0", RULES, "policy");
        estate.configure(|config| {
            people.configure_amendments(config, true);
            let ada = people.path("ada.token").display().to_string();
            let member = json!({"subject": "ada", "roles": ["approver"], "token_file": ada});
            config["operators"].as_array_mut().unwrap().push(member);
            config["operators"][1]["roles"] = json!(["approver", "policy_publisher"]);
            // A call of a run with labels teaches nothing, and here all runs have one caller.
            config["taint"] = json!({"linger_seconds": 0});
        });
        both(&people);
        let sidecar = estate.serve().await;
        Setup { people, estate, sidecar }
    }

    fn url(&self) -> String {
        self.sidecar.operator_url()
    }

    /// These calls are held, and these people say this word about them in turn.
    async fn decided(&self, word: &str, people: &[&str], calls: std::ops::Range<u32>) {
        for (number, who) in calls.zip(people.iter().cycle()) {
            // Each in a run of its own: too many denials suspend one.
            let agent = self.sidecar.open().await;
            let (id, args) =
                (format!("c-{number}"), format!(r#"{{"n":{},"s":"alice"}}"#, 20 + number));
            let held = agent.call("work.do", &id, &args).await.unwrap_err();
            assert_eq!(held.code, "call.held");
            let (exit, told) = self.people.says(who, word, &self.url(), (&agent.run, &id));
            assert_eq!(exit, Some(0), "{told}");
            let expected = if word == "approve" { "authorized" } else { "denied" };
            assert_eq!(done(&told).0, expected, "{told}");
        }
    }

    fn learn(&self, more: &[&str]) -> Ran {
        let args = [&["policy", "learn", "--config", "wicketgate.yaml"], more].concat();
        Ran::gate(self.estate.path("."), args)
    }

    fn patterns(&self) -> Value {
        self.learn(&["--json"]).ok().json()
    }

    /// How a call with these arguments is answered.
    async fn answer(&self, args: &str) -> String {
        let answer = self.sidecar.open().await.call("work.do", "c", args).await;
        answer.map_or_else(|refused| refused.code, |_| "allowed".to_owned())
    }
}

/// Ada and Grace approve calls; Grace and Hugo publish policies.
fn both(people: &People) {
    let line = |name: &str, spaces: &str, roles: &str| {
        let key = std::fs::read_to_string(people.path(&format!("{name}.pub"))).unwrap();
        let key: Vec<&str> = key.split_whitespace().take(2).collect();
        format!("{name} namespaces=\"{spaces}\" {} roles={roles}\n", key.join(" "))
    };
    let lines = [
        line("ada", "wicketgate-approval", "approver"),
        line("grace", "wicketgate-approval,wicketgate-amendment", "approver,policy_publisher"),
        line("hugo", "wicketgate-amendment", "policy_publisher"),
    ];
    people.sign(&format!("# wicketgate: version=9\n{}", lines.concat()));
}

fn lacking(patterns: &Value) -> String {
    assert_eq!(patterns["patterns"], json!([]), "{patterns}");
    let all = patterns["lacking"].as_array().unwrap().iter();
    all.map(|one| one["why"].as_str().unwrap()).collect::<Vec<_>>().join(", ")
}

/// It takes half a minute: 21 calls are held and signed one by one by a command each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_equal_approvals_become_a_rule_that_allows_their_shape_once_people_have_signed_it() {
    let setup = Setup::new().await;
    setup.decided("approve", &["ada", "grace"], 0..19).await;
    assert_eq!(setup.patterns()["patterns"], json!([]), "nineteen are not enough");
    setup.decided("approve", &["ada"], 19..20).await;
    let patterns = setup.patterns();
    let one = &patterns["patterns"][0];
    assert_eq!(
        (&one["tool"], &one["agent"], &one["decision"], &one["decisions"], &one["people"]),
        (
            &json!("work.do"),
            &json!("test-agent"),
            &json!("approve"),
            &json!(20),
            &json!(["ada", "grace"])
        ),
        "{patterns}"
    );
    // Operators see the same, without arguments.
    let token = setup.people.token("vera");
    let (status, _, body) = ask(&setup.url(), &token, "GET /v1/patterns", &Value::Null).await;
    assert_eq!((status, &body), (200, &patterns));
    assert!(!body.to_string().contains("alice"));

    let id = one["id"].as_str().unwrap();
    sidecar::run(&setup.estate.path("."), &["keygen", "--out", "audit.pem"]);
    let write =
        ["--pattern", id, "--bundle", "bundle", "--out", "bundle-1.0.1", "--key", "audit.pem"];
    let made = setup.learn(&write).ok().says("not_after").says("input.args.n >= 20");
    assert!(made.err.contains("tests passed"), "{}", made.err);
    for command in [
        &["policy", "test", "bundle-1.0.1"][..],
        &["policy", "lint", "bundle-1.0.1", "--config", "wicketgate.yaml"],
        &[
            "policy",
            "backtest",
            "--verify",
            "bundle-1.0.1.backtest.dsse.json",
            "--public-key",
            "audit.pem.pub",
            "--bundle",
            "bundle-1.0.1",
        ],
    ] {
        sidecar::run(&setup.estate.path("."), command);
    }
    // It changes nothing by itself.
    assert_eq!(setup.answer(r#"{"n":25,"s":"alice"}"#).await, "call.held");

    sidecar::run(
        &setup.estate.path("."),
        &["policy", "sign", "bundle-1.0.1", "--key", &key("policy")],
    );
    let url = setup.url();
    let bundle = proposed(&setup.people, "paula", &url, &setup.estate.path("bundle-1.0.1"));
    assert_eq!(setup.answer(r#"{"n":25,"s":"alice"}"#).await, "call.held");
    let hugo = setup.people.path("hugo").display().to_string();
    let (exit, told) = types(&setup.people, "hugo", &url, &["approve", &bundle, "--key", &hugo]);
    assert_eq!(exit, Some(0), "{told}");
    let (exit, told) = types(&setup.people, "hugo", &url, &["activate", &bundle]);
    assert_eq!(exit, Some(0), "{told}");
    assert_eq!(setup.answer(r#"{"n":25,"s":"alice"}"#).await, "allowed");
    for neighbour in [
        r#"{"n":41,"s":"alice"}"#,
        r#"{"n":25,"s":"mallory"}"#,
        r#"{"n":25,"s":"alice","more":true}"#,
        r#"{"n":25}"#,
    ] {
        assert_eq!(setup.answer(neighbour).await, "call.held", "{neighbour}");
    }
    setup.sidecar.finish();
}

/// It takes half a minute: 41 calls are held and signed one by one by a command each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_person_or_one_other_decision_makes_no_rule_and_refusals_make_a_denial() {
    let setup = Setup::new().await;
    setup.decided("refuse", &["ada"], 0..20).await;
    assert_eq!(lacking(&setup.patterns()), "decided by 1 person of 2");
    setup.decided("refuse", &["grace"], 0..1).await;
    let patterns = setup.patterns();
    let one = &patterns["patterns"][0];
    assert_eq!((&one["decision"], &one["decisions"]), (&json!("refuse"), &json!(21)), "{patterns}");
    let id = one["id"].as_str().unwrap();
    let write = ["--pattern", id, "--bundle", "bundle", "--out", "bundle-1.0.1"];
    setup.learn(&write).ok().says("deny contains").says("people refused 21 calls");
    sidecar::run(&setup.estate.path("."), &["policy", "test", "bundle-1.0.1"]);
    setup.decided("approve", &["grace"], 0..1).await;
    assert!(lacking(&setup.patterns()).contains("was decided otherwise"), "{}", setup.patterns());
    let gone = setup.learn(&["--pattern", id, "--bundle", "bundle", "--out", "other"]).ends(64);
    assert!(gone.err.contains("no pattern"), "{}", gone.err);
    setup.sidecar.finish();
}
