//! The life of one world: chaos, then calm, then the reckoning.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wicketgate::enforce::CallRequest;

use crate::Report;
use crate::checks;
use crate::client::{self, Known};
use crate::faults::{Dice, Weather};
use crate::script::{PLANTED, Rules};
use crate::shapes;
use crate::streams;
use crate::world::{HOLD, LEASE_TERM, Life, RUN_IDLE, World};

/// What entries say of a call that its caller stopped.
const STOPPED: [&str; 2] = ["cancelled by the caller", "cancelled"];

/// Plays one seed to its end.
pub fn world(seed: u64) -> Report {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let world = World::new(seed);
        let played = tokio::time::timeout(Duration::from_secs(900), play(&world)).await;
        if played.is_err() {
            world.flaw("(9) the world never came to rest");
        }
        finish(&world)
    })
}

fn finish(world: &Arc<World>) -> Report {
    world.current.send_replace(None);
    let mut book = world.book.lock();
    let book = &mut *book;
    book.shadow.refresh(&world.memory);
    let versions = world.version.load(Ordering::Relaxed);
    let again = |digest: &str, input: &[u8]| Rules::again(versions, digest, input);
    let mut flaws = std::mem::take(&mut book.flaws);
    flaws.append(&mut world.sky.flaws.lock());
    flaws.extend(checks::ledger_flaws(&book.shadow, &world.memory, &again));
    flaws.extend(shapes::closed(&book.shadow));
    for link in book.shadow.chains.values().flatten() {
        if link.body.windows(PLANTED.len()).any(|w| w == PLANTED.as_bytes()) {
            flaws.push(format!("(13) entry {} contains a payload", link.seq));
        }
    }
    for ((run, call), track) in &book.tracks {
        let links = book.shadow.of_call(run, call);
        let Some(last) = links.last() else { continue };
        let started = last.json["data"]["started"] != false;
        let fits = match last.kind() {
            "call.completed" => track.executions == 1,
            "call.failed" => track.executions == u32::from(started),
            "call.unknown" => track.executions <= 1,
            // What only reads may be stopped half way.
            "call.cancelled" if ["t.read", streams::MODEL].contains(&links[0].text("tool")) => {
                track.executions <= 1
            }
            _ => track.executions == 0,
        };
        let stopped = [&last.json["data"]["reason"], &last.json["data"]["cause"]];
        if !track.cancelled
            && stopped.iter().any(|why| why.as_str().is_some_and(|w| STOPPED.contains(&w)))
        {
            flaws.push(format!("(12) {call} was cancelled and nobody asked for it"));
        }
        if !fits {
            flaws.push(format!(
                "(12) {call} ended `{}`, ran {} times",
                last.kind(),
                track.executions
            ));
        }
        let kept = last.payload(&world.memory, "result");
        if last.kind() == "call.completed" && kept != track.result {
            flaws.push(format!("(6) the recorded result of {call} is not what the tool gave"));
        }
    }
    flaws.extend(streams::flaws(book));
    let links = || book.shadow.chains.values();
    Report {
        seed: world.seed,
        flaws,
        entries: links().map(|l| l.len() as u64).sum(),
        executions: book.tracks.values().map(|t| u64::from(t.executions)).sum(),
        faults: world.sky.faults.load(Ordering::Relaxed),
        lives: links().flatten().filter(|l| l.kind() == "writer.started").count() as u64,
        answers: book.answers.clone(),
        heads: links().filter_map(|l| l.last().map(|l| l.leaf)).collect(),
    }
}

