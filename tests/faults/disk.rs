//! A disk without space under a SQLite ledger.

use std::process::Command;

use crate::checker::{Database, calls as calls_of, check};
use crate::sidecar::Estate;
use crate::tool::Tool;

/// A file system of its own, gone with this value.
struct Disk(tempfile::TempDir);

impl Disk {
    fn of_megabytes(size: u32) -> Disk {
        let dir = tempfile::tempdir().unwrap();
        let made = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}m"), "tmpfs"])
            .arg(dir.path())
            .status()
            .unwrap();
        assert!(made.success(), "a small file system cannot be mounted here: run as root");
        Disk(dir)
    }

    /// Takes all the space there is.
    fn fill(&self) {
        use std::io::Write as _;
        let mut file = std::fs::File::create(self.0.path().join("ballast")).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
    }

    fn empty(&self) {
        std::fs::remove_file(self.0.path().join("ballast")).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// A gate whose ledger is on a small disk.
struct Small {
    tool: Tool,
    disk: Disk,
    estate: Estate,
    database: Database,
}

impl Small {
    async fn new() -> Small {
        let tool = Tool::start().await;
        let disk = Disk::of_megabytes(24);
        let estate = Estate::sqlite(&tool);
        let file = disk.0.path().join("ledger.sqlite");
        estate.configure(|config| {
            config["ledger"]["sqlite"]["path"] = file.display().to_string().into();
        });
        Small { tool, disk, estate, database: Database::Sqlite(file) }
    }

    /// Bytes that are kept back for outcomes and take space on the disk.
    fn kept_back(&self) -> u64 {
        use std::os::unix::fs::MetadataExt as _;
        let reserve = self.disk.0.path().join("ledger.sqlite.reserve");
        std::fs::metadata(reserve).map_or(0, |meta| meta.len().min(meta.blocks() * 512))
    }
}

const RESERVE: u64 = 4 * 1024 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_that_runs_when_the_disk_is_full_gets_its_outcome_and_so_does_each_after_a_restart()
 {
    let small = Small::new().await;
    let mut sidecar = small.estate.serve().await;
    assert_eq!(small.kept_back(), RESERVE, "before the first call");
    let agent = sidecar.open().await;
    small.tool.hold();
    let calls: Vec<_> = (0..8)
        .map(|i| {
            let caller = agent.clone();
            tokio::spawn(async move { caller.call("work.do", &format!("owed-{i}"), "{}").await })
        })
        .collect();
    small.tool.entered(8).await;
    small.disk.fill();
    small.tool.release();
    for call in calls {
        let told = crate::within("an owed answer", call).await.unwrap().unwrap();
        assert!(told.contains("done"), "{told}");
    }
    small.disk.empty();
    sidecar.ready().await;
    assert_eq!(small.kept_back(), RESERVE, "once there is space");
    // What runs when the gate dies is closed by the next one, on a disk that was full before it began.
    small.tool.hold();
    let caller = agent.clone();
    let lost = tokio::spawn(async move { caller.call("work.do", "lost", "{}").await });
    small.tool.entered(1).await;
    small.disk.fill();
    sidecar.kill();
    lost.await.unwrap().unwrap_err();
    small.tool.release();
    let mut sidecar = small.estate.start();
    // Its file may have room enough for what the start writes; else the reserve is spent on that.
    let opened = |(ready, why): (bool, String)| ready || why.contains("no space for new calls");
    crate::within("a start on a full disk", async {
        while !sidecar.readiness().await.is_some_and(opened) {
            crate::pause().await;
        }
    })
    .await;
    small.disk.empty();
    // Nobody asks for anything; that there is space again is noticed all the same.
    sidecar.ready().await;
    assert_eq!(small.kept_back(), RESERVE, "after the restart");
    let agent = sidecar.open().await;
    agent.call("work.do", "after", "{}").await.unwrap();
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let summary = check(&small.database, &small.tool, &small.estate.receipts);
    assert_eq!(calls_of(&summary, "unknown"), 1, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_denies_before_execution_still_takes_outcomes_and_recovers_without_a_restart() {
    let Small { tool, disk, estate, database } = Small::new().await;
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "before", "{}").await.unwrap();
    tool.hold();
    let caller = agent.clone();
    let call = tokio::spawn(async move { caller.call("work.do", "owed", "{}").await });
    tool.entered(1).await;
    disk.fill();
    // Arguments enough that the file has to grow; the reserve is for outcomes, not for these.
    let large = format!(r#"{{"s":"{}"}}"#, "x".repeat(60_000));
    tool.release();
    let owed = crate::within("the owed answer", call).await.unwrap().unwrap();
    assert!(owed.contains("done"), "{owed}");
    let mut denied = None;
    for i in 0..500 {
        let ran = tool.count();
        match agent.call("work.do", &format!("full-{i}"), &large).await {
            Ok(_) => {}
            Err(refused) => {
                assert_eq!(refused.code, "ledger.unavailable", "{refused:?}");
                assert_eq!(tool.count(), ran, "it ran");
                denied = Some(i);
                break;
            }
        }
    }
    let denied = denied.expect("a full disk denies");
    sidecar.not_ready("no space").await;
    let still = agent.get("before").await.unwrap();
    assert!(still.contains("done"));
    disk.empty();
    sidecar.ready().await;
    let id = format!("full-{denied}");
    agent.call("work.do", &id, &large).await.unwrap();
    assert_eq!(tool.count_of(&id), 1);
    agent.seal().await.unwrap();
    sidecar.stop().await;
    let summary = check(&database, &tool, &estate.receipts);
    assert_eq!(calls_of(&summary, "unknown"), 0, "{summary}");
}
