//! Approvers: what they say of held calls, in the chaos of a seed and, one story at a time, on good days.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::sync::Notify;
use wicketgate::approval::approvers::Purpose;
use wicketgate::approval::proposal::Proposer;
use wicketgate::approval::{
    Approval, ApprovalRefusal, ApproverVerdict, MalformedStatement, RefusalReason, SignedApproval,
};
use wicketgate::domain::id::{CallId, RunId};
use wicketgate::enforce::{
    ApproverStatement, Bounds, CallParties, CallRequest, Checker, CountedApproval, Other, Parties,
    Run, Thread,
};
use wicketgate::ledger::hold::HeldCall;
use wicketgate::limits;
use wicketgate::limits::pool::{Lease, Per, Pool, PoolRequest, Pools, Unanswered, Unit};

use crate::checks::Link;
use crate::client::Known;
use crate::faults::Dice;
use crate::threads::on_a_good_day;
use crate::world::{HOLD, Life, World};

/// Believes whoever says `approve NAME` or `refuse NAME` in time.
#[derive(Debug)]
pub struct Words;

impl Checker for Words {
    fn check(
        &self,
        hold: &HeldCall,
        _parties: &Parties,
        said: &ApproverStatement<'_>,
    ) -> Result<CountedApproval, ApprovalRefusal> {
        if said.now >= hold.expires {
            let expired = RefusalReason::Expired("the hold", hold.expires);
            return Err(Purpose::Approval.refusal(expired));
        }
        let (word, name) = said.statement.split_once(' ').ok_or_else(malformed)?;
        let word = ApproverVerdict::parse(word).ok_or_else(malformed)?;
        let key = "SHA256:sim".into();
        let approval =
            Approval { subject: name.into(), roles: Vec::new(), key, key_kind: None, origin: None };
        Ok(CountedApproval { approval, verdict: word, signers: None, signature: "-".into() })
    }

    /// Believes whoever says `modify NAME`.
    fn propose(
        &self,
        _hold: &HeldCall,
        _parties: &Parties,
        said: &ApproverStatement<'_>,
        _arguments: &[u8],
    ) -> Result<Proposer, ApprovalRefusal> {
        let name = said.statement.strip_prefix("modify ").ok_or_else(malformed)?;
        let key = "SHA256:sim".into();
        let approval =
            Approval { subject: name.into(), roles: Vec::new(), key, key_kind: None, origin: None };
        let signed = SignedApproval { statement: said.statement.into(), signature: "-".into() };
        Ok(Proposer { approval, signers: None, signed: Some(signed) })
    }
}

fn malformed() -> ApprovalRefusal {
    Purpose::Approval.refusal(MalformedStatement::Object.into())
}

/// What an authorisation after a hold owes: the same call, the nonce of the hold, enough people.
pub fn burned(links: &[&Link]) -> Option<String> {
    let of = |kind: &str| links.iter().filter(|l| l.kind() == kind).collect::<Vec<_>>();
    let (held, authorized) = (of("call.held")[0], of("call.authorized")[0]);
    let (held, authorized) = (&held.json["data"], &authorized.json["data"]);
    for same in ["call_digest", "effect", "definition", "layers"] {
        if held[same] != authorized[same] {
            return Some(format!("`{same}` changed between hold and authorisation"));
        }
    }
    if authorized["approvals"] != json!([held["nonce"]]) {
        return Some("the authorisation does not use up the nonce of the hold".into());
    }
    let granted = of("approval.granted");
    let mut subjects: Vec<&str> =
        granted.iter().filter_map(|l| l.json["data"]["subject"].as_str()).collect();
    let all = subjects.len();
    subjects.sort_unstable();
    subjects.dedup();
    (subjects.is_empty() || subjects.len() != all).then(|| format!("approved by {subjects:?}"))
}

