//! What a gate costs where it runs: `cargo bench --bench deployment`, `-- --quick` with short measurements, `start`, `calls`,
//! `drain` and `injector` alone.
//!
//! The program as released, on SQLite beside a tool that answers at once: its size, from start to ready, memory at rest and
//! under 128 callers, from SIGTERM to the end, and what mutual TLS adds to a call over the Unix socket, by turns in one run. Then the
//! injector: the time and the memory of an admission.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a bench may stop at the first surprise, and looks at a clock"
)]

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

mod agents;
mod injector;

use agents::{Agent, Place};
use wicketgate_support::bench::folder::{Folder, Sidecar, Store};
use wicketgate_support::bench::load::{self, Seen, short};
use wicketgate_support::bench::table::{Row, Table, Target};
use wicketgate_support::bench::{self, Asked, tool};
use wicketgate_support::ca::Ca;
use wicketgate_support::program;

/// The agent's SPIFFE id.
const AGENT: &str = "spiffe://example.org/ns/agents/sa/bench";
/// Callers at once, as many as numbers are given for.
const CALLERS: usize = 128;
/// Gates that are started, or ended, for one figure.
const LIVES: usize = 7;

/// How long each measurement takes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// One measurement.
    pub each: Duration,
    /// Before each measurement.
    pub warm: Duration,
}

fn main() {
    bench::run("deployment [-- --quick] [start calls drain injector]", measure);
}

async fn measure(asked: Asked) {
    let mut table = Table::default();
    let (folder, ca) = (Folder::new(), Ca::new());
    ca.server("gate");
    ca.svid("agent", &format!("URI:{AGENT}"));
    let tool = tool::start().await;
    sizes(folder.dir(), &mut table);
    let (sidecar, at) = secured(&folder, &ca, tool);
    let lives = if asked.quick() { 3 } else { LIVES };
    if asked.wants("start") {
        starts(&sidecar, lives, &mut table);
    }
    let each = Duration::from_millis(if asked.quick() { 500 } else { 4000 });
    let plan = Plan { each, warm: each / 8 };
    if asked.wants("calls") {
        let places = [Place::Unix(sidecar.socket.clone()), Place::tls(&ca, at)];
        transports(&sidecar, &places, plan, &mut table).await;
    }
    if asked.wants("drain") {
        drains(&sidecar, lives, &mut table).await;
    }
    if asked.wants("injector") {
        injector::admissions(folder.dir(), &ca, plan, &mut table).await;
    }
    table.finish();
}

/// The two programs, stripped as a release is. The image is the first of them, one file of authorities, and nothing else.
fn sizes(dir: &Path, table: &mut Table) {
    let gate = Path::new(program::gate());
    for (name, most) in [("wicketgate", 35.0), ("wicketgate-verify", 8.0)] {
        let file = gate.with_file_name(name);
        let released = dir.join(name);
        let strip = Command::new("strip").arg("-o").arg(&released).arg(file).status();
        assert!(strip.unwrap().success());
        let mib = std::fs::metadata(released).unwrap().len() as f64 / f64::from(1 << 20);
        let target = Some(Target::Figure(mib, most, "MiB"));
        table.add(Row { target, ..row(&format!("size of `{name}`"), format!("{mib:.1} MiB")) });
    }
}

