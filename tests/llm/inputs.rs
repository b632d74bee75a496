//! What policies see of a request to a model.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::gate::{Gate, INSTRUCTIONS};
use crate::provider::Answer;
use crate::said::{ALL, CHAT, MESSAGES};

/// The effects of the calls to models so far, in order.
fn effects(gate: &Gate) -> Vec<Value> {
    let inputs = gate.payloads("policy_input").into_iter();
    let inputs = inputs.map(|text| serde_json::from_str::<Value>(&text).unwrap());
    let effects = inputs.map(|input| input["effect"].clone());
    effects.filter(|effect| effect["kind"] == "model").collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_sees_what_each_offered_tool_is_and_which_entry_the_instructions_match() {
    let gate = Gate::start_with(
        |_| {},
        |spec| {
            spec["instructions"][0]["name"] = json!("prompt");
            spec["unknown_tools"] = json!("strip");
        },
    )
    .await;
    for dialect in ALL {
        gate.provider.answers(Answer::json(200, &dialect.whole("ok", &[])));
        let names = ["Bash", "Hack", "gov_work_do", "work_do"];
        let mut body = dialect.offering("go", false, &names);
        // One is offered under the name that a client gave it, with the gate's description.
        let tools = body["tools"].to_string().replace("the agent's own gov_work_do", "does work");
        body["tools"] = serde_json::from_str(&tools).unwrap();
        let reply = gate.asks(dialect, &body).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let effect = effects(&gate).pop().expect("the effect of the call");
        let governed = |name: &str| {
            json!({"name": name, "kind": "governed", "tool": "work.do",
            "definition": "differs"})
        };
        let bash =
            json!({"name": "Bash", "kind": "client", "tool": "Bash", "definition": "unpinned"});
        assert_eq!(
            effect["offered"],
            json!([bash, governed("gov_work_do"), governed("work_do")]),
            "{effect}"
        );
        let block = &effect["instructions"][0];
        assert_eq!(
            (&block["name"], &block["scope"], &block["place"]),
            (&json!("prompt"), &json!("whole"), &json!("leading")),
            "{effect}"
        );
        assert_eq!(effect["loose_bytes"], 0);
        // Texts of instructions and tools are named by what they are, not repeated.
        assert!(!effect.to_string().contains(INSTRUCTIONS), "{effect}");
        assert!(!effect.to_string().contains("does work"), "{effect}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_sees_the_features_that_reach_the_provider() {
    let gate = Gate::start().await;
    let messages = MESSAGES;
    gate.provider.answers(Answer::json(200, &messages.whole("ok", &[])));
    let lines = [
        ("anthropic-version", "2023-06-01"),
        ("anthropic-beta", "effort-2025-11-24,mcp-client-2025-11-20"),
    ];
    let body = messages.request("hi", false).to_string();
    let reply = gate.ask("POST", messages.path, &lines, &body).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let effect = effects(&gate).pop().expect("the effect of the call");
    assert_eq!(effect["betas"], json!(["effort-2025-11-24"]), "{effect}");
    assert_eq!(gate.provider.last().headers["anthropic-beta"], "effort-2025-11-24");
}

/// What may be counted, and not be answered.
const NO_ANSWER: &str = r#"
deny contains {"code": "secret", "message": "no answer about it"} if {
    input.effect.operation == "generate"
    contains(input.args.messages[_].content, "project x")
}
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_was_allowed_for_one_operation_is_new_to_another() {
    let gate = Gate::start_under(NO_ANSWER).await;
    let messages = MESSAGES;
    let body = messages.request("about project x", false);
    let mut count = body.clone();
    for name in ["max_tokens", "stream"] {
        count.as_object_mut().unwrap().remove(name);
    }
    gate.provider.answers(Answer::json(200, &json!({"input_tokens": 7})));
    let path = "/v1/messages/count_tokens";
    let counted = gate.ask("POST", path, &[], &count.to_string()).await;
    assert_eq!(counted.status, 200, "{counted:?}");
    let reply = gate.asks(messages, &body).await;
    assert_eq!(reply.status, 403, "{reply:?}");
    assert!(reply.body.contains("no answer about it"), "{reply:?}");
    assert_eq!(gate.provider.last().path, path);
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instructions_that_no_manifest_lists_have_no_name_and_are_loose() {
    let gate = Gate::start_with(|_| {}, |spec| spec["instructions"] = json!([])).await;
    let chat = CHAT;
    gate.provider.answers(Answer::json(200, &chat.whole("ok", &[])));
    let reply = gate.asks(chat, &chat.request("hi", false)).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let effect = effects(&gate).pop().expect("the effect of the call");
    let block = &effect["instructions"][0];
    assert_eq!((block.get("name"), block.get("scope")), (None, None), "{effect}");
    assert_eq!(block["sha256"], hex::encode(Sha256::digest(INSTRUCTIONS)));
    assert_eq!(effect["loose_bytes"], INSTRUCTIONS.len());
}