/// Somebody, or several at once, say something of a held call.
pub async fn some(world: &Arc<World>, dice: &mut Dice, known: &Known, call: &str) {
    if dice.chance(300) {
        return;
    }
    let life = world.life().await;
    let (Some(run), Some(call)) = (RunId::parse(&known.run), CallId::parse(call)) else { return };
    let words: Vec<String> = (0..1 + dice.below(4))
        .map(|_| {
            let word = if dice.chance(150) { "refuse" } else { "approve" };
            format!("{word} {}", ["ann", "bob", "cy"][usize::try_from(dice.below(3)).unwrap()])
        })
        .collect();
    let pauses: Vec<Duration> = words.iter().map(|_| dice.millis(0, 60)).collect();
    let saying = words.iter().zip(pauses).map(async |(word, pause)| {
        tokio::time::sleep(pause).await;
        tokio::select! {
            biased;
            heard = life.road.take_statement(&run, &call, (word, "-")) => drop(heard),
            () = life.dead.cancelled() => {}
        }
    });
    let saying: Vec<_> = saying.collect();
    drop(tokio::time::timeout(Duration::from_secs(8), join_all(saying)).await);
}

async fn open(world: &World, life: &Life) -> Arc<Run> {
    world.thread(life, &Thread::Caller).await.unwrap().unwrap()
}

async fn ask(life: &Life, run: &Arc<Run>, id: &str, args: Value) -> String {
    let request = CallRequest {
        tool: "t.write".into(),
        arguments: args.to_string().into_bytes(),
        call_id: id.into(),
        ..CallRequest::default()
    };
    match life.road.execute(run, request).await {
        Ok(_) => "ok".into(),
        Err(fault) if fault.detail.is_empty() => fault.code.as_str().into(),
        Err(fault) => format!("{} {}", fault.code.as_str(), fault.detail),
    }
}

/// The result of one statement about a call.
pub async fn say(life: &Life, run: &Run, id: &str, word: &str) -> String {
    match life.road.take_statement(run.id(), &CallId::parse(id).unwrap(), (word, "-")).await {
        Some(CallParties::Counted(state)) => state.into(),
        Some(CallParties::OtherKey) => "other key".into(),
        Some(CallParties::Refused(refusal)) => refusal.code().into(),
        Some(CallParties::NotHeld) => "not held".into(),
        Some(CallParties::Unavailable(why)) => why,
        None => "not here".into(),
    }
}

fn executions(world: &World, run: &Run, id: &str) -> u32 {
    let key = (run.id().to_string(), id.to_owned());
    world.book.lock().tracks.get(&key).map_or(0, |track| track.executions)
}

#[test]
fn an_approved_call_runs_once_and_its_caller_gets_the_result_under_the_same_id() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        assert_eq!(ask(&life, &run, "c", json!({"policy": "hold"})).await, "call.held sim.rule");
        assert_eq!(executions(&world, &run, "c"), 0);
        let waiting = life.road.call_within(&run, "c", Duration::from_secs(1));
        let (waited, said) = tokio::join!(waiting, say(&life, &run, "c", "approve ann"));
        assert_eq!(said, "authorized");
        assert!(waited.is_ok(), "whoever waited has the result");
        assert_eq!(ask(&life, &run, "c", json!({"policy": "hold"})).await, "ok");
        assert_eq!(executions(&world, &run, "c"), 1);
        assert_eq!(say(&life, &run, "c", "approve bob").await, "not held");
        assert_eq!(say(&life, &run, "c", "refuse bob").await, "not held");
    });
}