async fn play(world: &Arc<World>) {
    let mut dice = Dice::new(world.dice.lock().next());
    *world.sky.weather.lock() = weather(&mut dice);
    let calm = CancellationToken::new();
    let chaos = tokio::spawn(chaos(Arc::clone(world), Dice::new(dice.next()), calm.clone()));
    let mut clients = Vec::new();
    for number in 0..2 + dice.below(3) {
        let (dice, steps) = (Dice::new(dice.next()), 6 + dice.below(10));
        clients.push(tokio::spawn(client::client(Arc::clone(world), dice, number, steps)));
    }
    // The others have no streams: they stay what they were.
    let streams = world.seed % 6 == 2;
    let streams = streams.then(|| tokio::spawn(streams::agent(Arc::clone(world))));
    // Whatever happens, the weather clears.
    tokio::time::sleep(dice.millis(1500, 5000)).await;
    *world.sky.weather.lock() = Weather::default();
    let mut made = Vec::new();
    for client in clients {
        match tokio::time::timeout(Duration::from_secs(120), client).await {
            Ok(Ok(asked)) => made.extend(asked),
            Ok(Err(panic)) => world.flaw(format!("(9) a client panicked: {panic}")),
            Err(_) => world.flaw("(9) with the faults off, a client never finished"),
        }
    }
    let mut asked = Vec::new();
    if let Some(streams) = streams {
        match tokio::time::timeout(Duration::from_secs(120), streams).await {
            Ok(Ok(all)) => asked = all,
            Ok(Err(panic)) => world.flaw(format!("(9) an agent of a model panicked: {panic}")),
            Err(_) => world.flaw("(9) with the faults off, an agent of a model never finished"),
        }
    }
    calm.cancel();
    drop(chaos.await);
    let life = settle(world, &mut dice).await;
    ask_again(world, &life, &made).await;
    streams::ask_again(world, &life, &asked).await;
    made.extend(asked.into_iter().map(|(known, _)| (known, Vec::new())));
    all_is_well(world, &life).await;
    seal_all(world, &life, &made).await;
    close(world, &life).await;
}

fn weather(dice: &mut Dice) -> Weather {
    let mut some = |most: u64| if dice.chance(450) { dice.below(most) } else { 0 };
    let mut weather = Weather {
        refuse: some(150),
        lose_answer: some(150),
        lose_write: some(100),
        delay: some(300),
        full: some(80),
        steal: some(20),
        crash_before: some(30),
        crash_after: some(40),
        broken: some(10),
        ..Weather::default()
    };
    match dice.below(20) {
        0 => weather = Weather::default(),
        // Late writes: the weather in which callers are told `ledger.unknown`.
        1..=5 => weather.delay = 350,
        _ => {}
    }
    weather
}

/// Restarts what dies, and makes things worse.
async fn chaos(world: Arc<World>, mut dice: Dice, calm: CancellationToken) {
    let mut life = world.start(true).await;
    while !calm.is_cancelled() {
        let calmed = calm.clone();
        tokio::select! {
            biased;
            () = calmed.cancelled() => break,
            () = life.over() => {}
            () = tokio::time::sleep(dice.millis(100, 600)) => {
                if !worsen(&world, &life, &mut dice).await {
                    continue;
                }
            }
        }
        world.judge_ending(&life);
        if life.ended.borrow().is_some() {
            life.dead.cancel();
        }
        if dice.chance(100) {
            world.forget_lease();
        }
        let pause = if dice.chance(150) { dice.millis(1500, 3000) } else { dice.millis(5, 300) };
        tokio::time::sleep(pause).await;
        let starting = world.start(true);
        life = tokio::select! {
            biased;
            life = starting => life,
            () = calmed.cancelled() => break,
        };
    }
}

/// True: another process is to be started.
async fn worsen(world: &World, life: &Life, dice: &mut Dice) -> bool {
    if *world.sky.weather.lock() == Weather::default() {
        return false;
    }
    match dice.below(10) {
        0 => {
            life.dead.cancel();
            true
        }
        1 if dice.chance(500) => {
            world.stop(life).await;
            true
        }
        // A second process with the same lease, while the first still lives.
        2 => dice.chance(400),
        3 | 4 => {
            let far = if dice.chance(100) { 3_600_000 } else { 1500 };
            let back = i64::try_from(dice.below(far)).unwrap();
            world.clock.step(if dice.chance(700) { -back } else { back });
            false
        }
        5 | 6 => {
            let activating = world.activate(life);
            tokio::select! {
                biased;
                () = life.over() => {}
                _ = activating => {}
            }
            false
        }
        7 => {
            let until = Instant::now() + dice.millis(200, 3000);
            world.sky.weather.lock().down_until = Some(until);
            false
        }
        _ => false,
    }
}