/// A gate whose agents come by Unix socket, or by mutual TLS from elsewhere.
fn secured(folder: &Folder, ca: &Ca, tool: SocketAddr) -> (Sidecar, SocketAddr) {
    let sidecar = folder.configure("deployed", &Store::Sqlite, "fifteen", tool);
    let at = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let file = folder.dir().join("deployed.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    let [cert, key, authority] = ["gate.pem", "gate.key", "ca.pem"].map(|name| ca.shown(name));
    let listen = format!(
        "listen: {{tcp: \"{at}\", tls: {{cert: \"{cert}\", key: \"{key}\", client_ca: \"{authority}\"}}}}\n"
    );
    let text = text.replace("callers: [", &format!("callers: [{{spiffe: \"{AGENT}\"}}, "));
    std::fs::write(&file, format!("{text}{listen}")).unwrap();
    (sidecar, at)
}

fn starts(sidecar: &Sidecar, lives: usize, table: &mut Table) {
    let mut took = Vec::new();
    let mut rest = 0.0;
    // The first one makes its keys.
    for life in 0..=lives {
        let running = sidecar.start();
        if life > 0 {
            took.push(running.ready_after);
        }
        rest = running.memory("VmRSS");
        running.stop();
    }
    let median = middle(took);
    let target = Target::Figure(median.as_secs_f64() * 1e3, 60.0, "ms");
    table.add(Row { target: Some(target), ..row("start to ready", short(median)) });
    let target = Target::Figure(rest, 30.0, "MiB");
    table.add(Row { target: Some(target), ..row("memory at rest", format!("{rest:.1} MiB RSS")) });
}

/// Calls by each way in, in turns; then 128 callers by the last of them.
async fn transports(sidecar: &Sidecar, places: &[Place], plan: Plan, table: &mut Table) {
    let running = sidecar.start();
    let mut kept = [Vec::new(), Vec::new()];
    let mut fresh = [Vec::new(), Vec::new()];
    for _ in 0..4 {
        for (at, place) in places.iter().enumerate() {
            let agents = vec![Agent::open(place, at).await];
            let seen = load::drive(agents, plan.warm, plan.each, Agent::ask).await;
            kept[at].push(seen.p50);
            let agents = vec![Agent::open(place, at).await];
            fresh[at].push(load::drive(agents, plan.warm, plan.each, Agent::reconnect).await.p50);
        }
    }
    for (what, spans) in [("a kept connection", kept), ("a new connection for each call", fresh)] {
        let [plain, tls] = spans.map(middle);
        table.add(Row {
            floor: format!("Unix socket: p50 {}", short(plain)),
            ratio: Some(tls.as_secs_f64() / plain.as_secs_f64()),
            ..row(
                &format!("governed call by mutual TLS, {what}, 1 caller"),
                format!("p50 {}, {} more", short(tls), short(tls.saturating_sub(plain))),
            )
        });
    }
    let mut many = Vec::new();
    for place in places {
        many.push(crowd(place, plan).await);
    }
    table.add(Row {
        floor: format!("Unix socket: {}", many[0].words("calls")),
        ratio: Some(many[1].per_second / many[0].per_second),
        ..row(
            &format!("governed calls by mutual TLS, {CALLERS} callers with a connection each"),
            many[1].words("calls"),
        )
    });
    let most = running.memory("VmHWM");
    let target = Target::Figure(most, 60.0, "MiB");
    let what = format!("memory at most, {CALLERS} callers with a connection each, both ways");
    table.add(Row { target: Some(target), ..row(&what, format!("{most:.1} MiB RSS")) });
    running.stop();
}

async fn crowd(place: &Place, plan: Plan) -> Seen {
    let mut agents = Vec::new();
    for name in 0..CALLERS {
        agents.push(Agent::open(place, name).await);
    }
    load::drive(agents, plan.warm, plan.each, Agent::ask).await
}

/// From SIGTERM to the end of the process, with open runs nobody calls in.
async fn drains(sidecar: &Sidecar, lives: usize, table: &mut Table) {
    let place = Place::Unix(sidecar.socket.clone());
    for many in [0, 1, CALLERS] {
        // Their runs go on over restarts.
        let (mut took, mut agents) = (Vec::new(), Vec::new());
        for life in 0..lives {
            let running = sidecar.start();
            for name in agents.len()..many {
                agents.push(Agent::open(&place, name).await);
            }
            let mut asked = Vec::new();
            for agent in agents {
                asked.push(agent.reconnect(life as u64).await);
            }
            agents = asked;
            let began = Instant::now();
            tokio::task::spawn_blocking(move || running.stop()).await.unwrap();
            took.push(began.elapsed());
        }
        table.add(row(&format!("SIGTERM to the end, {many} open runs"), short(middle(took))));
        let running = sidecar.start();
        for agent in agents {
            agent.seal().await;
        }
        running.stop();
    }
}

fn middle(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all[all.len() / 2]
}

fn row(what: &str, ours: String) -> Row {
    Row { what: what.to_owned(), ours, floor: String::new(), ratio: None, target: None }
}
