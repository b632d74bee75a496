//! Model SDKs, agent frameworks and coding agents nobody here wrote, against a scripted provider: directly, and through
//! the gate. What they deliver is the same, but for the denials.

mod coding;
mod gate;
mod grave;
mod play;
mod provider;
mod stopped;

use std::collections::BTreeMap;
use std::process::Command;

use wicketgate_support::program::top;

use crate::{home, process};

use self::gate::{ModelGate, Offer};
use self::play::{Play, Player, Scenarios, Through};
use self::provider::Provider;

/// The scenarios that are played through the gate too, by their names in `scenarios.json` and `programs.json`.
const THROUGH: &[&str] = &[
    "text",
    "text_stream",
    "framing",
    "tools",
    "tools_stream",
    "parallel",
    "parallel_stream",
    "structured",
    "structured_stream",
    "error",
    "rate_limit",
    "cut",
    "no_end",
    "stream_error",
    "denied",
    "denied_stream",
    "denied_known",
    "tool",
    "governed",
    "cut_tool",
    "searched",
    "held",
    "governed_held",
    "spent",
    "unavailable",
    "prompted",
    "grave",
    "coding",
];

/// SDKs and frameworks, each with the dialects it speaks.
const LIBRARIES: [Player; 8] = [
    Player::library("sdk_openai.py", "chat,responses"),
    Player::library("sdk_anthropic.py", "messages"),
    Player::library("sdk_vercel.mjs", "chat,responses,compatible,messages"),
    Player::library("sdk_gemini.py", "gemini"),
    Player::library("sdk_ollama.py", "ollama"),
    Player::library("agent_openai.py", "chat,responses"),
    Player::library("agent_pydantic.py", "chat,responses,messages"),
    Player::library("agent_langchain.py", "chat,responses,messages"),
];

/// Coding agents. One run of opencode costs as much as five of the others, so it plays fewer scenarios. `spent` uses up the
/// budget of a program's run, so it comes last.
const PROGRAMS: [(Player, &[&str]); 3] = [
    (
        Player::program("claude"),
        &[
            "text",
            "tool",
            "denied",
            "governed",
            "searched",
            "error",
            "rate_limit",
            "cut_tool",
            "held",
            "governed_held",
            "spent",
        ],
    ),
    (
        Player::program("codex"),
        &[
            "text",
            "tool",
            "denied",
            "governed",
            "error",
            "rate_limit",
            "cut_tool",
            "held",
            "governed_held",
            "spent",
        ],
    ),
    (Player::program("opencode"), &["tool", "denied", "governed", "held"]),
];

/// Every play of some players, with the gate's beside them if there is one.
struct Comparison {
    provider: Provider,
    gate: Option<ModelGate>,
    scenarios: Scenarios,
}

impl Comparison {
    fn new(file: &str, offer: &Offer) -> Self {
        let (provider, scenarios) = (Provider::start(), Scenarios::read(file));
        let through = THROUGH.iter().any(|name| scenarios.has(name));
        let gate = through.then(|| ModelGate::serve(&provider, offer));
        Self { provider, gate, scenarios }
    }

    /// Plays, and compares each play through the gate with the one before it.
    fn run(&self, player: &Player, names: &[&str]) {
        let gate = self.gate.as_ref();
        let through = gate.map(|gate| Through { gate, names: THROUGH, home: None, pin: None });
        let plays = player.play(names, &self.provider, through);
        let mut direct: BTreeMap<(String, String), Play> = BTreeMap::new();
        for play in plays {
            let (who, key) = (play.who(), play.key());
            if let Some(direct) = direct.get(&key) {
                let compared = self.scenarios.compare(direct, &play);
                assert_eq!(compared, Ok(()), "{who}: {direct:?} {play:?}");
            } else {
                self.scenarios.delivers(&play, &who);
                direct.insert(key, play);
            }
        }
        let dialects = player.dialects();
        assert_eq!(
            direct.len(),
            names.len() * dialects,
            "{player:?}: not every scenario was played"
        );
    }

    fn finish(self) {
        if let Some(gate) = self.gate {
            gate.finish();
        }
    }
}

#[test]
fn the_scripted_provider_answers_breaks_and_keeps_what_its_script_says() {
    let mut command = Command::new(home::llm().join("python/bin/python"));
    command.arg("-B").arg(top().join("tests/agents/llm/test_provider.py"));
    let (ok, _, err) = process::run(command);
    assert!(ok, "{err}");
}

/// Eight libraries play 17 scenarios in 17 dialects: most of the time is theirs to load.
#[test]
fn model_sdks_and_frameworks_deliver_through_the_gate_what_they_deliver_without_it() {
    let comparison = Comparison::new("scenarios.json", &Offer::library());
    let names = comparison.scenarios.names();
    for player in &LIBRARIES {
        comparison.run(player, &names);
    }
    comparison.finish();
}

/// Three programs are started 45 times, and some of them wait a second before they ask again.
#[test]
fn coding_agents_do_through_the_gate_what_they_do_without_it_but_for_what_is_denied() {
    let comparison = Comparison::new("programs.json", &Offer::program());
    for (player, names) in &PROGRAMS {
        if player.runs_here() {
            comparison.run(player, names);
        } else {
            eprintln!("not tested here: {player:?} has no package for this machine");
        }
    }
    comparison.finish();
}
