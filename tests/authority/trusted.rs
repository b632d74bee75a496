//! Trust in a tool that begins to fail, as the ledger gives it to people and to policies.

use serde_json::{Value, json};

use crate::checker::check;
use crate::people::{People, ask};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use wicketgate_support::pg::Pg;
use wicketgate_support::ran::Ran;

/// A tool whose calls ended badly waits for a person.
const RULES: &str = "package wicketgate.agent\nimport rego.v1\nallow if input.tool.name == \"work.do\"\n\
    require_approval contains {\"code\": \"trust\", \"message\": \"it fails too often\"} if {\n\
    input.tool.trust.rated\n\tinput.tool.trust.score < 600\n}\n";

struct Setup {
    people: People,
    tool: Tool,
    estate: Estate,
    sidecar: Sidecar,
}

impl Setup {
    async fn of(tool: Tool, estate: Estate) -> Setup {
        let people = People::new();
        estate.bundle("1.0.1", RULES, "policy");
        estate.configure(|config| {
            people.configure(config, config["ledger"].get("sqlite").is_some());
            config["trust"]["input"] = json!(true);
        });
        let sidecar = estate.serve().await;
        Setup { people, tool, estate, sidecar }
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::gate(self.estate.path("."), args)
    }

    /// What the ledger says.
    fn trust(&self) -> Value {
        self.run(&["trust", "--config", "wicketgate.yaml", "--json"]).ok().json()
    }

    /// So many calls in one run, and the code of the last answer.
    async fn calls(&self, count: usize) -> String {
        let agent = self.sidecar.open().await;
        let mut code = String::new();
        for number in 0..count {
            let answer = agent.call("work.do", &format!("c-{number}"), "{}").await;
            code = answer.err().map(|refused| refused.code).unwrap_or_default();
        }
        agent.seal().await.unwrap();
        code
    }

    async fn close(mut self) {
        self.sidecar.stop().await;
        check(&self.estate.database, &self.tool, &self.estate.receipts);
    }
}

/// Agent, calls, calls that ended well, score, and whether there is another definition by now.
fn lines(trust: &Value) -> Vec<(Value, u64, u64, Value, bool)> {
    let all = trust["scores"].as_array().unwrap().iter();
    all.map(|one| {
        let number = |name: &str| one[name].as_u64().unwrap();
        let replaced = one["replaced"].as_bool().unwrap();
        (one["agent"].clone(), number("calls"), number("well"), one["score"].clone(), replaced)
    })
    .collect()
}

/// A tool that fails loses its trust, and the figure is the one of a hand computation:
/// 30 of 30 is floor((1000 · 638416 − 38416000) / 676832) = 886, and 30 of 40 is 598.
async fn a_failing_tool_loses_trust(mut setup: Setup) {
    assert_eq!(setup.calls(19).await, "");
    assert_eq!(lines(&setup.trust())[0], (Value::Null, 19, 19, Value::Null, false), "unrated");
    setup.calls(11).await;
    let before = setup.trust();
    let agent = json!("test-agent");
    let expected = [(Value::Null, 30, 30, json!(886), false), (agent, 30, 30, json!(886), false)];
    assert_eq!(lines(&before), expected, "{before}");
    assert_eq!(before["drops"], json!([]));
    setup.tool.break_down();
    // The policy holds the call after the score has fallen below 600: 30 of 40 is 598.
    let mut failed = 0;
    let agent = setup.sidecar.open().await;
    let code = loop {
        let answer = agent.call("work.do", &format!("f-{failed}"), "{}").await.unwrap_err();
        if answer.code == "call.held" || failed == 40 {
            break answer.code;
        }
        failed += 1;
    };
    assert_eq!((code.as_str(), failed), ("call.held", 10));
    agent.seal().await.unwrap();
    let after = setup.trust();
    assert_eq!(lines(&after)[0], (Value::Null, 40, 30, json!(598), false), "{after}");
    let drop = &after["drops"][0];
    assert_eq!((&drop["from"], &drop["to"]), (&json!(886), &json!(598)), "{after}");
    // Every figure that a policy saw is the ledger's.
    let verify = ["trust", "--config", "wicketgate.yaml", "--verify", "--json"];
    let verified = setup.run(&verify).ok().json();
    assert_eq!((&verified["same"], &verified["other"]), (&json!(41), &json!([])), "{verified}");

    // A restart changes no figure, and another definition begins anew.
    setup.sidecar.kill();
    setup.sidecar = setup.estate.serve().await;
    assert_eq!(lines(&setup.trust()), lines(&after));
    let held = setup.sidecar.open().await.call("work.do", "again", "{}").await;
    assert_eq!(held.unwrap_err().code, "call.held", "the gate remembers");
    setup.sidecar.stop().await;
    setup.estate.configure(|config| config["tools"][0]["description"] = json!("does other work"));
    setup.sidecar = setup.estate.serve().await;
    assert_ne!(setup.calls(1).await, "call.held");
    let anew = lines(&setup.trust());
    assert!(anew.contains(&(Value::Null, 40, 30, json!(598), true)), "{anew:?}");
    assert!(anew.contains(&(Value::Null, 1, 0, Value::Null, false)), "{anew:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_begins_to_fail_loses_trust_and_a_changed_definition_begins_anew() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    a_failing_tool_loses_trust(Setup::of(tool, estate).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trust_on_postgres_is_the_same_as_on_sqlite() {
    let (tool, db) = (Tool::start().await, Pg::cluster().database().await);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let file = estate.path("reader.url").display().to_string();
    estate.secret("reader.url", &db.reader_url);
    estate.configure(|config| config["hub"]["reader_url_file"] = json!(file));
    a_failing_tool_loses_trust(Setup::of(tool, estate).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_see_the_scores_of_the_ledger_and_policies_see_none_unless_configured() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let mut setup = Setup::of(tool, estate).await;
    setup.calls(25).await;
    let (url, token) = (setup.sidecar.operator_url(), setup.people.token("ada"));
    let (status, _, body) = ask(&url, &token, "GET /v1/trust", &Value::Null).await;
    assert_eq!((status, lines(&body)), (200, lines(&setup.trust())), "{body}");
    let (exit, said) = setup.people.types("ada", &url, &["trust"]);
    assert_eq!(exit, Some(0), "{said}");
    assert!(said.contains(" 866  work.do  every agent  25 of 25 ended well"), "{said}");
    let (exit, said) = setup.people.types("ada", &url, &["trust", "--verify"]);
    assert!(exit == Some(64) && said.contains("`--verify` reads a ledger"), "{said}");
    setup.sidecar.stop().await;
    setup.estate.configure(|config| config["trust"]["input"] = json!(false));
    setup.sidecar = setup.estate.serve().await;
    setup.tool.break_down();
    assert_ne!(setup.calls(30).await, "call.held");
    setup.close().await;
}
