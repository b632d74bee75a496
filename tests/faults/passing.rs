//! A disk that fails for a while and then works again, under a gate that nobody starts anew.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::checker::{calls, check};
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;

/// System calls of a running program fail for as long as this lives.
struct Failing(Child);

impl Failing {
    /// They do when this returns.
    fn begin(sidecar: &Sidecar, inject: &str) -> Failing {
        let pid = sidecar.pid().as_raw_nonzero().to_string();
        let name = inject.split(':').next().unwrap();
        let mut child = Command::new("strace")
            .args(["-f", "-o", "/dev/null", "-p", &pid, "-e", &format!("trace={name}")])
            .args(["-e", &format!("inject={inject}")])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|e| panic!("strace (tests/run installs it): {e}"));
        let mut said = String::new();
        let mut err = BufReader::new(child.stderr.take().unwrap());
        while !said.contains(" attached") {
            assert_ne!(err.read_line(&mut said).unwrap(), 0, "strace: {said}");
        }
        // It has more to say of threads that come and go, and must not wait for a reader.
        std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
        Failing(child)
    }
}

impl Drop for Failing {
    fn drop(&mut self) {
        // Asked to end, it lets go of every thread between two calls, not within one.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Before, while and after: what is denied never runs, what ran is on the books, and service goes on.
///
/// `reason` is a part of what readiness says. SQLite that opens a full disk anew may give another reason than that it is full.
async fn passes(inject: &str, reason: &str, at_least: Duration) {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    // Calls that cannot be recorded are refused soon, not late.
    estate.configure(|config| config["limits"]["commit_wait_ms"] = 500.into());
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "before", "{}").await.unwrap();
    tool.hold();
    let caller = agent.clone();
    let owed = tokio::spawn(async move { caller.call("work.do", "owed", "{}").await });
    tool.entered(1).await;
    let failing = Failing::begin(&sidecar, inject);
    let (began, mut denied) = (Instant::now(), Vec::new());
    while denied.len() < 3 || began.elapsed() < at_least {
        let id = format!("denied-{}", denied.len());
        let refused = agent.call("work.do", &id, "{}").await.expect_err(&id);
        assert!(["ledger.unavailable", "ledger.unknown"].contains(&&*refused.code), "{refused:?}");
        denied.push(id);
    }
    tool.release();
    sidecar.not_ready(reason).await;
    drop(failing);
    sidecar.ready().await;
    // Whatever its caller was told in time, the outcome of what ran is kept.
    let _ = crate::within("the owed answer", owed).await.unwrap();
    crate::until("the owed outcome on the books", || async {
        agent.get("owed").await.is_ok_and(|told| told.contains("done"))
    })
    .await;
    agent.call("work.do", "after", "{}").await.unwrap();
    for id in &denied {
        assert_eq!(tool.count_of(id), 0, "{id} ran");
    }
    assert_eq!(tool.count(), 3);
    agent.seal().await.unwrap();
    assert!(sidecar.ended().is_none(), "it is the same process: {}", sidecar.said());
    sidecar.stop().await;
    std::fs::write(estate.path("trust.txt"), "enrolment-key state/enrolment.key.pub\n").unwrap();
    let verify = ["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"];
    let told = run(&estate.path("."), &verify);
    assert!(told.contains(&format!("VALID {}", estate.origin().await)), "{told}");
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(calls(&summary, "unknown"), 0, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_fail_for_a_while_deny_calls_and_the_same_gate_serves_on_afterwards() {
    passes("pwrite64:error=EIO", "disk I/O error", Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_fail_for_longer_than_a_lease_lasts_end_no_gate() {
    passes("pwrite64:error=EIO", "disk I/O error", Duration::from_secs(17)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_is_full_in_every_write_for_a_while_denies_calls_and_the_same_gate_serves_on() {
    passes("pwrite64:error=ENOSPC", "ledger: failing", Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_writes_that_both_fail_for_a_while_deny_calls_and_the_same_gate_serves_on() {
    passes("pread64,pwrite64:error=EIO", "disk I/O error", Duration::ZERO).await;
}
