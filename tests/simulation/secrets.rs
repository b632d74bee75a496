//! Secrets that a seed makes, in arguments and in answers, whatever the gate does about them and whenever its process
//! dies: no stored byte holds one. What only looks like one is stored as it is.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use wicketgate::domain::call::ToolCall;
use wicketgate::domain::decision::LayerReason;
use wicketgate::domain::effect::Effect;
use wicketgate::domain::guarded::GuardAction;
use wicketgate::domain::outcome::{AnswerContent, Unmasked};
use wicketgate::enforce::{AgentsUpdate, CallRequest, Thread};
use wicketgate::judge::guarding::{ClassActions, FindingMarks, ToolGuard};
use wicketgate::judge::prepared::PreparedResource;
use wicketgate::ledger::permit::Permit;
use wicketgate::tool::ToolExecutor;
use wicketgate::tool::guard::Guard;

use crate::approvals::say;
use crate::faults::Dice;
use crate::threads::on_a_good_day;
use crate::tools::toolbox;
use crate::world::{Life, World};

/// Answers with its arguments, and with a secret of its own.
struct Echo(String);

#[async_trait]
impl ToolExecutor for Echo {
    fn prepare(&self, _call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        Ok((Effect::None, Box::new(())))
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        let args: Value = serde_json::from_slice(permit.call().canonical()).unwrap();
        tokio::time::sleep(Duration::from_millis(args["ms"].as_u64().unwrap_or(0))).await;
        let result = json!({"said": args, "own": self.0}).to_string().into_bytes();
        Unmasked::Completed { result: AnswerContent::Text(result), status: "ok".into() }
    }
}

fn letters(dice: &mut Dice, count: usize) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    let mut one = || LETTERS[usize::try_from(dice.below(LETTERS.len() as u64)).unwrap()];
    (0..count).map(|_| char::from(one())).collect()
}

/// A secret: the text to send, and the part of it that nothing may hold. WHY in parts: none stands in this file.
fn secret(dice: &mut Dice) -> (String, String) {
    let body = letters(dice, 36);
    match dice.below(5) {
        0 => (format!("{}{body}", "ghp_"), body),
        1 => (format!("{}{}", "sk_live_", &body[..24]), body[..24].to_owned()),
        2 => {
            (format!("postgres://svc:{}@db.internal:5432/app", &body[..20]), body[..20].to_owned())
        }
        3 => (format!("Authorization: Bearer a1{body}"), body),
        _ => {
            let encoded = STANDARD.encode(format!("{}{body}", "ghp_"));
            // The first letters tell the prefix alone.
            let part = encoded[8..].trim_end_matches('=').to_owned();
            (encoded, part)
        }
    }
}

/// The gate of this life does this about secrets.
async fn guarded(life: &Life, (arguments, results): (GuardAction, GuardAction), own: &str) {
    let default = ToolGuard::default();
    let arguments = ClassActions { secret: arguments, ..default.arguments };
    let results = ClassActions { secret: results, ..default.results };
    let all = ToolGuard { arguments, results, ..default };
    let marks = FindingMarks::new(&[7; 32], "sim", true);
    let guard = Guard::new(all, std::collections::BTreeMap::new(), marks);
    let toolbox = toolbox(Echo(own.to_owned()), "a").guarded(guard);
    let update = AgentsUpdate { policy: None, toolbox, agents: None };
    life.road.change(update).await.unwrap();
}

/// Asks for a call, and gives up after a while.
async fn ask(world: &World, life: &Life, id: &str, args: &Value) -> Option<Result<String, String>> {
    let run = world.thread(life, &Thread::Caller).await.unwrap().unwrap();
    let request = CallRequest {
        tool: "t.read".into(),
        arguments: args.to_string().into_bytes(),
        call_id: id.to_owned(),
        ..CallRequest::default()
    };
    let answer = life.road.execute(&run, request);
    let answer = tokio::time::timeout(Duration::from_millis(150), answer).await.ok()?;
    if args["policy"] == "hold" && answer.is_err() {
        say(life, &run, id, "approve ann").await;
    }
    Some(match answer {
        Ok(done) => Ok(format!("{done:?}")),
        Err(fault) => Err(format!("{} {}", fault.code.as_str(), fault.detail)),
    })
}

async fn story(
    world: &Arc<World>,
    dice: &mut Dice,
    actions: (GuardAction, GuardAction),
    dies: u64,
) {
    let own = secret(dice);
    let calls: Vec<(String, Value, String)> = (0..8)
        .map(|n| {
            let (text, part) = secret(dice);
            let policy =
                ["allow", "allow", "deny", "hold"][usize::try_from(dice.below(4)).unwrap()];
            let pause = if dies == 1 { 400 } else { 0 };
            let args = match dice.below(3) {
                0 => json!({"policy": policy, "ms": pause, "say": format!("use {text} now")}),
                1 => json!({"policy": policy, "ms": pause, "deep": [{"x": text}]}),
                _ => json!({"policy": policy, "ms": pause, (text): 1}),
            };
            (format!("{}-{}-{dies}-{n}", actions.0.as_str(), actions.1.as_str()), args, part)
        })
        .collect();
    let mut life = world.start(true).await;
    guarded(&life, actions, &own.0).await;
    for (n, (id, args, _)) in calls.iter().enumerate() {
        ask(world, &life, id, args).await;
        if dies > 0 && n % 3 == 2 {
            life.dead.cancel();
            life = world.start(true).await;
            guarded(&life, actions, &own.0).await;
        }
    }
    // Each is asked for again, as an agent does that had no answer.
    for (id, args, _) in &calls {
        ask(world, &life, id, args).await;
    }
    // One letter that belongs to no such token stands behind it.
    let digits =
        (0..40).map(|_| char::from_digit(u32::try_from(dice.below(16)).unwrap(), 16).unwrap());
    let alike = format!("pul-{}q", digits.collect::<String>());
    let told =
        ask(world, &life, &format!("alike-{dies}"), &json!({"policy": "allow", "say": alike}))
            .await;
    // Where results are blocked, each answer is: the tool's own secret is in it.
    let is_withheld = matches!(&told, Some(Err(why)) if why == "tool.failed withheld");
    let ran = matches!(told, Some(Ok(_)));
    assert!(ran || actions.1 == GuardAction::Block && is_withheld, "{actions:?} {told:?}");
    life.dead.cancel();
    for (part, what) in
        calls.iter().map(|(id, _, part)| (part, id.as_str())).chain([(&own.1, "the tool's own")])
    {
        assert!(!world.memory.holds(part), "{actions:?}, dies {dies}: {what} is stored: {part}");
    }
    assert!(world.memory.holds(&alike), "what is no secret is stored");
}

#[test]
fn no_secret_is_in_any_stored_byte_whatever_the_gate_does_about_it_and_whenever_it_dies() {
    use GuardAction::{Block, Redact, Warn};
    for (seed, actions) in
        [(Block, Redact), (Redact, Redact), (Warn, Warn), (Warn, Block), (Redact, Warn)]
            .into_iter()
            .enumerate()
    {
        // It lives, it dies while a tool runs, it dies behind an answer.
        for dies in 0..3 {
            on_a_good_day(async move |world| {
                let mut dice = Dice::new(1 + seed as u64 * 3 + dies);
                story(&world, &mut dice, actions, dies).await;
            });
        }
    }
}