#[test]
fn a_held_call_whose_arguments_are_masked_is_the_one_that_is_asked_for_again() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        let secret = ["ghp_", "b7Qk2Zr9Xw4Lm1Nc", "8Vd5Ht3Py6Js0Fg2Ra4e"].concat();
        let args = json!({"ms": 300, "policy": "hold", "say": secret});
        assert_eq!(ask(&life, &run, "c", args.clone()).await, "call.held sim.rule");
        let text: &'static str = args.to_string().leak();
        let like = life.road.held_like(&run, "t.write", text.as_bytes()).await.unwrap();
        assert_eq!(like.unwrap().as_str(), "c");
        // What its proposer signed would not run.
        let id = CallId::parse("c").unwrap();
        let refused = life.road.modify(run.id(), &id, by("bob", text)).await.unwrap().unwrap_err();
        assert_eq!(refused.detail, "approval.masked");
        assert_eq!(say(&life, &run, "c", "approve ann").await, "authorized");
        assert_eq!(ask(&life, &run, "c", args).await, "ok", "it runs while it is asked for again");
        assert_eq!(executions(&world, &run, "c"), 1);
    });
}

#[test]
fn fifty_approvals_at_once_run_the_call_once() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        ask(&life, &run, "c", json!({"policy": "hold"})).await;
        let words: Vec<String> = (0..50).map(|n| format!("approve a{n}")).collect();
        let all = words.iter().map(|word| say(&life, &run, "c", word));
        let said = join_all(all.collect::<Vec<_>>()).await;
        assert_eq!(said.iter().filter(|s| *s == "authorized").count(), 1, "{said:?}");
        assert_eq!(said.iter().filter(|s| *s == "not held").count(), 49, "{said:?}");
        assert_eq!(ask(&life, &run, "c", json!({"policy": "hold"})).await, "ok");
        assert_eq!(executions(&world, &run, "c"), 1);
    });
}

#[test]
fn two_people_are_two_and_one_twice_is_one() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        ask(&life, &run, "c", json!({"policy": "pair"})).await;
        assert_eq!(say(&life, &run, "c", "approve ann").await, "held");
        assert_eq!(say(&life, &run, "c", "approve ann").await, "approval.repeated");
        assert_eq!(ask(&life, &run, "c", json!({"policy": "pair"})).await, "call.held sim.rule");
        assert_eq!(say(&life, &run, "c", "approve bob").await, "authorized");
        assert_eq!(ask(&life, &run, "c", json!({"policy": "pair"})).await, "ok");
    });
}

#[test]
fn one_refusal_denies_the_call_and_says_who_refused_it() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        ask(&life, &run, "c", json!({"policy": "pair"})).await;
        assert_eq!(say(&life, &run, "c", "approve ann").await, "held");
        assert_eq!(say(&life, &run, "c", "refuse bob").await, "denied");
        let told = ask(&life, &run, "c", json!({"policy": "pair"})).await;
        assert_eq!(told, "policy.denied approval.refused");
        assert_eq!(say(&life, &run, "c", "approve cy").await, "not held");
        assert_eq!(executions(&world, &run, "c"), 0);
    });
}

#[test]
fn an_unapproved_call_is_answered_as_expired_and_a_late_approval_does_not_count() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        ask(&life, &run, "c", json!({"policy": "hold"})).await;
        tokio::time::sleep(HOLD + Duration::from_millis(50)).await;
        assert_eq!(ask(&life, &run, "c", json!({"policy": "hold"})).await, "call.expired");
        assert_eq!(say(&life, &run, "c", "approve ann").await, "not held");
        assert_eq!(executions(&world, &run, "c"), 0);
    });
}

#[test]
fn an_approval_is_void_once_the_policy_is_another() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        ask(&life, &run, "c", json!({"policy": "pair"})).await;
        assert_eq!(say(&life, &run, "c", "approve ann").await, "held");
        assert!(world.activate(&life).await);
        assert_eq!(say(&life, &run, "c", "approve bob").await, "denied");
        let told = ask(&life, &run, "c", json!({"policy": "pair"})).await;
        assert_eq!(told, "policy.denied approval.void.layers");
        assert_eq!(executions(&world, &run, "c"), 0);
    });
}

#[test]
fn an_approval_never_overrides_a_deny() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        ask(&life, &run, "c", json!({"policy": "deny"})).await;
        assert_eq!(say(&life, &run, "c", "approve ann").await, "not held");
        assert_eq!(executions(&world, &run, "c"), 0);
    });
}

