//! What the ledger keeps of a conversation that an agent has with a model in its own dialect. Bytes are
//! counted, so the bounds are no measurements.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::checker::{StoredPayload, check_ledger, payloads};
use crate::gate::Gate;
use crate::provider::Answer;
use crate::said::{ALL, Dialect};
use wicketgate_support::evidence::{evidence, outcome};

const TURNS: usize = 60;
/// New text of each turn: results of tools and questions, and what the model says. 0.41 MB in all. What
/// the model says is stored as its answer, and as a message once the agent sends it back.
const ASKED: usize = 6150;
const SAID: usize = 650;
/// What stands beside the conversation in every request.
const PROMPT: usize = 30_000;
const TOOLS: [&str; 2] = ["Bash", "Read"];
const DESCRIPTION: usize = 20_000;

/// Text of this many bytes that no other turn has.
fn text(turn: usize, bytes: usize) -> String {
    let word = format!("part {turn} says something of its own; ");
    word.chars().cycle().take(bytes).collect()
}

impl Dialect {
    /// The request of a coding agent: a long prompt, long tools, and this conversation.
    fn long(&self, conversation: &[Value], prompt: &str, stream: bool) -> Value {
        let description = text(7, DESCRIPTION);
        let tools = TOOLS.map(|name| (name, description.as_str()));
        self.with_tools(self.prompted(&[prompt], conversation, stream), &tools)
    }
}

/// A gate whose manifest demands these instructions.
async fn pinning(prompt: &str) -> Gate {
    let sha256 = hex::encode(Sha256::digest(prompt));
    let pinned = json!([{"sha256": sha256, "scope": "whole", "required": true}]);
    Gate::start_with(|_| {}, |spec| spec["instructions"] = pinned).await
}

/// 60 turns of a coding agent.
async fn sixty_turns(gate: &Gate, dialect: &Dialect, prompt: &str) {
    let mut conversation = Vec::new();
    for turn in 0..TURNS {
        conversation.push(dialect.question(&text(turn, ASKED)));
        let said = text(1000 + turn, SAID);
        gate.provider.answers(Answer::of_dialect(dialect, &dialect.streamed(&said, &[])));
        let request = dialect.long(&conversation, prompt, true);
        let reply = gate.asks(dialect, &request).await;
        assert_eq!(reply.status, 200, "{} {turn}: {reply:?}", dialect.name);
        conversation.push(dialect.echoed(&said));
    }
    let sent = gate.provider.last().json();
    let whole = 2 * TURNS - 1 + usize::from(dialect.beside().is_none());
    let list = sent[dialect.list()].as_array().unwrap();
    assert_eq!(list.len(), whole, "the provider is sent everything");
    assert_eq!(sent["tools"], dialect.long(&[], prompt, true)["tools"]);
}

fn of_role<'a>(all: &'a [StoredPayload], role: &str) -> Vec<&'a str> {
    all.iter().filter(|row| row.role == role).map(|row| row.body.as_str()).collect()
}

/// Whether a policy saw a member by its digest.
fn is_digest(member: &Value) -> bool {
    member["bytes"].as_u64() > Some(1024) && member["sha256"].as_str().map(str::len) == Some(64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_turns_with_a_long_prompt_and_long_tools_store_each_part_once() {
    let prompt = text(5000, PROMPT);
    for dialect in ALL {
        let mut gate = pinning(&prompt).await;
        sixty_turns(&gate, dialect, &prompt).await;
        gate.sidecar.stop().await;
        let summary = check_ledger(&gate.estate.database, &gate.estate.receipts);
        assert_eq!(summary["kinds"]["call.completed"], TURNS, "{summary}");
        let all = payloads(&gate.estate.database);
        let bytes: usize = all.iter().map(|row| row.body.len()).sum();
        assert!(bytes <= 1_200_000, "{}: {bytes} bytes of payloads", dialect.name);
        let beside = usize::from(dialect.beside().is_some());
        let stored = (of_role(&all, "instructions").len(), of_role(&all, "offer").len());
        assert_eq!(stored, (beside, 1), "{}", dialect.name);
        assert_eq!(of_role(&all, "message").len(), 2 * TURNS - beside, "{}", dialect.name);
        let args = of_role(&all, "args");
        assert!(args.iter().all(|body| body.len() < 1024), "{args:?}");
        // The prompt, the tools, and the first input, which shows both.
        let large = all.iter().filter(|row| row.body.len() > 16 * 1024).count();
        assert_eq!(large, 3, "{}: {large} payloads beyond 16 KiB", dialect.name);
        let inputs = of_role(&all, "policy_input");
        let inputs = inputs.iter().map(|body| serde_json::from_str::<Value>(body).unwrap());
        let hidden = inputs.filter(|input| {
            let args = &input["args"];
            is_digest(&args["tools"]) && dialect.beside().is_none_or(|name| is_digest(&args[name]))
        });
        assert_eq!(hidden.count(), TURNS - 1, "{}", dialect.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn evidence_has_the_instructions_beside_a_conversation_and_decides_the_same_again() {
    let prompt = text(5000, 2000);
    let mut gate = pinning(&prompt).await;
    let (mut run, mut beside) = (String::new(), Vec::new());
    let beside_it = ALL.into_iter().filter_map(|dialect| Some((dialect, dialect.beside()?)));
    for (dialect, name) in beside_it {
        let mut conversation = Vec::new();
        for turn in 0..2 {
            conversation.push(dialect.question(&text(turn, 100)));
            gate.provider.answers(Answer::json(200, &dialect.whole("yes", &[])));
            let request = dialect.long(&conversation, &prompt, false);
            let reply = gate.asks(dialect, &request).await;
            assert_eq!(reply.status, 200, "{} {turn}: {reply:?}", dialect.name);
            run = reply.header("wicketgate-run").expect("the run").to_owned();
            conversation.push(dialect.echoed("yes"));
            beside.push((name, request[name].clone()));
        }
    }
    gate.sidecar.stop().await;
    let (verdict, transcript) = evidence(&gate.estate, &run, "shown");
    for check in ["P1", "P5", "V1"] {
        assert_eq!(outcome(&verdict, check)["outcome"], "VALID", "{check}: {verdict}");
    }
    let steps = transcript["steps"].as_array().unwrap();
    assert_eq!(steps.len(), beside.len());
    for (step, (name, sent)) in steps.iter().zip(&beside) {
        let shown = &step["conversation"][*name];
        assert_eq!((&shown["state"], &shown["json"]), (&json!("opened"), sent), "{step}");
    }
}
