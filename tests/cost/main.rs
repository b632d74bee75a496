//! What a governed call costs, in what noise cannot move: bytes written, waits for the disk and messages to the database,
//! counted from outside by the system calls of the real program.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise"
)]

use std::collections::BTreeMap;
use std::ops::Sub;

use futures_util::future::join_all;

use wicketgate_support::agent::Agent;
use wicketgate_support::pg::Pg;
use wicketgate_support::sidecar::Estate;
use wicketgate_support::tool::Tool;

/// What is written to some of the gate's files.
#[derive(Clone, Copy, Debug)]
struct Cost {
    bytes: u64,
    /// `fsync` and `fdatasync`.
    syncs: u64,
}

impl Sub for Cost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { bytes: self.bytes - other.bytes, syncs: self.syncs - other.syncs }
    }
}

impl Cost {
    /// Reads what `strace -f -y` wrote about these files: one line for a call, or two if others came in between.
    fn of(files: &str, trace: &str) -> Self {
        let mut cost = Self { bytes: 0, syncs: 0 };
        let mut begun: BTreeMap<&str, &str> = BTreeMap::new();
        for line in trace.lines() {
            let Some((thread, call)) = line.trim().split_once(' ') else { continue };
            let call = call.trim_start();
            if call.ends_with("<unfinished ...>") {
                begun.insert(thread, call);
                continue;
            }
            let first = if call.starts_with("<...") { begun.remove(thread) } else { Some(call) };
            let Some(first) = first.filter(|first| first.contains(files)) else {
                continue;
            };
            let answer = call.rsplit("= ").next().unwrap_or_default().trim();
            // The program ended in it: the thread was seen to end, or was gone before it was looked at.
            if answer == "?" || call.ends_with("<detached ...>") {
                continue;
            }
            let answer: u64 =
                answer.parse().unwrap_or_else(|_| panic!("a system call failed: {line}"));
            if first.contains("sync(") {
                cost.syncs += 1;
            } else {
                cost.bytes += answer;
            }
        }
        cost
    }
}

/// The system calls that write, with the names of the files.
const WRITES: [&str; 3] = ["-y", "-e", "trace=pwrite64,pwritev,write,writev,fsync,fdatasync"];

/// What a gate writes to its ledger from its start to its end, with so many callers that make so many calls each.
async fn lived(callers: usize, calls: usize) -> Cost {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let trace = traced_calls(&tool, &estate, (callers, calls), &WRITES).await;
    Cost::of("/state/ledger.sqlite", &trace)
}

/// What a gate on PostgreSQL writes to its spool in the same life, with one caller.
async fn spooled(calls: usize) -> Cost {
    let (tool, db) = (Tool::start().await, Pg::cluster().database().await);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let trace = traced_calls(&tool, &estate, (1, calls), &WRITES).await;
    Cost::of("/state/spool/", &trace)
}

/// How many messages with entries a gate sends to its database, in the same life. The operators' orders, for which it
/// asks every second, cost by time and not by call.
async fn sent(callers: usize, calls: usize) -> u64 {
    let (tool, db) = (Tool::start().await, Pg::cluster().database().await);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let traced = "trace=sendto,sendmsg,write,writev";
    let trace =
        traced_calls(&tool, &estate, (callers, calls), &["-s", "200", "-yy", "-e", traced]).await;
    let to = format!("->127.0.0.1:{}]", Pg::cluster().port());
    let appends = |line: &&str| line.contains(&to) && line.contains("append_batch");
    trace.lines().filter(appends).count() as u64
}

/// The system calls of a gate from its start to its end.
async fn traced_calls(
    tool: &Tool,
    estate: &Estate,
    (callers, calls): (usize, usize),
    what: &[&str],
) -> String {
    let trace = estate.path("trace").display().to_string();
    let strace = [&["strace", "-f", "-qqq", "-s", "0", "-o", &trace], what].concat();
    let mut sidecar = estate.start_under(&strace);
    sidecar.ready().await;
    let agents = join_all((0..callers).map(|_| sidecar.open())).await;
    join_all(agents.iter().map(|agent| all(agent, calls))).await;
    for agent in agents {
        agent.seal().await.unwrap();
    }
    // The tracer hears no signal, and ends with what it traced.
    rustix::process::kill_process_group(sidecar.pid(), rustix::process::Signal::TERM).unwrap();
    sidecar.ends(0).await;
    assert_eq!(tool.count() as usize, callers * calls);
    std::fs::read_to_string(&trace).unwrap()
}

async fn all(agent: &Agent, calls: usize) {
    for n in 0..calls {
        agent.call("work.do", &format!("c{n}"), r#"{"n":1}"#).await.unwrap();
    }
}

/// The cost of one call, beside starting and ending.
async fn per_call(callers: usize, calls: usize) -> (u64, f64) {
    let less = lived(callers, 1).await;
    let more = lived(callers, 1 + calls).await;
    let (cost, made) = (more - less, (callers * calls) as u64);
    println!("{callers} callers: {} bytes, {} syncs in {made} calls", cost.bytes, cost.syncs);
    (cost.bytes / made, cost.syncs as f64 / made as f64)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_alone_writes_at_most_48_kib_and_waits_for_the_disk_twice() {
    let (bytes, syncs) = per_call(1, 200).await;
    assert!(bytes <= 48 * 1024, "{bytes} bytes for one call");
    // A checkpoint of the WAL waits too, once in many calls.
    assert!((2.0..2.1).contains(&syncs), "{syncs} syncs for one call");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_16_callers_share_their_commits() {
    let (bytes, syncs) = per_call(16, 20).await;
    // How many share a commit depends on how busy the machine is. The bench `road` measures it.
    assert!(bytes <= 32 * 1024, "{bytes} bytes for one call");
    assert!(syncs < 1.5, "{syncs} syncs for one call");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_alone_on_postgres_waits_for_the_spool_twice() {
    let (less, more) = (spooled(1).await, spooled(201).await);
    let cost = more - less;
    println!("one caller: {} bytes, {} syncs of the spool in 200 calls", cost.bytes, cost.syncs);
    let (bytes, syncs) = (cost.bytes / 200, cost.syncs as f64 / 200.0);
    // Each byte is written as a zero first, up to a mebibyte at once.
    assert!(bytes <= 24 * 1024, "{bytes} bytes for one call");
    assert!((2.0..2.1).contains(&syncs), "{syncs} syncs for one call");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_asks_the_database_twice_and_calls_of_16_callers_share_that() {
    for (callers, calls, most) in [(1, 200, 2.1), (16, 20, 1.6)] {
        let (less, more) = (sent(callers, 1).await, sent(callers, 1 + calls).await);
        let each = (more - less) as f64 / (callers * calls) as f64;
        println!("{callers} callers: {each} messages to the database for one call");
        assert!(each <= most, "{each} messages for one call of {callers} callers");
    }
}
