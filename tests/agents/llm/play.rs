//! Clients as processes, and what they printed of each scenario.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use wicketgate_support::process;
use wicketgate_support::program::top;

use crate::home;

use super::gate::{ModelGate, RULE, TOKEN};
use super::provider::Provider;

/// What plays the coding agents.
const PROGRAMS: &str = "programs.py";

/// One program of `llm/clients`, which plays scenarios.
#[derive(Clone, Copy, Debug)]
pub struct Player {
    script: &'static str,
    /// Its first argument: the dialects of a library, the name of a coding agent.
    first: &'static str,
}

/// The gate's way of some scenarios.
#[derive(Clone, Copy)]
pub struct Through<'a> {
    pub gate: &'a ModelGate,
    /// The scenarios that are played through it.
    pub names: &'a [&'a str],
    /// A home that stays, for a program whose instructions have to be the same every time.
    pub home: Option<&'a Path>,
    /// Where the templates of the instructions go that the gate has to know, if somebody asks for them.
    pub pin: Option<&'a Path>,
}

/// One line that a player printed: what one scenario came to.
#[derive(Clone, Debug)]
pub struct Play(pub Value);

/// A file of scenarios.
pub struct Scenarios(Value);

impl Player {
    pub const fn library(script: &'static str, dialects: &'static str) -> Self {
        Self { script, first: dialects }
    }

    pub const fn program(name: &'static str) -> Self {
        Self { script: PROGRAMS, first: name }
    }

    pub fn dialects(&self) -> usize {
        self.first.split(',').count()
    }

    /// Whether the package of a coding agent exists for this machine.
    pub fn runs_here(&self) -> bool {
        self.first != "opencode" || cfg!(target_arch = "x86_64")
    }

    /// The name of the run that its model calls and its MCP calls belong to. A run has one budget.
    fn run(&self) -> &'static str {
        if self.script == PROGRAMS { self.first } else { self.script }
    }

    /// Plays these scenarios against the provider, and those of `through` through the gate.
    #[track_caller]
    pub fn play(
        &self,
        names: &[&str],
        provider: &Provider,
        through: Option<Through<'_>>,
    ) -> Vec<Play> {
        let (packages, temporary) = (home::llm(), std::env::temp_dir());
        let node = self.script.ends_with(".mjs");
        let program = if node { home::node() } else { packages.join("python/bin/python") };
        let mut command = Command::new(program);
        command
            .arg(top().join("tests/agents/llm/clients").join(self.script))
            .arg(self.first)
            .args(names)
            // No tokens or proxies of the user who runs the tests.
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &temporary)
            .env("TMPDIR", &temporary)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("WICKETGATE_TEST_LLM", packages)
            .env("WICKETGATE_TEST_MCP", home::home())
            .env("WICKETGATE_LLM_PROVIDER", &provider.url)
            .env("WICKETGATE_LLM_KEY", TOKEN)
            .envs(std::env::var_os("WICKETGATE_TEST_RUN").map(|run| ("WICKETGATE_TEST_RUN", run)));
        if let Some(Through { gate, names, home, pin }) = through {
            command
                .env("WICKETGATE_LLM_GATE", gate.models(self.run()))
                .env("WICKETGATE_LLM_MCP", gate.tools(self.run()))
                .env("WICKETGATE_LLM_THROUGH", names.join(","))
                .envs(home.map(|home| ("WICKETGATE_LLM_HOME", home)))
                .envs(pin.map(|pin| ("WICKETGATE_LLM_PIN", pin)));
        }
        let (ok, out, err) = process::run(command);
        assert!(ok, "{self:?}: {out}{err}");
        let line = |line: &str| serde_json::from_str(line).ok().map(Play);
        out.lines().filter_map(line).collect()
    }
}

impl Play {
    /// What failures are named by.
    pub fn who(&self) -> String {
        let part = |name: &str| self.0[name].as_str().unwrap().to_owned();
        format!("{} {} {} {}", part("client"), part("dialect"), part("scenario"), part("way"))
    }

