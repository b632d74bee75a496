//! What the MCP face adds to a call, beside the same call without the gate, in the same run.
//!
//! `cargo bench --bench mcp` prints one table; `-- --quick` in a third of the time. Nothing here asserts a time. See
//! benches/README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a measurement may stop at the first surprise, and prints"
)]

mod client;
mod far;
mod folder;

use std::time::Duration;
use wicketgate_support::bench::{self, floor};
use wicketgate_support::pg;

use client::{Era, Place};
use folder::{Folder, Store};
use wicketgate_support::bench::load::{self, Seen, short};
use wicketgate_support::bench::table::{Row, Table, Target};

/// Milliseconds that the face may add to the median.
const ADDED_MS: f64 = 1.0;

/// How long each measurement takes.
#[derive(Clone, Copy)]
struct Plan {
    each: Duration,
    warm: Duration,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| args.get(at).map(String::as_str);
    match word(0) {
        Some("upstream") => return far::serve(None),
        Some("proxy") => return far::serve(word(1)),
        _ => {}
    }
    bench::run("mcp [-- --quick]", async |asked| {
        let (each, warm) = if asked.quick() { (1000, 300) } else { (4000, 1000) };
        let [each, warm] = [each, warm].map(Duration::from_millis);
        measure(Plan { each, warm }).await;
    });
}

async fn measure(plan: Plan) {
    let mut table = Table::default();
    let database = pg::Pg::cluster().database().await;
    let upstream = far::upstream();
    let folder = Folder::new(upstream.address);
    table.say(&floor::machine(folder.dir(), &database.admin_url).await);
    let commit = floor::commit(&database.admin_url, plan.each / 2).await;
    let sync = floor::fdatasync(folder.dir());
    table.say(&format!(
        "one durable INSERT of {} B, Postgres: {}",
        floor::ENTRY_BYTES,
        commit.words("commits")
    ));
    let proxy = far::proxy(upstream.address);
    let direct = Place::plain(upstream.address);
    let forwarded = Place::plain(proxy.address);
    for store in [Store::Sqlite, Store::Postgres(database.writer_url.clone())] {
        let gate = folder.serve(&store);
        let governed = Place::gate(gate.agents);
        for era in [Era::Stateless, Era::Session] {
            for many in [1, 16] {
                // Close together, so that the machine is in the same mood for all three.
                let without = drive(plan, &direct, era, many).await;
                let behind = drive(plan, &forwarded, era, many).await;
                let through = drive(plan, &governed, era, many).await;
                let what = format!("{}, {}, {many} caller(s)", store.name(), era.name());
                rows(&mut table, &what, [&without, &behind, &through], many == 1);
            }
        }
        gate.stop();
    }
    let waits = match commit.p50.min(sync.p50) {
        least if least < Duration::from_micros(250) => "as fast as the target supposes",
        _ => "slower than the target supposes",
    };
    table.say(&format!("this disk is {waits} (fdatasync ≈ 0.1 ms)"));
    table.say(&floor::after(folder.dir()));
    table.finish();
}

async fn drive(plan: Plan, place: &Place, era: Era, many: usize) -> Seen {
    let mut callers = Vec::new();
    for name in 0..many {
        callers.push(place.connect(era, name).await);
    }
    load::drive(callers, plan.warm, plan.each, client::ask).await
}

/// Ours over the direct call, and over the plain reverse proxy.
fn rows(table: &mut Table, what: &str, [without, behind, through]: [&Seen; 3], target: bool) {
    let added = |floor: &Seen| through.p50.saturating_sub(floor.p50).as_secs_f64() * 1e3;
    for (name, floor) in [("direct", without), ("plain reverse proxy", behind)] {
        let added = added(floor);
        table.add(Row {
            what: format!("{what}, over {name}"),
            ours: format!("{added:.2} ms added; {}", through.words("calls")),
            floor: format!("p50 {}, p99 {}", short(floor.p50), short(floor.p99)),
            ratio: Some(through.p50.as_secs_f64() / floor.p50.as_secs_f64()),
            target: (target && name == "direct")
                .then_some(Target::Figure(added, ADDED_MS, "ms added")),
        });
    }
}
