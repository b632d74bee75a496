//! Implicit runs on good days: who shares one, and what ends one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use wicketgate::domain::call::CallerAuth;
use wicketgate::domain::tier::Face;
use wicketgate::enforce::{CallRequest, Opening, Thread};
use wicketgate::identity::Caller;

use crate::faults::Weather;
use crate::world::{HOLD, IDLE, LEASE_TERM, Life, RUN_IDLE, World};

pub fn on_a_good_day<F: Future<Output = ()>>(story: impl FnOnce(Arc<World>) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let world = World::new(1);
        story(Arc::clone(&world)).await;
        world.kill_all_but(None);
        let mut book = world.book.lock();
        assert_eq!(std::mem::take(&mut book.flaws), Vec::<String>::new());
    });
}

fn named(name: &str) -> Thread {
    Thread::Named(name.into())
}

async fn run(world: &World, life: &Life, thread: &Thread) -> String {
    world.thread(life, thread).await.unwrap().unwrap().id().to_string()
}

async fn call(world: &World, life: &Life, thread: &Thread, id: &str, args: Value) -> String {
    let run = world.thread(life, thread).await.unwrap().unwrap();
    world.waiting(&run.id().to_string(), id, life);
    let request = CallRequest {
        tool: "t.read".into(),
        arguments: args.to_string().into_bytes(),
        call_id: id.into(),
        ..CallRequest::default()
    };
    match life.road.execute(&run, request).await {
        Ok(_) => "ok".into(),
        Err(fault) => fault.code.as_str().into(),
    }
}

/// What the books say of a run's end: `""` while it is open.
fn sealed(world: &World, run: &str) -> String {
    let mut book = world.book.lock();
    book.shadow.refresh(&world.memory);
    let links = book.shadow.chains.values().flatten();
    let mut seals = links.filter(|l| l.kind() == "run.sealed" && l.text("run") == run);
    let reason = seals.next().and_then(|l| l.json["data"]["reason"].as_str()).unwrap_or_default();
    reason.to_owned()
}

fn opened(world: &World, run: &str) -> Value {
    let mut book = world.book.lock();
    book.shadow.refresh(&world.memory);
    let mut links = book.shadow.chains.values().flatten();
    let link = links.find(|l| l.kind() == "run.opened" && l.text("run") == run).unwrap();
    link.json["data"].clone()
}

#[test]
fn many_first_calls_at_once_open_one_run() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let all = join_all((0..20).map(|_| async { run(&world, &life, &named("a")).await })).await;
        assert!(all.iter().all(|run| *run == all[0]), "{all:?}");
        assert_ne!(run(&world, &life, &named("b")).await, all[0]);
        let data = opened(&world, &all[0]);
        assert_eq!(data["implicit"], "named");
        assert_eq!(data["thread"], "a");
        assert_eq!(data["binding"], "unclaimed");
        assert_eq!(data["model"], "", "nothing is claimed for an agent that claims nothing");
        assert_eq!(life.road.load().0, 2);
    });
}

#[test]
fn an_opening_whose_caller_hung_up_is_the_one_the_next_caller_finds() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let (caller, thread) = (world.caller(), named("a"));
        {
            let opening = life.road.implicit_run(Face::Mcp, &caller, &thread, Opening::default());
            let mut opening = std::pin::pin!(opening);
            assert!(futures_util::poll!(opening.as_mut()).is_pending());
        }
        run(&world, &life, &thread).await;
        assert_eq!(life.road.load().0, 1);
    });
}

#[test]
fn two_callers_never_share_a_run() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let mine = run(&world, &life, &Thread::Caller).await;
        let token = |print: &str| CallerAuth {
            method: "token".into(),
            token: Some(print.to_owned()),
            ..CallerAuth::default()
        };
        let auths = [
            CallerAuth { method: "uds".into(), uid: Some(7), ..CallerAuth::default() },
            CallerAuth { method: "uds".into(), uid: Some(77), ..CallerAuth::default() },
            token("0123456789abcdef"),
            token("fedcba9876543210"),
        ];
        let mut seen = vec![mine];
        for auth in auths {
            let caller = Caller { auth, ..world.caller() };
            let opening =
                life.road.implicit_run(Face::Mcp, &caller, &Thread::Caller, Opening::default());
            let other = opening.await.unwrap().id().to_string();
            assert!(!seen.contains(&other));
            seen.push(other);
        }
    });
}

