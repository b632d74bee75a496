//! Others who change files while calls run.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::rig::{Rig, sha256};

/// Swaps two names again and again until it is stopped.
struct Swapper {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Swapper {
    /// Has swapped them once when this returns.
    fn of(a: PathBuf, b: PathBuf) -> Self {
        let (begun, first) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let (cwd, exchange) = (rustix::fs::CWD, rustix::fs::RenameFlags::EXCHANGE);
                // One of them may be away for a moment.
                if rustix::fs::renameat_with(cwd, &a, cwd, &b, exchange).is_ok() {
                    // Heard once.
                    begun.send(()).unwrap_or_default();
                }
                std::thread::yield_now();
            }
        });
        first.recv().unwrap();
        Self { stop, thread }
    }

    fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// What one round of a race is like: nobody swaps in the calm ones, whose end is certain however busy the
/// machine is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    Race,
    CalmFile,
    CalmLink,
}

impl Round {
    fn of(round: u32) -> Self {
        match round % 10 {
            0 => Self::CalmFile,
            5 => Self::CalmLink,
            _ => Self::Race,
        }
    }

    /// One call while `name` and `link` are as this round has them.
    async fn call(self, rig: &Rig, agent: &Agent, (name, link): (&str, &str), args: Value) {
        let (name, link) = (rig.path(name), rig.path(link));
        let swapper = (self == Self::Race).then(|| Swapper::of(name.clone(), link.clone()));
        if self == Self::CalmLink {
            let cwd = rustix::fs::CWD;
            rustix::fs::renameat_with(cwd, name, cwd, link, rustix::fs::RenameFlags::EXCHANGE)
                .unwrap();
        }
        let answer = rig.call(agent, "fs.heavy", args).await;
        if let Some(swapper) = swapper {
            swapper.end();
        }
        match (self, answer) {
            (Self::CalmFile, answer) => drop(answer.unwrap()),
            (Self::CalmLink, answer) => drop(answer.unwrap_err()),
            (Self::Race, Ok(_)) => {}
            (Self::Race, Err(fault)) => {
                let expected = ["policy.denied", "tool.failed", "effect.refused"];
                assert!(expected.contains(&fault.code.as_str()), "{fault:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn swapping_a_directory_for_a_link_never_writes_outside() {
    let rig = Rig::new().await;
    let (sidecar, agent) = rig.serve().await;
    for round in 0..300 {
        // As they were: the last round may have ended on either.
        for name in ["d", "link"] {
            let path = rig.path(name);
            drop(std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path)));
        }
        std::fs::create_dir(rig.path("d")).unwrap();
        rig.put("d/canary", "inside");
        symlink(rig.keeper.path("outside"), rig.path("link")).unwrap();
        let mode = ["write", "create"][round as usize / 10 % 2];
        let path = if mode == "write" { "d/canary".to_owned() } else { format!("d/new-{round}") };
        let args = json!({"path": path, "content": "OWNED", "mode": mode});
        Round::of(round).call(&rig, &agent, ("d", "link"), args).await;
        rig.canary();
    }
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn swapping_the_target_for_a_link_never_writes_through_it() {
    let rig = Rig::new().await;
    let (sidecar, agent) = rig.serve().await;
    for round in 0..300 {
        for name in ["t.txt", "link"] {
            drop(std::fs::remove_file(rig.path(name)));
        }
        rig.put("t.txt", "calm");
        symlink(rig.keeper.path("outside/canary"), rig.path("link")).unwrap();
        let args = json!({"path": "t.txt", "content": format!("X{round}")});
        Round::of(round).call(&rig, &agent, ("t.txt", "link"), args).await;
        rig.canary();
    }
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn writers_that_say_what_they_saw_lose_no_update_of_each_other() {
    const WRITERS: u64 = 6;
    const EACH: u64 = 8;
    let rig = Arc::new(Rig::new().await);
    rig.put("count", "0");
    let (sidecar, agent) = rig.serve().await;
    let writers: Vec<_> = (0..WRITERS)
        .map(|_| {
            let (rig, agent) = (Arc::clone(&rig), agent.clone());
            tokio::spawn(async move {
                let mut done = 0;
                while done < EACH {
                    let read = rig.call(&agent, "fs.read", json!({"path": "count"})).await;
                    // Another writer was on its way.
                    let Ok(read) = read else { continue };
                    let seen = read["text"].as_str().unwrap().to_owned();
                    let next = (seen.parse::<u64>().unwrap() + 1).to_string();
                    let args = json!({"path": "count", "content": next, "if_match": sha256(&seen)});
                    done += u64::from(rig.call(&agent, "fs.heavy", args).await.is_ok());
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(rig.text("count"), (WRITERS * EACH).to_string());
    rig.end(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_create_one_file_one_does() {
    let rig = Arc::new(Rig::new().await);
    let (sidecar, agent) = rig.serve().await;
    let makers: Vec<_> = (0..12)
        .map(|n| {
            let (rig, agent) = (Arc::clone(&rig), agent.clone());
            tokio::spawn(async move {
                let content = format!("maker {n}");
                let args = json!({"path": "made", "content": content, "mode": "create"});
                rig.call(&agent, "fs.write", args).await.map(|_: Value| content)
            })
        })
        .collect();
    let mut made = Vec::new();
    for maker in makers {
        made.extend(maker.await.unwrap());
    }
    assert_eq!(made, [rig.text("made")]);
    rig.end(sidecar, &agent).await;
}
