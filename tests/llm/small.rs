//! The managed loop with a small real model, SmolLM2 with 135 million parameters, behind the server of llama.cpp.
//!
//! What such a model says is its own: a test asks more than once, holds the gate to its promise about every answer, and asks
//! that each way to answer came up. Both tests wait for the model, which takes a second for an answer and several on a busy machine.

use std::process::Command;

use serde_json::{Value, json};

use crate::gate::INSTRUCTIONS;
use crate::replayed::{Recorder, printed};
use crate::wire::Reply;
use wicketgate_support::home;
use wicketgate_support::process::Process;
use wicketgate_support::program::top;

const PATH: &str = "/managed/v1/chat/completions";
/// Tokens of one answer; a small model may go on for ever.
const TOKENS_MAX: u32 = 60;

/// The server with its model.
struct SmallModel {
    _server: Process,
    url: String,
}

impl SmallModel {
    fn start() -> Self {
        let mut command = Command::new(home::llm().join("small/bin/python"));
        command.arg("-B").arg(top().join("tests/llm/small.py"));
        let server = Process::start(command);
        let url = server.read("its address", |line| line.strip_prefix("at ").map(str::to_owned));
        Self { _server: server, url }
    }

    /// A gate in front of it that records, and offers one tool as `how` says.
    async fn recorder(&self, how: &str) -> Recorder {
        Recorder::start_with(|config| {
            config["agents"][0]["model"] =
                json!({"managed": {"tools": ["work.do"], "iterations_max": 3, "text_tools": how}});
            crate::managed::as_text(config);
            let tools = config["tools"].as_array_mut().unwrap();
            for tool in tools {
                if tool["name"] == "llm.main" {
                    tool["model"]["upstreams"][0]["url"] = json!(format!("{}/v1", self.url));
                }
                if tool["name"] == "work.do" {
                    tool["description"] = json!("does work; n says how often");
                    tool["input_schema"] = json!({"type": "object", "properties": {"n": {"type": "integer"}},
                        "required": ["n"], "additionalProperties": false});
                }
            }
        })
        .await
    }
}

/// A request with these messages. The same request gives the same answer: nothing is drawn by lot.
fn request(said: &[Value]) -> Value {
    let system = [json!({"role": "system", "content": INSTRUCTIONS})];
    let messages: Vec<&Value> = system.iter().chain(said).collect();
    json!({"model": "small", "stream": false, "max_tokens": TOKENS_MAX, "temperature": 0, "seed": 1, "messages": messages})
}

fn says(role: &str, content: &str) -> Value {
    json!({"role": role, "content": content})
}

fn block(n: u32) -> String {
    format!("```tool_call\n{{\"tool\": \"work__do\", \"arguments\": {{\"n\": {n}}}}}\n```")
}

/// A conversation in which the model has called the tool some times, and is to do so again.
fn after_calls(times: u32) -> Vec<Value> {
    let result = "```tool_result\n{\"tool\":\"work__do\",\"result\":{\"done\":true}}\n```";
    let ask = |n: u32| says("user", &format!("Call work__do with n = {n}."));
    let turn = |n: u32| {
        [ask(n), says("assistant", &block(n)), says("user", result), says("assistant", "Done.")]
    };
    (1..=times).flat_map(turn).chain([ask(times + 1)]).collect()
}

fn read(reply: &Reply) -> Value {
    assert_eq!(reply.status, 200, "{reply:?}");
    serde_json::from_str(&reply.body).unwrap()
}

fn used(answer: &Value) -> &[Value] {
    answer["trace"]["tools_used"].as_array().unwrap()
}

fn text(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap_or_default()
}

/// Asks all of these; whatever was answered, the ledger has it and it plays the same without the model.
async fn asked(how: &str, conversations: &[Vec<Value>]) -> Vec<Value> {
    let model = SmallModel::start();
    let mut recorder = model.recorder(how).await;
    let mut answers = Vec::new();
    for said in conversations {
        answers.push(read(&recorder.asks_model(PATH, &request(said)).await));
    }
    let ran = answers.iter().flat_map(used).filter(|one| one["code"] == "").count();
    assert_eq!(recorder.gate.tool.count() as usize, ran, "{answers:?}");
    for one in answers.iter().flat_map(used) {
        assert_eq!(one["name"], "work.do", "{one}");
    }
    recorder.recorded().await;
    drop(model);
    let again = recorder.replays(&[], &recorder.asked).ok();
    assert!(again.err.contains("no drift"), "{again:?}");
    for (recorded, (status, _, body)) in answers.iter().zip(printed(&again.out)) {
        let played: Value = serde_json::from_str(&body).unwrap();
        assert_eq!((status, &played["choices"]), (200, &recorded["choices"]), "{recorded}");
    }
    assert_eq!(recorder.gate.tool.count() as usize, ran, "a replay ran a tool");
    answers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_model_that_is_held_to_the_schema_calls_the_tool_or_answers_with_text() {
    let questions = ["Call the tool work__do with n = 3.", "What is 2+2?"];
    let answers = asked("schema", &questions.map(|text| vec![says("user", text)])).await;
    let calls: Vec<&Value> = answers.iter().flat_map(used).collect();
    assert!(calls.iter().any(|one| one["code"] == ""), "no tool ran: {answers:?}");
    let texts: Vec<&str> =
        answers.iter().filter(|answer| answer["trace"]["stopped"] == "end").map(text).collect();
    assert!(texts.iter().any(|text| !text.is_empty()), "no text: {answers:?}");
    // The agent reads the text, and nothing of the form that it came in.
    for text in texts {
        assert!(!text.contains("tool_call") && !text.starts_with('{'), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_of_a_small_model_runs_the_tool_and_everything_else_it_writes_is_text() {
    let conversations = [after_calls(3), vec![says("user", "What is 2+2?")]];
    let answers = asked("auto", &conversations).await;
    assert!(answers.iter().flat_map(used).any(|one| one["code"] == ""), "no tool: {answers:?}");
    assert!(used(&answers[1]).is_empty() && !text(&answers[1]).is_empty(), "{}", answers[1]);
}