#[test]
fn kinds_of_threads_are_distinguished() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let all = [Thread::Caller, named("x"), Thread::Session("x".into())];
        let mut runs = Vec::new();
        for thread in &all {
            let id = run(&world, &life, thread).await;
            assert!(!runs.contains(&id));
            runs.push(id);
        }
        let session = opened(&world, &runs[2]);
        assert_eq!(session["implicit"], "session");
        assert!(session.get("thread").is_none(), "a session's id is no matter for the books");
    });
}

#[test]
fn a_name_that_is_none_is_refused() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        for bad in ["", "a b", "ä", &"x".repeat(65)] {
            let (caller, thread) = (world.caller(), named(bad));
            let asked = life.road.implicit_run(Face::Mcp, &caller, &thread, Opening::default());
            let fault = asked.await.unwrap_err();
            assert_eq!((fault.code.as_str(), &*fault.detail), ("request.malformed", "run.name"));
        }
    });
}

#[test]
fn an_idle_run_is_sealed_and_the_next_call_opens_another() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let thread = named("a");
        let first = run(&world, &life, &thread).await;
        for n in 0..4 {
            tokio::time::sleep(IDLE * 3 / 4).await;
            assert_eq!(call(&world, &life, &thread, &format!("c{n}"), json!({})).await, "ok");
        }
        assert_eq!(run(&world, &life, &thread).await, first, "calls keep it open");
        tokio::time::sleep(IDLE + Duration::from_millis(100)).await;
        assert_eq!(sealed(&world, &first), "idle");
        assert_ne!(run(&world, &life, &thread).await, first);
        assert_eq!(life.road.load().0, 1);
    });
}

#[test]
fn a_held_call_keeps_its_run_open_until_it_expires() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let thread = named("a");
        let id = run(&world, &life, &thread).await;
        assert_eq!(call(&world, &life, &thread, "h", json!({"policy": "hold"})).await, "call.held");
        tokio::time::sleep(HOLD + IDLE - Duration::from_millis(100)).await;
        assert_eq!(sealed(&world, &id), "", "its rest begins where the hold ends");
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(sealed(&world, &id), "idle");
    });
}

#[test]
fn the_end_of_a_session_seals_its_run_and_cancels_what_is_held() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let thread = Thread::Session("s".into());
        let id = run(&world, &life, &thread).await;
        assert_eq!(call(&world, &life, &thread, "h", json!({"policy": "hold"})).await, "call.held");
        life.road.end_implicit(&world.caller(), &thread).await;
        assert_eq!(sealed(&world, &id), "session_end");
        life.road.end_implicit(&world.caller(), &thread).await;
        assert_eq!(life.road.load().0, 0);
        assert_ne!(run(&world, &life, &thread).await, id);
    });
}

#[test]
fn a_drained_gate_leaves_no_implicit_run_open() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let implicit = run(&world, &life, &Thread::Caller).await;
        let explicit = world.open(&life, None).await.unwrap();
        world.stop(&life).await;
        assert_eq!(sealed(&world, &implicit), "drain");
        assert_eq!(sealed(&world, &explicit.run), "", "an explicit run is for the next life");
    });
}

#[test]
fn after_a_crash_named_threads_go_on_and_sessions_are_over() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let threads = [named("a"), Thread::Caller, Thread::Session("s".into())];
        let mut before = Vec::new();
        for thread in &threads {
            before.push(run(&world, &life, thread).await);
        }
        assert_eq!(
            call(&world, &life, &threads[0], "h", json!({"policy": "hold"})).await,
            "call.held"
        );
        life.dead.cancel();
        let life = world.start(true).await;
        assert_eq!(run(&world, &life, &threads[0]).await, before[0]);
        assert_eq!(run(&world, &life, &threads[1]).await, before[1]);
        assert_ne!(run(&world, &life, &threads[2]).await, before[2]);
        assert_eq!(sealed(&world, &before[2]), "session_lost");
        tokio::time::sleep(HOLD + IDLE + Duration::from_millis(300)).await;
        assert_eq!(sealed(&world, &before[0]), "idle", "it is watched again");
    });
}

