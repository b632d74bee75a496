//! Answers in pieces: what each delta waits longer, how fast one stream can be, and what many take.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use wicketgate_support::bench::cpu;
use wicketgate_support::bench::load::{Seen, number, short};
use wicketgate_support::bench::table::{Row, Table, Target};

use crate::beside::ToolCallers;
use crate::client::{Place, Streamed};
use crate::conversation::Conversation;
use crate::provider::{PACE, PACED, UNTHROTTLED};
use crate::{Plan, Scene, ms};

/// The deltas of a stream without a pace.
const MANY: usize = 20_000;
/// Runs that share the streams.
const RUNS: usize = 50;

/// Prints the row about one stream without a pace.
pub async fn throughput(plan: &Plan, scene: &Scene, table: &mut Table) {
    let few = Conversation::new(UNTHROTTLED, MANY, 0);
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..plan.turns {
        let places = [Place::Direct(scene.provider.address), Place::Gate(scene.gate.agents)];
        for (place, rates) in places.into_iter().zip(&mut rates) {
            let body = few.next();
            let streamed = place.connect("unthrottled").await.stream(body, MANY).await;
            rates.push(MANY as f64 / streamed.whole.as_secs_f64());
        }
    }
    let [direct, through] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    table.add(Row {
        what: format!("one stream of {MANY} deltas without a pace, median of {}", plan.turns),
        ours: format!("{} deltas/s", number(through)),
        floor: format!("direct: {} deltas/s", number(direct)),
        ratio: Some(through / direct),
        target: Some(Target::AtLeast(0.95)),
    });
}

/// Prints the rows about streams at the pace of a model.
pub async fn measure(plan: &Plan, scene: &Scene, table: &mut Table) {
    // Longer than the tool calls that are measured beside them.
    let time = (plan.warm + plan.each).mul_f64(1.5);
    let deltas = (time.as_secs_f64() / PACE.as_secs_f64()) as usize;
    let tools = ToolCallers::open(scene.gate.agents).await;
    for &many in plan.streams {
        // Close together, so that the machine is in the same mood for all of them.
        let direct = all(Place::Direct(scene.provider.address), many, deltas).await;
        let rest = scene.gate.memory();
        let before = (cpu::of(scene.gate.pid()), Instant::now());
        let streaming = tokio::spawn(all(Place::Gate(scene.gate.agents), many, deltas));
        let most = highest(scene, &streaming).await;
        let through = streaming.await.unwrap();
        let used = cpu::of(scene.gate.pid()).saturating_sub(before.0);
        let cores = used.as_secs_f64() / before.1.elapsed().as_secs_f64();
        late(table, many, (&through, &direct), cores);
        let alone = tools.drive(plan).await;
        let streaming = tokio::spawn(all(Place::Gate(scene.gate.agents), many, deltas));
        let beside = tools.drive(plan).await;
        assert!(!streaming.is_finished(), "the streams last as long as the tool calls");
        streaming.await.unwrap();
        if many > 1 {
            memory(table, many, (most, rest));
        }
        table.add(Row {
            what: format!("tool calls beside {many} streams × 50/s: p50"),
            ours: beside.words("calls"),
            floor: format!("without: {}", alone.words("calls")),
            ratio: Some(beside.p50.as_secs_f64() / alone.p50.as_secs_f64()),
            target: Some(Target::AtMost(1.5)),
        });
    }
    tools.seal().await;
}

fn memory(table: &mut Table, many: usize, (most, rest): (f64, f64)) {
    let each = (most - rest) / many as f64;
    table.add(Row {
        what: format!("memory of the gate, {many} streams, above rest"),
        ours: format!("{each:.0} KiB a stream; {:.1} MiB at most", most / 1024.0),
        floor: format!("at rest: {:.1} MiB", rest / 1024.0),
        ratio: None,
        target: Some(Target::Figure(each, 128.0, "KiB a stream")),
    });
}

/// So many streams at once, each checked to its end.
async fn all(place: Place, many: usize, deltas: usize) -> Seen {
    let mut streams = JoinSet::new();
    for number in 0..many {
        streams.spawn(async move {
            let conversation = Conversation::new(PACED, deltas, 0);
            let mut caller = place.connect(&format!("paced-{}", number % RUNS)).await;
            caller.stream(conversation.next(), deltas).await
        });
    }
    let streams = streams.join_all().await;
    let longest = streams.iter().map(|streamed: &Streamed| streamed.whole).max();
    // Streams begin at the same moment, which is no part of their pace.
    let settled = streams.into_iter().flat_map(|streamed| {
        let skipped = streamed.late.len() / 4;
        streamed.late.into_iter().skip(skipped)
    });
    Seen::of(settled.collect(), longest.unwrap_or_default().mul_f64(0.75))
}

/// The most memory of the gate until this ends, in KiB.
async fn highest<T>(scene: &Scene, until: &tokio::task::JoinHandle<T>) -> f64 {
    let mut most = scene.gate.memory();
    while !until.is_finished() {
        tokio::time::sleep(Duration::from_millis(100)).await;
        most = most.max(scene.gate.memory());
    }
    most
}

fn late(table: &mut Table, many: usize, (through, direct): (&Seen, &Seen), cores: f64) {
    let rows = [("p50", through.p50, direct.p50, 0.2), ("p99", through.p99, direct.p99, 5.0)];
    for (name, through_at, direct_at, most) in rows {
        let added = ms(through_at) - ms(direct_at);
        table.add(Row {
            what: format!("a delta, {many} streams × 50/s: {name}"),
            ours: format!(
                "{added:.2} ms added; {}; {} deltas/s; gate {cores:.2} cores, {:.0} µs CPU a delta",
                short(through_at),
                number(through.per_second),
                cores * 1e6 / through.per_second
            ),
            floor: format!("direct: {}; {} deltas/s", short(direct_at), number(direct.per_second)),
            ratio: None,
            target: Some(Target::Figure(added, most, "ms added")),
        });
    }
}
