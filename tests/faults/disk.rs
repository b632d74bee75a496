//! A disk without space under a SQLite ledger.

use std::process::Command;

use crate::checker::{Books, calls, check};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_denies_before_execution_still_takes_outcomes_and_recovers_without_a_restart() {
    let tool = Tool::start().await;
    let disk = Disk::of_megabytes(24);
    let estate = Estate::sqlite(&tool);
    let file = disk.0.path().join("ledger.sqlite");
    estate
        .configure(|config| config["ledger"]["sqlite"]["path"] = file.display().to_string().into());
    let books = Books::Sqlite(file);
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
    let summary = check(&books, &tool, &estate.receipts);
    assert_eq!(calls(&summary, "unknown"), 0, "{summary}");
}
