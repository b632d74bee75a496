//! Full disks and killed gates: a file is what it was or what it was to be.

use std::process::Command;

use serde_json::json;

use crate::agent::Agent;
use crate::rig::Rig;

/// A small file system over the root, gone with this value.
struct Disk(std::path::PathBuf);

impl Disk {
    fn over(rig: &Rig) -> Disk {
        let at = rig.path("");
        let size = ["-t", "tmpfs", "-o", "size=256k", "tmpfs"];
        let made = Command::new("mount").args(size).arg(&at).status().unwrap();
        assert!(made.success(), "a small file system cannot be mounted here: run as root");
        Disk(at)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_fails_the_write_and_leaves_the_file_as_it_was() {
    let rig = Rig::new().await;
    let _disk = Disk::over(&rig);
    rig.put("a.txt", "old");
    let (sidecar, agent) = rig.serve().await;
    for path in ["a.txt", "new.txt"] {
        let args = json!({"path": path, "content": "x".repeat(600_000)});
        let refused = rig.call(&agent, "fs.write", args).await.unwrap_err();
        assert_eq!(refused.code, "tool.failed", "{refused:?}");
        assert!(refused.message.contains("no space left"), "{refused:?}");
        rig.tidy();
    }
    assert_eq!(rig.text("a.txt"), "old");
    assert!(!rig.path("new.txt").exists());
    rig.write(&agent, "a.txt", "new").await;
    assert_eq!(rig.text("a.txt"), "new");
    rig.end(sidecar, &agent).await;
}

/// The gate is killed as it enters the first of these system calls within a write; what the file is
/// then, and after the next start.
async fn killed_in(call: &str, mode: &str) -> (Rig, Option<String>, Agent) {
    let rig = Rig::new().await;
    rig.put("a.txt", "old");
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:signal=KILL:when=1"));
    let strace = ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &inject];
    let mut sidecar = rig.keeper.estate.start_under(&strace);
    sidecar.ready().await;
    let agent = sidecar.open().await;
    let mut args = json!({"path": "a.txt", "mode": mode});
    if mode == "write" {
        args["content"] = "new".into();
    }
    assert!(agent.call("fs.write", "w", &args.to_string()).await.is_err());
    sidecar.end().await;
    let left = std::fs::read_to_string(rig.path("a.txt")).ok();
    (rig, left, agent)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gate_killed_in_a_write_leaves_the_old_file_or_the_new_one_and_nothing_else() {
    for (call, mode, wanted) in [
        ("renameat2", "write", Some("old")),
        ("unlinkat", "write", Some("new")),
        ("renameat2", "delete", Some("old")),
        ("unlinkat", "delete", None),
    ] {
        let (rig, left, agent) = killed_in(call, mode).await;
        assert_eq!(left.as_deref(), wanted, "{call} {mode}");
        let sidecar = rig.keeper.estate.serve().await;
        rig.tidy();
        let told = agent.get("w").await.unwrap_err();
        assert_eq!(told.code, "call.unknown", "{call}: {told:?}");
        assert_eq!(std::fs::read_to_string(rig.path("a.txt")).ok().as_deref(), wanted);
        // Nobody knows whether it happened; the file tells, and it is put back.
        agent.seal().await.unwrap();
        let back = crate::rollback::roll(&rig, &agent.run, &[]);
        assert_eq!(back.code, 0, "{back:?}");
        assert_eq!(rig.text("a.txt"), "old", "{call} {mode}");
        rig.keeper.tool.did(u32::from(wanted != Some("old")));
        rig.end(sidecar, &yard_agent(&rig).await).await;
    }
}

async fn yard_agent(rig: &Rig) -> Agent {
    Agent::open(&rig.keeper.estate.socket(), &rig.keeper.estate.receipts).await
}