/// With the faults off, a process comes up and serves: as it was, after a crash, or after an end in order.
async fn settle(world: &Arc<World>, dice: &mut Dice) -> Arc<Life> {
    let before = world.current.borrow().clone();
    world.kill_all_but(before.as_deref());
    // A heartbeat later, whoever was fenced by one of the dead knows it, and the last late write is done.
    tokio::time::sleep(Duration::from_secs(3)).await;
    if let Some(before) = before {
        match dice.below(3) {
            0 if !before.is_over() => return before,
            1 => world.stop(&before).await,
            _ => before.dead.cancel(),
        }
    }
    for _ in 0..3 {
        let starting = world.start(true);
        match tokio::time::timeout(Duration::from_secs(20), starting).await {
            Ok(life) if !life.is_over() => return life,
            Ok(life) => world.judge_ending(&life),
            Err(_) => world.flaw("(9) with the faults off, no process came up"),
        }
    }
    world.flaw("(9) with the faults off, three processes ended");
    world.life().await
}

/// Every question asked before gets its answer, the same as before.
async fn ask_again(world: &World, life: &Life, made: &[(Known, Vec<CallRequest>)]) {
    for (known, asked) in made {
        for request in asked {
            for _ in 0..2 {
                let Some(answer) = world.ask(life, known, request, None).await else { continue };
                if let Err(fault) = answer
                    && fault.code.as_str().starts_with("ledger.")
                    && !String::from_utf8_lossy(&request.arguments).contains("shout")
                {
                    let (code, id) = (fault.code, &request.call_id);
                    world.flaw(format!("(9) with the faults off, {id} was answered `{code}`"));
                }
            }
            drop(world.ask(life, known, &client::twisted(request), None).await);
        }
    }
}

/// Labels that cannot be written are refused; the next try has others.
async fn open_plain(world: &World, life: &Life) -> Option<Known> {
    for _ in 0..4 {
        let known = world.open(life, None).await;
        if known.is_some() {
            return known;
        }
    }
    None
}

/// A fresh run, one call of each sort: nothing is lost, late or refused for the ledger's sake.
async fn all_is_well(world: &World, life: &Life) {
    let Some(known) = open_plain(world, life).await else {
        return world.flaw("(9) with the faults off, no run could be opened");
    };
    let cases = [
        ("t.read", json!({"do": "ok"}), "ok"),
        ("t.write", json!({"do": "flood"}), "ok"),
        ("t.write", json!({"do": "ok", "pad": "z".repeat(30_000)}), "ok"),
        ("t.read", json!({"do": "error"}), "tool.failed"),
        ("t.read", json!({"do": "hang"}), "tool.failed"),
        ("t.write", json!({"do": "hang"}), "call.unknown"),
        ("t.write", json!({"do": "panic"}), "call.unknown"),
        ("t.read", json!({"policy": "deny"}), "policy.denied"),
        ("t.read", json!({"policy": "panic"}), "policy.error"),
        ("t.read", json!({"policy": "hold"}), "call.held"),
        ("t.read", json!({"prepare": "refuse"}), "effect.refused"),
        ("t.ghost", json!({}), "tool.not_granted"),
        ("t.other", json!({}), "tool.not_granted"),
    ];
    for (at, (tool, args, expected)) in cases.into_iter().enumerate() {
        let request = CallRequest {
            tool: tool.into(),
            arguments: args.to_string().into_bytes(),
            call_id: format!("well-{at}"),
            ..CallRequest::default()
        };
        for _ in 0..2 {
            let word = match world.ask(life, &known, &request, None).await {
                None => "nothing".to_owned(),
                Some(Ok(_)) => "ok".to_owned(),
                Some(Err(fault)) => fault.code.as_str().to_owned(),
            };
            if word != expected {
                world.flaw(format!("(9) `{args}` of {tool} was answered `{word}`"));
            }
        }
    }
    stops_well(world, life, &known).await;
    tokio::time::sleep(HOLD + Duration::from_millis(50)).await;
    let held = world.look(life, &known, "well-9").await;
    if !matches!(held, Some(Err(f)) if f.code.as_str() == "call.expired") {
        world.flaw("(4) a held call did not expire");
    }
    if !matches!(world.seal(life, &known).await, Some(Ok(()))) {
        world.flaw("(9) a run could not be sealed");
    }
}

