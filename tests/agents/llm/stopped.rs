//! Coding agents at a gate whose ledger is gone: nothing reaches the provider, and they end with the reason.

use serde_json::json;
use wicketgate_support::pg::{Pg, TestDb};

use super::gate::{ModelGate, Offer};
use super::play::{Player, Scenarios, Through};
use super::provider::Provider;

/// opencode is not among them: it repeats a request that cannot be served for more than a minute.
const PROGRAMS: [Player; 2] = [Player::program("claude"), Player::program("codex")];

#[test]
fn without_a_ledger_coding_agents_get_no_answer_and_with_it_they_do_again() {
    let provider = Provider::start();
    let pg = Pg::own_cluster();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let TestDb { writer_url, .. } = runtime.block_on(pg.database());
    let ledger = json!({"postgres": {"url": writer_url, "slots": "local"}});
    let gate = ModelGate::serve(&provider, &Offer::on(ledger));
    let scenarios = Scenarios::read("programs.json");
    let plays = |name: &str| {
        for player in &PROGRAMS {
            let through = Through { gate: &gate, names: &[name], home: None, pin: None };
            let plays = player.play(&[name], &provider, Some(through));
            assert_eq!(plays.len(), 1, "{player:?}");
            scenarios.delivers(&plays[0], &plays[0].who());
        }
    };
    plays("prompted");
    pg.stop_immediate();
    let state = |line: &str, ready: &str| line.contains("readiness") && line.contains(ready);
    gate.process.hear("that it is not ready", |line| state(line, "false").then_some(()));
    plays("unavailable");
    pg.start();
    gate.process.hear("that it is ready again", |line| state(line, "true").then_some(()));
    plays("prompted");
    gate.finish();
}
