//! Tools of the gate that an agent runs itself, although a model asked for them.

use serde_json::{Value, json};

use crate::binding::called;
use crate::gate::Gate;
use crate::provider::Answer;
use crate::said::{ALL, Dialect, MESSAGES};

/// Asks in the run in which `called` calls.
async fn asked(gate: &Gate, dialect: &Dialect, body: &Value, answer: &Value) {
    gate.provider.answers(Answer::json(200, answer));
    let (path, body) = dialect.placed(body);
    let reply = gate.ask("POST", &format!("/r/job{path}"), &[], &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
}

/// The findings of the newest call that are not the firewall's.
fn findings(gate: &Gate) -> Vec<Value> {
    let input = gate.payloads("policy_input").pop().expect("the input of the call");
    let input: Value = serde_json::from_str(&input).unwrap();
    let all = input["findings"].as_array().unwrap().clone();
    all.into_iter().filter(|one| one["kind"] == "proposal.bypassed").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_result_of_a_governed_tool_that_never_came_to_the_gate_is_a_finding() {
    let gate = Gate::start().await;
    // Calls of some dialects may have no id.
    let named = ALL.into_iter().map(|dialect| (dialect, true));
    let unnamed = ALL.into_iter().filter(|dialect| !dialect.needs_ids());
    let unnamed = unnamed.map(|dialect| (dialect, false));
    let count = ALL.len() + unnamed.clone().count();
    for (n, (dialect, is_named)) in named.chain(unnamed).enumerate() {
        let id = if is_named { format!("call_{n}") } else { String::new() };
        let arguments = format!(r#"{{"n": {n}}}"#);
        let call = (id.as_str(), "work_do", arguments.as_str());
        let body = dialect.offering(&format!("do {n}"), false, &["work_do"]);
        asked(&gate, dialect, &body, &dialect.whole("look", &[call])).await;
        assert_eq!(findings(&gate), Vec::<Value>::new());

        // The agent has a result, and the tool was not called.
        let next = dialect.followed(&body, call, &format!("done {n}"));
        asked(&gate, dialect, &next, &dialect.whole("thanks", &[])).await;
        let found = findings(&gate);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0]["since"], "new");
        assert!(found[0]["path"].as_str().unwrap().ends_with("/1"), "{found:?}");

        // It stays a finding of that message.
        let other = ("other", "Read", "{}");
        let later = dialect.followed(&next, other, "text");
        asked(&gate, dialect, &later, &dialect.whole("thanks", &[])).await;
        let found = findings(&gate);
        assert_eq!((found.len(), &found[0]["since"]), (1, &json!("earlier")), "{found:?}");
    }
    assert_eq!(gate.tool.count(), 0);
    let metrics = gate.operator("/metrics").await;
    let line = format!("wicketgate_proposals_bypassed_total{{tool=\"work.do\"}} {count}");
    assert!(metrics.contains(&line), "{metrics}");
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_came_to_the_gate_is_no_finding_and_neither_is_an_error_that_the_agent_reports()
{
    let gate = Gate::start().await;
    let messages = MESSAGES;
    let call = ("toolu_1", "work_do", r#"{"n": 5}"#);
    let body = messages.offering("do it", false, &["work_do"]);
    asked(&gate, messages, &body, &messages.whole("look", &[call])).await;
    let done = called(&gate, json!({"n": 5})).await;
    assert_eq!(done["result"]["isError"], Value::Null, "{done}");
    let next = messages.followed(&body, call, "done");
    asked(&gate, messages, &next, &messages.whole("thanks", &[])).await;
    assert_eq!(findings(&gate), Vec::<Value>::new());

    let call = ("toolu_2", "work_do", r#"{"n": 6}"#);
    let body = messages.offering("and that", false, &["work_do"]);
    asked(&gate, messages, &body, &messages.whole("look", &[call])).await;
    let mut next = messages.followed(&body, call, "the user said no");
    let last = next["messages"].as_array_mut().unwrap().last_mut().unwrap();
    last["content"][0]["is_error"] = json!(true);
    asked(&gate, messages, &next, &messages.whole("I see", &[])).await;
    assert_eq!(findings(&gate), Vec::<Value>::new());
    assert_eq!(gate.tool.count(), 1);
    gate.checked().await;
}

const MASK: &str = r#"
obligations contains {"type": "redact", "kinds": ["email"]} if input.tool.kind == "model"
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_with_the_arguments_that_left_is_no_finding_where_a_policy_masks_them() {
    let gate = Gate::start_under(MASK).await;
    let messages = MESSAGES;
    for (n, stream) in [false, true].into_iter().enumerate() {
        let (id, arguments) =
            (format!("toolu_{n}"), format!(r#"{{"n": {n}, "s": "ann@example.com"}}"#));
        let call = (id.as_str(), "work_do", arguments.as_str());
        let mut body = messages.offering(&format!("do {n}"), stream, &["work_do"]);
        gate.provider.answers(match stream {
            true => Answer::events(&messages.streamed("look", &[call])),
            false => Answer::json(200, &messages.whole("look", &[call])),
        });
        let reply = gate.ask("POST", "/r/job/v1/messages", &[], &body.to_string()).await;
        assert!(reply.body.contains("[REDACTED:email]"), "{reply:?}");
        let left = json!({"n": n, "s": "[REDACTED:email]"});
        let done = called(&gate, left.clone()).await;
        assert_eq!(done["result"]["isError"], Value::Null, "{done}");
        body["stream"] = json!(false);
        let next = messages.followed(&body, (&id, "work_do", &left.to_string()), "done");
        asked(&gate, messages, &next, &messages.whole("thanks", &[])).await;
        assert_eq!(findings(&gate), Vec::<Value>::new());
    }
    assert_eq!(gate.tool.count(), 2);
    gate.checked().await;
}