    /// What the two ways of one scenario have in common.
    pub fn key(&self) -> (String, String) {
        let part = |name: &str| self.0[name].as_str().unwrap().to_owned();
        (part("dialect"), part("scenario"))
    }

    fn text(&self) -> &str {
        self.0["text"].as_str().unwrap_or_default()
    }

    fn failed(&self) -> bool {
        !self.0["error"].is_null()
    }

    /// It stops at tools it does not know, so a denial ends its run: `openai-agents` does.
    fn stops_at_denials(&self) -> bool {
        let agents = self.0["client"].as_str().unwrap().starts_with("openai-agents");
        agents && self.0["scenario"].as_str().unwrap() != "denied_known"
    }
}

impl Scenarios {
    #[track_caller]
    pub fn read(file: &str) -> Self {
        let path = top().join("tests/agents/llm").join(file);
        Self(serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
    }

    pub fn names(&self) -> Vec<&str> {
        self.0.as_object().unwrap().keys().map(String::as_str).collect()
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    fn of(&self, play: &Play) -> &Value {
        &self.0[play.0["scenario"].as_str().unwrap()]
    }

    /// Without the gate, or with it where there is no other way, a client delivers what the scenario says.
    #[track_caller]
    pub fn delivers(&self, play: &Play, who: &str) {
        let scenario = self.of(play);
        if scenario["through"] == "denied" && play.stops_at_denials() {
            assert!(play.failed(), "{who}: {play:?}");
            return;
        }
        let delivers = scenario["delivers"].as_object().unwrap();
        for (name, expected) in delivers.iter().filter(|(name, _)| *name != "fails") {
            assert_eq!(&play.0[name], expected, "{who}: {name}: {play:?}");
        }
        let (fails, open) = (delivers.get("fails"), delivers.is_empty());
        assert!(open || play.failed() == fails.is_some(), "{who}: {play:?}");
        if let Some(why) = fails.and_then(Value::as_str) {
            assert!(play.0["error"].to_string().contains(why), "{who}: no `{why}`: {play:?}");
        }
    }

    /// Through the gate, it delivers the same, a failure, or a denial; what is wrong if it does not.
    #[track_caller]
    pub fn compare(&self, direct: &Play, governed: &Play) -> Result<(), String> {
        match self.of(direct)["through"].as_str().unwrap_or_default() {
            "same" => same(direct, governed, &SAME),
            "fails" => fails(direct, governed),
            "denied" => {
                denied(direct, governed, self.of(direct)["shown"].as_str().unwrap_or(DENIED))
            }
            other => Err(format!("`through` is same, fails or denied, not {other}")),
        }
    }
}

/// What does not differ between the two ways. A tool of the gate's MCP face has another name, so the `tools` of coding agents
/// are counted, and none is a denial.
const SAME: [&str; 8] =
    ["text", "requests", "results", "structured", "stop", "error", "files", "exit"];

/// The code of what a policy denies.
const DENIED: &str = "policy.denied";

fn ensure(so: bool, what: &str) -> Result<(), String> {
    if so { Ok(()) } else { Err(what.to_owned()) }
}

fn same(direct: &Play, governed: &Play, members: &[&str]) -> Result<(), String> {
    for name in members {
        ensure(direct.0[*name] == governed.0[*name], name)?;
    }
    if members != SAME.as_slice() {
        return Ok(());
    }
    if direct.0.get("files").is_none() {
        return ensure(direct.0["tools"] == governed.0["tools"], "tools");
    }
    let names = |play: &Play| play.0["tools"].as_array().cloned().unwrap_or_default();
    ensure(names(direct).len() == names(governed).len(), "tools")?;
    ensure(!names(governed).contains(&json!("wicketgate_denied")), "a denial")
}

/// Never a clean end, nothing that the provider did not send, and an error that says what the gate made of it.
fn fails(direct: &Play, governed: &Play) -> Result<(), String> {
    ensure(governed.failed(), "a clean end")?;
    ensure(governed.0["error"].to_string().contains("tool.failed"), "no reason")?;
    ensure(direct.text().starts_with(governed.text()), "a text that was not sent")?;
    same(direct, governed, &["files"])
}

/// The client gets a call that names the denial, and goes on or ends as it does at every tool it does not know; the model
/// gets its own call back, with the reason, which has these words.
fn denied(direct: &Play, governed: &Play, shown: &str) -> Result<(), String> {
    same(direct, governed, &["text", "requests", "stop", "files", "exit"])?;
    ensure(direct.failed() == governed.failed(), "error")?;
    let call = &governed.0["tools"][0];
    // Coding agents print names only.
    if let Some(arguments) = call["arguments"].as_str() {
        ensure(call["name"] == "wicketgate_denied", "the name of the call")?;
        for part in [DENIED, RULE] {
            ensure(arguments.contains(part), &format!("`{part}` in the call's arguments"))?;
        }
    }
    let restored = governed.0["upstream"] == json!([shown]);
    ensure(governed.failed() || restored, "what the model was shown")
}

/// A play as a library prints it.
fn sample(change: impl FnOnce(&mut Value)) -> Play {
    let mut play = json!({"client": "sdk 1", "dialect": "chat", "scenario": "s", "way": "direct", "requests": 2,
        "text": "one two", "results": [], "structured": null, "stop": "stop", "error": null, "upstream": ["policy.denied"],
        "tools": [{"name": "wicketgate_denied", "arguments": format!("policy.denied {RULE}")}]});
    change(&mut play);
    Play(play)
}

#[test]
fn every_difference_between_the_two_ways_is_found() {
    let scenarios = |through: &str| Scenarios(json!({"s": {"through": through}}));
    let wrong = |through: &str, change: &dyn Fn(&mut Value)| {
        let compared = scenarios(through).compare(&sample(|_| ()), &sample(change));
        compared.err().unwrap_or_default()
    };
    for name in ["text", "requests", "results", "structured", "stop", "error", "tools"] {
        assert_eq!(wrong("same", &|play| play[name] = json!("other")), name);
    }
    assert_eq!(wrong("same", &|_| ()), "");
    let coding = |tools: Value| {
        let of = |tools: Value| {
            sample(|play| {
                play["files"] = json!([]);
                play["tools"] = tools;
            })
        };
        scenarios("same").compare(&of(json!(["echo"])), &of(tools)).err().unwrap_or_default()
    };
    assert_eq!(coding(json!(["everything.echo"])), "");
    assert_eq!(coding(json!(["wicketgate_denied"])), "a denial");
    assert_eq!(coding(json!([])), "tools");
    assert_eq!(wrong("fails", &|_| ()), "a clean end");
    assert_eq!(wrong("fails", &|play| play["error"] = json!({})), "no reason");
    let failed = |text: &str| {
        wrong("fails", &|play| {
            play["error"] = json!({"message": "the tool failed (code tool.failed)"});
            play["text"] = json!(text);
        })
    };
    assert_eq!(
        (failed("one").as_str(), failed("three").as_str()),
        ("", "a text that was not sent")
    );
    assert_eq!(wrong("denied", &|_| ()), "");
    let shown = json!(["policy.denied", "wicketgate_denied"]);
    for (name, value, what) in [
        ("stop", json!("tool_calls"), "stop"),
        ("error", json!({}), "error"),
        ("tools", json!([{"name": "write", "arguments": ""}]), "the name of the call"),
        (
            "tools",
            json!([{"name": "wicketgate_denied", "arguments": "policy.denied"}]),
            "arguments",
        ),
        ("upstream", shown, "what the model was shown"),
        ("upstream", json!([]), "what the model was shown"),
    ] {
        let found = wrong("denied", &|play| play[name] = value.clone());
        assert!(found.contains(what), "{name}: {found}");
    }
}
