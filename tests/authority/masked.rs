//! A call that waited for a person runs with the arguments that the policy masked. Its agent knows the others, and asks
//! for the same call with them.

use serde_json::{Value, json};

use crate::agent::{Agent, Refused};
use crate::checker;
use crate::people::{People, RULES, done};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

/// The policy masks addresses in the arguments of every call.
const MASKS: &str = "obligations contains {\"type\": \"redact\", \"kinds\": [\"email\"], \"where\": \"arguments\"}\n";
const MASKED: &str = "write to [REDACTED:email]";

struct World {
    people: People,
    tool: Tool,
    estate: Estate,
}

impl World {
    async fn new(change: impl FnOnce(&mut Value)) -> World {
        let (people, tool) = (People::new(), Tool::echoing().await);
        let estate = Estate::sqlite(&tool);
        estate.bundle("1.0.1", &(RULES.to_owned() + MASKS), "policy");
        estate.configure(|config| {
            people.configure(config, true);
            config["policy"]["deadline_ms"] = 5000.into();
            change(config);
        });
        World { people, tool, estate }
    }

    /// A call that Ada has approved, inside the tool.
    async fn running(&self, gate: &Sidecar, agent: &Agent, args: &str) {
        held(agent.call("work.do", "c", args).await);
        self.tool.hold();
        let (exit, told) =
            self.people.says("ada", "approve", &gate.operator_url(), (&agent.run, "c"));
        assert_eq!((exit, done(&told)), (Some(0), ("authorized".into(), String::new())), "{told}");
        self.tool.entered(1).await;
    }
}

fn args(to: &str) -> String {
    json!({"hold": true, "s": format!("write to {to}")}).to_string()
}

#[track_caller]
fn held(answer: Result<String, Refused>) {
    let refused = answer.expect_err("it is held");
    assert_eq!(refused.code, "call.held", "{refused:?}");
}

/// Asks for the same under this id, while the call is inside the tool.
fn asks_again(
    agent: &Agent,
    id: &'static str,
    args: &str,
) -> tokio::task::JoinHandle<Result<String, Refused>> {
    let (agent, args) = (agent.clone(), args.to_owned());
    tokio::spawn(async move { agent.call("work.do", id, &args).await })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_request_waits_for_the_approved_call_whose_arguments_the_policy_masked() {
    let world = World::new(|_| {}).await;
    let mut gate = world.estate.serve().await;
    let agent = gate.open().await;
    let same = args("anna.berg@example.com");
    world.running(&gate, &agent, &same).await;
    let again = asks_again(&agent, "c", &same);
    for n in 0..3 {
        let other = json!({"hold": true, "s": format!("write {n} letters")}).to_string();
        let refused = agent.call("work.do", "c", &other).await.unwrap_err();
        assert_eq!(refused.code, "call.conflict", "{refused:?}");
    }
    world.tool.release();
    let answer = again.await.unwrap().unwrap();
    assert!(answer.contains(MASKED), "{answer}");
    assert_eq!(agent.call("work.do", "c", &same).await.unwrap(), answer);
    assert_eq!(world.tool.count(), 1);
    gate.stop().await;
    let held = checker::entries(&world.estate.database, "call.held");
    assert_eq!(held[0]["data"]["masked"], json!({"policy": ["email"]}), "{held:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_under_another_id_is_answered_as_the_approved_call_whose_arguments_the_policy_masked()
 {
    let world = World::new(|config| {
        for tool in config["tools"].as_array_mut().unwrap() {
            tool["dedupe_ms"] = json!(600_000);
        }
    })
    .await;
    let mut gate = world.estate.serve().await;
    let agent = gate.open().await;
    let same = args("anna.berg@example.com");
    world.running(&gate, &agent, &same).await;
    let again = asks_again(&agent, "retry", &same);
    let other = agent.call("work.do", "c", &args("nobody")).await.unwrap_err();
    assert_eq!(other.code, "call.conflict", "{other:?}");
    world.tool.release();
    let answer = again.await.unwrap().unwrap();
    assert!(answer.contains(MASKED), "{answer}");
    assert_eq!(world.tool.count(), 1);
    gate.stop().await;
}