#[test]
fn a_modified_call_is_a_new_one_that_is_judged_again() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        let held = json!({"policy": "hold", "n": 1});
        ask(&life, &run, "c", held.clone()).await;
        let id = CallId::parse("c").unwrap();
        let other = |args: &'static str| life.road.modify(run.id(), &id, by("bob", args));
        let wrong = other("{").await.unwrap().unwrap_err();
        assert_eq!(wrong.code.as_str(), "request.malformed");
        assert_eq!(
            ask(&life, &run, "c", held.clone()).await,
            "call.held sim.rule",
            "nothing changed"
        );
        let new = other(r#"{"policy":"hold","n":2}"#).await.unwrap().unwrap();
        assert_eq!((new.id.as_str(), new.call), ("c.m1", "held"));
        assert_eq!(ask(&life, &run, "c", held).await, "call.cancelled");
        assert_eq!(say(&life, &run, "c", "approve ann").await, "not held");
        let changed = json!({"policy": "hold", "n": 2});
        assert_eq!(ask(&life, &run, "c.m1", changed.clone()).await, "call.held sim.rule");
        assert_eq!(say(&life, &run, "c.m1", "approve bob").await, "approval.self");
        assert_eq!(say(&life, &run, "c.m1", "approve Bob").await, "approval.self");
        assert_eq!(say(&life, &run, "c.m1", "approve ann").await, "authorized");
        assert_eq!(ask(&life, &run, "c.m1", changed).await, "ok");
        assert_eq!(executions(&world, &run, "c"), 0);
    });
}

/// What a policy may say of the new arguments, and what the proposer is told. Nothing of it runs before somebody
/// else has approved it.
#[test]
fn whatever_the_policy_says_of_new_arguments_the_proposer_alone_never_lets_them_run() {
    let table = [
        (r#"{"policy":"hold","n":2}"#, "held", "call.held sim.rule"),
        (r#"{"n":2}"#, "held", "call.held approval.modified"),
        (r#"{"policy":"deny","n":2}"#, "denied", "policy.denied sim.rule"),
    ];
    for (args, told, answered) in table {
        on_a_good_day(async |world| {
            let life = world.start(true).await;
            let run = open(&world, &life).await;
            ask(&life, &run, "c", json!({"policy": "hold", "n": 1})).await;
            let id = CallId::parse("c").unwrap();
            let new = life.road.modify(run.id(), &id, by("bob", args)).await.unwrap().unwrap();
            assert_eq!(new.call, told, "{args}");
            let args: Value = serde_json::from_str(args).unwrap();
            assert_eq!(ask(&life, &run, "c.m1", args.clone()).await, answered);
            // Changed once more, by the same person: still nobody else.
            if told == "held" {
                assert_eq!(say(&life, &run, "c.m1", "approve bob").await, "approval.self");
                let again = CallId::parse("c.m1").unwrap();
                let text: &'static str = args.to_string().leak();
                let again = life.road.modify(run.id(), &again, by("bob", text)).await;
                assert_eq!(again.unwrap().unwrap().call, "held");
                assert_eq!(say(&life, &run, "c.m1.m1", "approve bob").await, "approval.self");
                assert_eq!(say(&life, &run, "c.m1.m1", "approve ann").await, "authorized");
                assert_eq!(ask(&life, &run, "c.m1.m1", args).await, "ok");
            }
            assert_eq!(executions(&world, &run, "c.m1"), 0);
        });
    }
}

#[test]
fn what_is_no_signed_proposal_changes_nothing() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        let held = json!({"policy": "hold"});
        ask(&life, &run, "c", held.clone()).await;
        let id = CallId::parse("c").unwrap();
        for statement in ["approve bob", "", "modify"] {
            let other = Other { statement, ..by("bob", r#"{"n":2}"#) };
            let refused = life.road.modify(run.id(), &id, other).await.unwrap().unwrap_err();
            assert_eq!(refused.code.as_str(), "operator.forbidden");
            assert_eq!(ask(&life, &run, "c", held.clone()).await, "call.held sim.rule");
        }
        // Refused by somebody: only to be denied.
        assert_eq!(say(&life, &run, "c", "refuse ann").await, "denied");
        let late = life.road.modify(run.id(), &id, by("bob", r#"{"n":2}"#)).await;
        assert_eq!(late.unwrap().unwrap_err().code.as_str(), "call.not_found");
    });
}

/// Other arguments, proposed by this person.
fn by(name: &'static str, arguments: &'static str) -> Other<'static> {
    Other { arguments, statement: format!("modify {name}").leak(), signature: "-" }
}

#[test]
fn a_recorded_approval_counts_as_soon_as_the_ledger_can_be_read() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        ask(&life, &run, "c", json!({"policy": "hold"})).await;
        world.sky.weather.lock().blind_for = Some(Duration::from_millis(400));
        assert_eq!(say(&life, &run, "c", "approve ann").await, "unsure");
        world.sky.weather.lock().blind_for = None;
        assert!(life.road.call_within(&run, "c", HOLD).await.is_ok());
        assert_eq!(executions(&world, &run, "c"), 1);
    });
}

