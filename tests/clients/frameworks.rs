//! Agents of real frameworks, whose model is scripted: they read, are denied, wait for a person, and go on.

use std::process::Command;

use serde_json::{Value, json};
use wicketgate_support::program::top;

use crate::files::Files;
use crate::gate::{Gate, Offer};
use crate::process::Process;
use crate::program::{clean, play, python, script};

/// What the model reads of its three calls.
const PARTS: [&str; 3] = ["water the plants", "payroll is not for agents", "held-"];

/// The scripted provider of `tests/agents`, gone with the test.
pub struct Provider {
    _process: Process,
    pub url: String,
}

impl Provider {
    #[track_caller]
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// With these options of its own.
    #[track_caller]
    pub fn start_with(options: &[&str]) -> Self {
        let mut command = clean(python());
        command.arg(top().join("tests/agents/llm/provider.py")).args(options);
        let process = Process::start(command);
        let url = process.read("its address", |line| {
            let line: Value = serde_json::from_str(line).ok()?;
            Some(line["url"].as_str()?.to_owned())
        });
        Self { _process: process, url }
    }
}

/// One agent ran to its end: every result reached its model, and the denial ended nothing.
#[track_caller]
pub fn goes_on(gate: &Gate, mut command: Command, provider: &Provider) -> Value {
    command.env("WICKETGATE_LLM_PROVIDER", &provider.url);
    let said = play(gate, command);
    assert_eq!(said["final"], "Done.", "{said}");
    let results = said["results"].as_array().unwrap();
    assert_eq!(results.len(), PARTS.len(), "{said}");
    for (result, part) in results.iter().zip(PARTS) {
        assert!(result.as_str().unwrap().contains(part), "`{part}` is not in {said}");
    }
    let denial = results[1].as_str().unwrap();
    for part in ["policy.denied", "agent/main.rego:9", "did not run", "continue without it"] {
        assert!(denial.contains(part), "`{part}` is not in {denial}");
    }
    // With `raises`, the denial is the program's to handle.
    assert_eq!(said["raised"], json!("policy.denied"), "{said}");
    said
}

/// The agent's T3 call ran, because the gate saw its model ask for it: a call that the model did not ask for was denied.
#[track_caller]
pub fn is_observed(said: &Value) {
    assert_eq!(said["alone"], "tier3_binding", "{said}");
}

/// A gate through which the agents ask their model.
#[track_caller]
pub fn observing(provider: &Provider) -> Gate {
    let offer = Offer { provider: Some(provider.url.clone()), ..Offer::default() };
    Gate::start_with(Files::new(), &offer)
}

#[test]
fn a_call_of_tier_3_runs_once_the_gate_saw_the_model_of_a_framework_ask_for_it() {
    let provider = Provider::start();
    let gate = observing(&provider);
    for framework in ["openai_agents", "pydantic_ai", "langchain"] {
        let mut command = script(&gate, "framework.py");
        command.args([framework, "observed"]);
        is_observed(&goes_on(&gate, command, &provider));
    }
    gate.finish();
}

#[test]
fn agents_of_three_python_frameworks_go_on_from_a_denial_and_wait_for_an_approval() {
    let (gate, provider) = (Gate::start(), Provider::start());
    for framework in ["openai_agents", "pydantic_ai", "langchain"] {
        let mut command = script(&gate, "framework.py");
        command.arg(framework);
        goes_on(&gate, command, &provider);
    }
    let tail = gate.tail();
    for kind in ["call.denied", "call.held", "approval.granted"] {
        assert!(tail.matches(kind).count() >= 3, "{kind}: {tail}");
    }
    gate.finish();
}