/// Calls that are stopped, each where it is: before it is decided, at a tool that reads, at a tool that
/// acts, while it is held.
async fn stops_well(world: &World, life: &Life, known: &Known) {
    let request = |id: &str, tool: &str, args: serde_json::Value| CallRequest {
        tool: tool.into(),
        arguments: args.to_string().into_bytes(),
        call_id: id.into(),
        ..CallRequest::default()
    };
    let soon = Duration::from_millis(50);
    let cases = [
        ("stop-0", "t.write", json!({"do": "ok"}), Duration::ZERO, "call.cancelled", false),
        ("stop-1", "t.read", json!({"do": "hang"}), soon, "call.cancelled", true),
        ("stop-2", "t.write", json!({"do": "hang"}), soon, "call.unknown", true),
        ("stop-3", "t.read", json!({"policy": "hold"}), Duration::ZERO, "call.cancelled", false),
    ];
    for (id, tool, args, after, expected, recorded) in cases {
        let asked = request(id, tool, args);
        let answer = world.ask_until(life, known, &asked, None, Some(after)).await;
        let told = match &answer {
            Some(Err(fault)) => (fault.code.as_str(), fault.receipt.is_some()),
            Some(Ok(_)) => ("ok", true),
            None => ("nothing", false),
        };
        if told != (expected, recorded) {
            world.flaw(format!("(12) {id} was stopped after {after:?} and answered {told:?}"));
        }
    }
    let again = request("stop-0", "t.write", json!({"do": "ok"}));
    if !matches!(world.ask(life, known, &again, None).await, Some(Ok(_))) {
        world.flaw("(12) a call that was stopped before it was decided cannot be asked again");
    }
    let held = request("stop-3", "t.read", json!({"policy": "hold"}));
    drop(world.ask(life, known, &held, None).await);
    world.cancel(life, known, "stop-3").await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let held = world.look(life, known, "stop-3").await;
    if !matches!(held, Some(Err(f)) if f.code.as_str() == "call.cancelled") {
        world.flaw("(12) a held call was not cancelled");
    }
}

/// Every run that is still known can be sealed, and then nothing of it is open.
async fn seal_all(world: &World, life: &Life, made: &[(Known, Vec<CallRequest>)]) {
    for (known, _) in made {
        let sealing = world.seal(life, known);
        let sealed = tokio::time::timeout(Duration::from_secs(20), sealing).await;
        let fine = match &sealed {
            Ok(Some(Ok(()))) => true,
            Ok(Some(Err(fault))) => fault.code.as_str() == "run.unknown",
            Ok(None) | Err(_) => false,
        };
        if !fine {
            let told = sealed.map(|s| s.map(|s| s.map_err(|f| f.message)));
            world.flaw(format!("(9) run {} could not be sealed: {told:?}", known.run));
        }
    }
    let threads = world.book.lock().threads.clone();
    for thread in &threads {
        life.road.end_implicit(&world.caller(), thread).await;
    }
    // An opening in doubt may have become durable, and its token reached nobody.
    tokio::time::sleep(RUN_IDLE + Duration::from_secs(1)).await;
    let mut book = world.book.lock();
    let book = &mut *book;
    book.shadow.refresh(&world.memory);
    let Some(chain) = life.ledger.leased().map(|l| l.key.chain) else { return };
    let links = book.shadow.chains.get(&chain).map(Vec::as_slice).unwrap_or_default();
    let runs = |kind: &'static str| {
        links.iter().filter(move |l| l.kind() == kind).map(|l| l.text("run").to_owned())
    };
    let mut open: std::collections::BTreeSet<String> = runs("run.opened").collect();
    for run in runs("run.sealed") {
        open.remove(&run);
    }
    if !open.is_empty() {
        book.flaws.push(format!("(9) runs {open:?} are open and nobody closes them"));
    }
    let (in_memory, _) = life.road.load();
    if in_memory != open.len() {
        let text = format!("(9) {in_memory} runs are open in memory, {} on the books", open.len());
        book.flaws.push(text);
    }
}

/// The end: the last process stops, and others take over every slot and close what is open.
async fn close(world: &Arc<World>, life: &Life) {
    if world.dice.lock().chance(500) {
        world.stop(life).await;
    }
    life.dead.cancel();
    tokio::time::sleep(LEASE_TERM * 2).await;
    world.book.lock().shadow.refresh(&world.memory);
    let chains = world.book.lock().shadow.chains.len();
    let mut heirs = Vec::new();
    for _ in 0..chains {
        let (heir, recovered) = world.born(false);
        let up = tokio::time::timeout(Duration::from_secs(20), recovered).await;
        if !matches!(up, Ok(Ok(_))) {
            world.flaw("(9) with the faults off, nobody could take over a slot");
        }
        heirs.push(heir);
    }
    for heir in heirs {
        world.stop(&heir).await;
        world.judge_ending(&heir);
    }
}