/// The next life judges at once what somebody spoke about in the last one; the second word may come in every moment of
/// that, and here the judging waits for its turn.
#[test]
fn a_verdict_given_while_a_restarted_gate_judges_the_call_again_gets_its_outcome() {
    for (word, told) in [("approve bob", "authorized"), ("refuse bob", "denied")] {
        for pause in 230..270 {
            on_a_good_day(async |world| {
                world.bounds.lock().ordered.insert(world.manifest.name.clone());
                let life = world.start(true).await;
                let run = open(&world, &life).await;
                ask(&life, &run, "c", json!({"policy": "pair"})).await;
                assert_eq!(say(&life, &run, "c", "approve ann").await, "held");
                life.dead.cancel();
                // The same policy again: under another one the first word would be void.
                world.version.fetch_sub(1, Ordering::Relaxed);
                let life = world.start(true).await;
                let run = open(&world, &life).await;
                world.waiting(&run.id().to_string(), "slow", &life);
                let slow = ask(&life, &run, "slow", json!({"ms": 300}));
                let saying = async {
                    tokio::time::sleep(Duration::from_millis(pause)).await;
                    say(&life, &run, "c", word).await
                };
                let (_slow, said) = tokio::join!(slow, saying);
                assert_eq!(said, told, "after {pause} ms");
            });
        }
    }
}

#[test]
fn an_approval_that_waits_for_its_turn_beyond_the_end_of_the_hold_counts_nothing() {
    on_a_good_day(async |world| {
        world.bounds.lock().ordered.insert(world.manifest.name.clone());
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        ask(&life, &run, "c", json!({"policy": "hold"})).await;
        tokio::time::sleep(HOLD - Duration::from_millis(200)).await;
        world.waiting(&run.id().to_string(), "slow", &life);
        let slow = ask(&life, &run, "slow", json!({"ms": 350}));
        let word = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            say(&life, &run, "c", "approve ann").await
        };
        let (slow, said) = tokio::join!(slow, word);
        assert_eq!((slow.as_str(), said.as_str()), ("ok", "held"));
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert_eq!(ask(&life, &run, "c", json!({"policy": "hold"})).await, "call.expired");
        assert_eq!(executions(&world, &run, "c"), 0);
    });
}