/// Whoever opened it hung up, was answered `ledger.unknown`, or lost its token: to the next life they look alike.
#[test]
fn a_run_whose_token_reached_no_caller_is_sealed_even_after_a_restart() {
    on_a_good_day(async |world| {
        for dies in [false, true] {
            let mut life = world.start(true).await;
            {
                let caller = world.caller();
                let opening = Opening { model: "m".into(), ..Opening::default() };
                let mut opening = std::pin::pin!(life.road.open_run(Face::Grpc, &caller, opening));
                assert!(futures_util::poll!(opening.as_mut()).is_pending());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert_eq!(life.road.load().0, 1, "it is on the books, and nobody has its token");
            if dies {
                life.dead.cancel();
                life = world.start(true).await;
                assert_eq!(life.road.load().0, 1);
            }
            let run = life.road.open_runs()[0].id().to_string();
            tokio::time::sleep(RUN_IDLE + Duration::from_millis(100)).await;
            assert_eq!((life.road.load().0, &*sealed(&world, &run)), (0, "idle"), "dies: {dies}");
            life.dead.cancel();
        }
    });
}

#[test]
fn an_explicitly_opened_run_stays_open_while_it_receives_calls() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        let known = world.open(&life, None).await.unwrap();
        for n in 0..3 {
            tokio::time::sleep(RUN_IDLE * 3 / 4).await;
            let request = CallRequest {
                tool: "t.read".into(),
                arguments: b"{}".to_vec(),
                call_id: format!("c{n}"),
                ..CallRequest::default()
            };
            assert!(matches!(world.ask(&life, &known, &request, None).await, Some(Ok(_))));
        }
        assert_eq!(sealed(&world, &known.run), "");
        tokio::time::sleep(RUN_IDLE + Duration::from_millis(100)).await;
        assert_eq!(sealed(&world, &known.run), "idle");
    });
}

/// Two agents, 40 places: half of them are set aside, 10 for each.
#[test]
fn an_agent_that_opens_runs_without_end_leaves_others_their_share_also_after_a_restart() {
    on_a_good_day(async |world| {
        world.open_runs_max.store(40, Ordering::Relaxed);
        let mut life = world.start(true).await;
        let other = Caller { manifest: Arc::clone(&world.helper), ..world.caller() };
        let (mut greedy, mut modest) = (0, 0);
        for _ in 0..2 {
            let opened = join_all((0..100).map(|_| world.open(&life, None))).await;
            greedy += opened.into_iter().flatten().count();
            for n in 0..5 {
                let thread = named(&format!("modest-{modest}-{n}"));
                let asked = life.road.implicit_run(Face::Mcp, &other, &thread, Opening::default());
                assert!(asked.await.is_ok(), "{greedy} runs of another agent are open");
            }
            modest += 5;
            life.dead.cancel();
            life = world.start(true).await;
        }
        assert!(greedy >= 30, "{greedy}");
        let refused = world.open(&life, None).await;
        assert!(refused.is_none(), "no more than there are");
    });
}

#[test]
fn a_gate_that_waits_for_space_renews_its_lease_and_serves_once_there_is_some() {
    on_a_good_day(async |world| {
        let life = world.start(true).await;
        // One write fails, and what is kept back is spent on it.
        let weather = *world.sky.weather.lock();
        *world.sky.weather.lock() = Weather { short: true, refuse: 1000, ..weather };
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.sky.weather.lock().refuse = 0;
        tokio::time::sleep(LEASE_TERM * 3).await;
        let beats = {
            let mut book = world.book.lock();
            book.shadow.refresh(&world.memory);
            let chain = life.ledger.leased().unwrap().key.chain;
            book.shadow.chains[&chain].iter().filter(|link| link.kind() == "heartbeat").count()
        };
        assert!(beats >= 6, "{beats}");
        assert!(world.thread(&life, &Thread::Caller).await.unwrap().is_err(), "no space yet");
        world.sky.weather.lock().short = false;
        tokio::time::sleep(Duration::from_secs(1)).await;
        run(&world, &life, &Thread::Caller).await;
    });
}
