//! What the index of calls costs the calls: a gate that keeps one beside a gate that keeps none.

use std::net::SocketAddr;
use std::time::Duration;

use wicketgate_support::bench::cpu;
use wicketgate_support::bench::folder::{Folder, Running, Sidecar, Store};
use wicketgate_support::bench::load::number;
use wicketgate_support::bench::table::{Row, Table, Target};

use crate::Plan;
use crate::calls::{self, SMALL};

/// Turns of both gates; each figure is the median of them.
const TURNS: usize = 5;
const CALLERS: usize = 128;

/// Calls per second, and processor time of the gate for each call.
#[derive(Clone, Copy)]
struct Turn(f64, f64);

async fn turn(plan: &Plan, sidecar: &Sidecar, running: &Running) -> Turn {
    let before = cpu::of(running.pid());
    let seen = calls::governed(plan, &sidecar.socket, CALLERS, SMALL).await;
    let used: Duration = cpu::of(running.pid()).saturating_sub(before);
    let took = (plan.each + plan.warm).as_secs_f64();
    Turn(seen.per_second, used.as_secs_f64() * 1e6 / (seen.per_second * took))
}

fn median(turns: &[Turn], of: fn(&Turn) -> f64) -> f64 {
    let mut all: Vec<f64> = turns.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn words(turns: &[Turn]) -> String {
    let (calls, cpu) = (median(turns, |turn| turn.0), median(turns, |turn| turn.1));
    format!("{} calls/s, {cpu:.0} µs CPU a call", number(calls))
}

/// The same calls with and without operators, in turns, on SQLite. Nobody looks anything up.
pub async fn measure(plan: &Plan, folder: &Folder, tool: SocketAddr, table: &mut Table) {
    let bare = folder.configure("index-none", &Store::Sqlite, "fifteen", tool);
    let kept = folder.configure("index-kept", &Store::Sqlite, "fifteen", tool);
    folder.add_operator(&kept);
    let (without, with) = (bare.start(), kept.start());
    let (mut floors, mut ours) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        floors.push(turn(plan, &bare, &without).await);
        ours.push(turn(plan, &kept, &with).await);
    }
    let memory = with.memory("VmRSS") - without.memory("VmRSS");
    with.stop();
    without.stop();
    let ratio = median(&ours, |turn| turn.0) / median(&floors, |turn| turn.0);
    table.add(Row {
        what: format!("governed calls with an index of calls, SQLite, {CALLERS} callers, median of {TURNS} turns"),
        ours: words(&ours),
        floor: format!("without: {}", words(&floors)),
        ratio: Some(ratio),
        target: Some(Target::AtLeast(0.98)),
    });
    table.add(Row {
        what: "memory of the index, the queue and the feed beside these calls".into(),
        ours: format!("{memory:.1} MiB RSS"),
        floor: String::new(),
        ratio: None,
        target: Some(Target::Figure(memory, 12.0, "MiB")),
    });
}