#[test]
fn a_refused_modification_leaves_the_held_call_unchanged() {
    on_a_good_day(async |world| {
        world.bounds.lock().tool_denials_max = Some(1);
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        let held = json!({"policy": "hold"});
        ask(&life, &run, "c", held.clone()).await;
        assert_eq!(
            ask(&life, &run, "d", json!({"policy": "deny"})).await,
            "policy.denied sim.rule"
        );
        let id = CallId::parse("c").unwrap();
        let other = life.road.modify(run.id(), &id, by("bob", r#"{"n":2}"#)).await;
        assert_eq!(other.unwrap().unwrap_err().detail, "limit.tool_suspended");
        assert_eq!(ask(&life, &run, "c", held.clone()).await, "call.held sim.rule");
        assert_eq!(say(&life, &run, "c", "approve ann").await, "authorized");
        assert_eq!(ask(&life, &run, "c", held).await, "ok");
    });
}

/// Grants one unit at a time; once it hangs, it answers when it is told to, that it cannot.
#[derive(Debug, Default)]
struct Stalls {
    hangs: AtomicBool,
    asked: Notify,
    go: Notify,
}

#[async_trait]
impl Pools for Stalls {
    async fn lease(&self, _: &PoolRequest) -> Result<Lease, Unanswered> {
        if self.hangs.load(Ordering::Relaxed) {
            self.asked.notify_one();
            self.go.notified().await;
            return Err(Unanswered("hung".into()));
        }
        Ok(Lease { granted: 1, spare: 1 })
    }

    async fn give_back(&self, _: &PoolRequest, _: u64) -> Result<(), Unanswered> {
        Ok(())
    }

    async fn hold(&self, _: &limits::pool::Hold) -> Result<Lease, Unanswered> {
        Ok(Lease { granted: 1, spare: 1 })
    }
}

#[test]
fn cancelling_an_approved_call_while_it_is_judged_again_stops_it() {
    on_a_good_day(async |world| {
        let stalls = Arc::new(Stalls::default());
        *world.bounds.lock() = Bounds {
            pools: vec![Pool {
                name: "shared".into(),
                unit: Unit::Requests,
                per: Per::None,
                size: 100,
                agents: BTreeSet::new(),
                labels: BTreeMap::new(),
                tools: BTreeSet::new(),
            }],
            store: Some(Arc::clone(&stalls) as _),
            ..Bounds::default()
        };
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        assert_eq!(ask(&life, &run, "c", json!({"policy": "hold"})).await, "call.held sim.rule");
        // Takes the unit that the held call gave back.
        world.waiting(&run.id().to_string(), "d", &life);
        assert_eq!(ask(&life, &run, "d", json!({})).await, "ok");
        stalls.hangs.store(true, Ordering::Relaxed);
        let cancelling = async {
            stalls.asked.notified().await;
            life.road.cancel(&run, "c");
            stalls.hangs.store(false, Ordering::Relaxed);
            stalls.go.notify_one();
        };
        tokio::join!(say(&life, &run, "c", "approve ann"), cancelling);
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(ask(&life, &run, "c", json!({"policy": "hold"})).await, "call.cancelled");
        assert_eq!(executions(&world, &run, "c"), 0);
    });
}

#[test]
fn a_call_that_finds_no_room_does_not_break_the_row_of_its_run() {
    on_a_good_day(async |world| {
        world.bounds.lock().ordered.insert(world.manifest.name.clone());
        world.in_flight_max.store(2, Ordering::Relaxed);
        let life = world.start(true).await;
        let run = open(&world, &life).await;
        let other = world.thread(&life, &Thread::Named("other".into())).await.unwrap().unwrap();
        for (run, id) in [(&run, "a"), (&run, "c"), (&other, "x")] {
            world.waiting(&run.id().to_string(), id, &life);
        }
        let begun = tokio::time::Instant::now();
        let shed_then_last = async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            assert_eq!(ask(&life, &run, "b", json!({})).await, "overloaded");
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(ask(&life, &run, "c", json!({})).await, "ok");
            begun.elapsed()
        };
        let (a, x, after) = tokio::join!(
            ask(&life, &run, "a", json!({"ms": 350})),
            ask(&life, &other, "x", json!({"ms": 50})),
            shed_then_last
        );
        assert_eq!((a.as_str(), x.as_str()), ("ok", "ok"));
        assert!(after >= Duration::from_millis(350), "it ran beside the one before: {after:?}");
    });
}
