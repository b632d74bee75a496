//! A tool of tier T3 with coding agents, from end to end: it runs because the gate saw the model ask for exactly that and
//! two people approved. The same call without the model is denied, and the evidence shows both.

use std::path::Path;

use serde_json::{Value, json};
use wicketgate_support::files::Files;
use wicketgate_support::people::People;

use super::gate::{ModelGate, Offer, TOKEN};
use super::play::{Play, Player, Through};
use super::provider::Provider;
use crate::client::{CLIENTS, Way};

/// What the model asks for, as in `programs.json`.
const NOTE: &str = "pay 250 to C-1042";

/// A coding agent with a home of its own, and everything around it.
struct Case {
    player: Player,
    run: &'static str,
    home: tempfile::TempDir,
    provider: Provider,
    people: People,
}

impl Case {
    fn of(name: &'static str) -> Self {
        Self {
            player: Player::program(name),
            run: name,
            home: tempfile::tempdir().unwrap(),
            provider: Provider::start(),
            people: People::new(),
        }
    }

    /// One scenario through this gate.
    #[track_caller]
    fn plays(&self, gate: &ModelGate, name: &str, pin: Option<&Path>) -> Play {
        let through = Through { gate, names: &[name], home: Some(self.home.path()), pin };
        let mut plays = self.player.play(&[name], &self.provider, Some(through));
        assert_eq!(plays.len(), 1, "{name}");
        plays.pop().unwrap()
    }

    /// The entries of a manifest that the program's instructions match, their templates in these files: they are read
    /// from what a gate that demands none let pass.
    fn instructions(&self, files: &Files) -> Value {
        let gate = ModelGate::serve(&self.provider, &Offer::grave(json!([]), &self.people));
        files.write("templates/.keep", "");
        let play = self.plays(&gate, "prompted", Some(&files.path("templates")));
        gate.finish();
        let entries = play.0["instructions"].clone();
        assert!(entries.as_array().is_some_and(|entries| !entries.is_empty()), "{play:?}");
        entries
    }

    /// The same call by an MCP client that has no model, in the same run.
    #[track_caller]
    fn calls_without_a_model(&self, gate: &ModelGate) -> String {
        let client = CLIENTS.iter().find(|client| client.script == "sdk_python_2").unwrap();
        let arguments = json!({"path": "note.txt", "content": NOTE});
        let url = gate.tools(self.run);
        let facts = client.play(&Way::Http(&url, TOKEN), "auto", &[("notes.write", arguments)]);
        facts.text(0).to_owned()
    }

    /// The call that is held.
    fn held(&self, gate: &ModelGate) -> (String, String) {
        let url = gate.process.operator_url();
        let (code, listed) = self.people.types("ada", &url, &["approval", "list", "--json"]);
        assert_eq!(code, Some(0), "{listed}");
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let held = listed["held"].as_array().unwrap();
        assert_eq!(held.len(), 1, "{listed}");
        let text = |name: &str| held[0][name].as_str().unwrap().to_owned();
        (text("run"), text("call"))
    }
}

/// The evidence of one run: exported, verified by an auditor who makes every decision again, and read.
#[track_caller]
fn evidence(files: &Files, people: &People, run: &str) -> (Value, Value) {
    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--run", run];
    files.run(&[&export[..], &["--out", "exported"]].concat());
    let policy = files.run(&["policy", "check", "bundle"]);
    let digest = policy.split_whitespace().find(|word| word.starts_with("sha256:")).unwrap();
    let list = people.path("list.pem.pub").display().to_string();
    let trust = format!(
        "evidence-key evidence.pub\nmanifest-key manifest.pub\nenrolment-key state/enrolment.key.pub\n\
         approvers {list}\npolicy {digest}\n"
    );
    files.write("trust.txt", trust);
    let verify = ["evidence", "verify", "--trust", "trust.txt", "--replay", "--run", run];
    let report = files.try_run(&[&verify[..], &["exported"]].concat()).ok();
    let report = report.says("2 approvals and 0 refusals by 2 people; 1 call released");
    assert!(report.out.lines().any(|line| line == "VALID, level L1"), "{report:?}");
    (files.read_json("exported/agent_run.json"), files.read_json("exported/decision.json"))
}

/// The call without a model was denied; the other names the call of the model that asked for it.
#[track_caller]
fn shows_both(run: &Value, decisions: &Value) {
    let steps = run["steps"].as_array().unwrap();
    let writes: Vec<&Value> = steps.iter().filter(|step| step["tool"] == "notes.write").collect();
    let [alone, asked] = writes[..] else { panic!("{writes:?}") };
    assert_eq!((&alone["verdict"], &alone["proposed_by"]), (&json!("deny"), &Value::Null));
    assert_eq!(alone["outcome"], "call.denied", "{alone}");
    assert_eq!(asked["outcome"], "call.completed", "{asked}");
    let model = steps.iter().find(|step| step["call"] == asked["proposed_by"]).unwrap();
    assert_eq!(model["tool"], "llm.main");
    assert!(model["answer"]["messages"].to_string().contains(NOTE), "{model}");
    let of = |step: &Value| -> Vec<Value> {
        let all = decisions["decisions"].as_array().unwrap().iter();
        all.filter(|decision| decision["call"] == step["call"]).cloned().collect()
    };
    let (alone, asked, model) = (of(alone), of(asked), of(model));
    assert_eq!(alone[0]["decision"]["reasons"][0]["detail"], "tier3_binding", "{alone:?}");
    let verdicts: Vec<&Value> = asked.iter().map(|one| &one["verdict"]).collect();
    assert_eq!(verdicts, [&json!("require_approval"), &json!("allow")]);
    for decision in asked.iter().chain(&model) {
        assert_eq!(decision["decision"]["binding"], "observed", "{decision}");
    }
}

#[track_caller]
fn a_grave_tool_runs(name: &'static str) {
    let case = Case::of(name);
    let files = Files::new();
    let offer = Offer::grave(case.instructions(&files), &case.people);
    let gate = ModelGate::serve_with(files, &case.provider, &offer);
    let note = gate.files.path("notes/note.txt");

    let alone = case.calls_without_a_model(&gate);
    assert!(alone.contains("tier3_binding"), "{alone}");

    let first = case.plays(&gate, "grave", None);
    assert_eq!(first.0["text"], "Two people have to look first.", "{first:?}");
    assert!(!note.exists(), "it ran before anybody looked");
    let (run, call) = case.held(&gate);
    for who in ["ada", "grace"] {
        let url = gate.process.operator_url();
        let (code, said) = case.people.says(who, "approve", &url, (&run, &call));
        assert_eq!(code, Some(0), "{said}");
    }
    // The model asks for the same again, and gets the answer of the call that was held.
    let second = case.plays(&gate, "grave", None);
    assert_eq!(second.0["text"], "It is written.", "{second:?}");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), NOTE);

    let ModelGate { process, files } = gate;
    process.finish();
    let (run, decisions) = evidence(&files, &case.people, &run);
    shows_both(&run, &decisions);
}

#[test]
fn claude_code_runs_a_grave_tool_that_its_model_asked_for_and_two_people_approved() {
    a_grave_tool_runs("claude");
}

#[test]
fn codex_runs_a_grave_tool_that_its_model_asked_for_and_two_people_approved() {
    a_grave_tool_runs("codex");
}
