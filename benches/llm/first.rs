//! From the request to the first delta: what one caller waits longer behind the gate.

use std::time::{Duration, Instant};

use wicketgate_support::bench::cpu;
use wicketgate_support::bench::floor;
use wicketgate_support::bench::load::{Seen, short};
use wicketgate_support::bench::table::{Row, Table, Target};

use crate::client::Place;
use crate::conversation::Conversation;
use crate::provider::AT_ONCE;
use crate::{Plan, Scene, added};

const KIB: usize = 1 << 10;
/// The deltas of each answer.
const DELTAS: usize = 1;
/// The smaller of two requests whose difference is the cost of a KiB.
const SMALL: usize = 4 * KIB;
/// The larger one, if all of it is new.
const NEW: usize = 64 * KIB;
/// The larger one, if all but the last message was sent before: read on the thread of its connection.
const SEEN: usize = 196 * KIB;
/// A request of the hundredth turn.
const LONG: usize = 1 << 20;

/// Requests before a measurement, and in one, however long they take.
const WARM_MIN: usize = 3;
const ASKED_MIN: usize = 20;

/// What one size of a request costs.
struct Cost {
    /// Milliseconds that the gate adds at the median.
    added: f64,
    direct: Seen,
    through: Seen,
    /// Processor time of the gate for one request.
    cpu: Duration,
}

/// Prints the rows about one caller.
pub async fn measure(plan: &Plan, scene: &Scene, table: &mut Table) {
    let sync = floor::fdatasync(scene.folder.dir());
    table.say(&format!("one durable commit: fdatasync p50 {}", short(sync.p50)));
    let few = Conversation::new(AT_ONCE, DELTAS, 0);
    let mut news = Vec::new();
    for bytes in [SMALL, NEW] {
        let cost = cost(plan, scene, || few.with_new(bytes)).await;
        let what = format!("first delta, {} KiB, all new", bytes / KIB);
        row(table, &what, (&cost, &sync), 1.0);
        news.push(cost);
    }
    let mut seen = Vec::new();
    for bytes in [SMALL, SEEN, LONG] {
        let before = Conversation::new(AT_ONCE, DELTAS, bytes);
        let cost = cost(plan, scene, || before.next()).await;
        let what = format!("first delta, {} KiB, all but the last message seen", bytes / KIB);
        row(table, &what, (&cost, &sync), if bytes == LONG { 5.0 } else { 1.0 });
        seen.push(cost);
    }
    further(table, "new", (&news[0], &news[1]), ((NEW - SMALL) / KIB, 16.0));
    further(table, "seen before", (&seen[0], &seen[1]), ((SEEN - SMALL) / KIB, 3.0));
}

async fn cost(plan: &Plan, scene: &Scene, body: impl Fn() -> String) -> Cost {
    // Close together, so that the machine is in the same mood for both.
    let (direct, _) = ask(plan, scene, Place::Direct(scene.provider.address), &body).await;
    let (through, cpu) = ask(plan, scene, Place::Gate(scene.gate.agents), &body).await;
    Cost { added: added(&through, &direct), direct, through, cpu }
}

/// Asks again and again: the times to the first delta, and the processor time of the gate for each
/// request.
async fn ask(
    plan: &Plan,
    scene: &Scene,
    place: Place,
    body: &impl Fn() -> String,
) -> (Seen, Duration) {
    let mut caller = place.connect("first").await;
    // What is seen before was sent once at least.
    let mut all = Vec::new();
    let mut before = (Instant::now(), Duration::ZERO);
    for (least, time) in [(WARM_MIN, plan.warm), (ASKED_MIN, plan.each)] {
        before = (Instant::now(), cpu::of(scene.gate.pid()));
        all.clear();
        while all.len() < least || before.0.elapsed() < time {
            all.push(caller.stream(body(), DELTAS).await.first);
        }
    }
    let used = cpu::of(scene.gate.pid()).saturating_sub(before.1) / all.len() as u32;
    (Seen::of(all, before.0.elapsed()), used)
}

fn row(table: &mut Table, what: &str, (cost, sync): (&Cost, &Seen), most: f64) {
    let beside = cost.added - crate::ms(sync.p50);
    table.add(Row {
        what: what.to_owned(),
        ours: format!(
            "{:.2} ms added, {beside:.2} ms beside one commit; p50 {}, p99 {}; gate CPU {} a request",
            cost.added,
            short(cost.through.p50),
            short(cost.through.p99),
            short(cost.cpu)
        ),
        floor: format!("direct: p50 {}, p99 {}", short(cost.direct.p50), short(cost.direct.p99)),
        ratio: Some(cost.through.p50.as_secs_f64() / cost.direct.p50.as_secs_f64()),
        target: Some(Target::Figure(beside, most, "ms beside one commit")),
    });
}

fn further(
    table: &mut Table,
    what: &str,
    (small, large): (&Cost, &Cost),
    (kib, most): (usize, f64),
) {
    let each = (large.added - small.added) * 1e3 / kib as f64;
    table.add(Row {
        what: format!("each further KiB that is {what}"),
        ours: format!("{each:.1} µs"),
        floor: String::new(),
        ratio: None,
        target: Some(Target::Figure(each, most, "µs")),
    });
}
