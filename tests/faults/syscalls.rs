//! System calls of the real program that fail, or never return because it was killed in them.

use crate::agent::Agent;
use crate::checker::check;
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

/// The program under a tracer that does something to its system calls.
fn traced(estate: &Estate, inject: &str) -> Sidecar {
    let name = inject.split(':').next().unwrap();
    let (trace, inject) = (format!("trace={name}"), format!("inject={inject}"));
    estate.start_under(&["strace", "-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &inject])
}

/// A few calls, as far as they get; whatever was answered is kept as a receipt.
async fn drive(sidecar: &mut Sidecar, estate: &Estate) -> Option<Agent> {
    let mut agent = None;
    let began = std::time::Instant::now();
    while sidecar.ended().is_none() && began.elapsed() < crate::PATIENCE {
        if sidecar.readiness().await.is_some_and(|(ready, _)| ready) {
            break;
        }
        if sidecar.said().contains("readiness ready=false reasons=[\"policy: no bundle") {
            return None;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    if let Ok(opened) = Agent::try_open(&estate.socket(), &estate.receipts).await {
        for i in 0..3 {
            let _ = opened.call("work.do", &format!("t-{i}"), r#"{"n":1}"#).await;
        }
        agent = Some(opened);
    }
    agent
}

/// What must hold after whatever happened: the books check, nothing ran twice, the run goes on.
async fn aftermath(tool: &Tool, estate: &Estate, agent: Option<Agent>, point: &str) {
    let mut sidecar = estate.start();
    sidecar.ready().await;
    if let Some(agent) = agent {
        for i in 0..3 {
            let _ = agent.call("work.do", &format!("t-{i}"), r#"{"n":1}"#).await;
        }
        agent
            .call("work.do", "after", r#"{"n":2}"#)
            .await
            .unwrap_or_else(|e| panic!("{point}: {e:?}"));
        agent.seal().await.unwrap_or_else(|e| panic!("{point}: {e:?}"));
    }
    sidecar.stop().await;
    check(&estate.books, tool, &estate.receipts);
}

/// Kills the program in the nth call of this name, for every n: in each thread that gets so far.
async fn killed_at(name: &str, points: impl Iterator<Item = u32>) {
    let mut killed = 0;
    for n in points {
        let tool = Tool::start().await;
        let estate = Estate::sqlite(&tool);
        let inject = format!("{name}:signal=KILL:when={n}");
        let mut sidecar = traced(&estate, &inject);
        let agent = drive(&mut sidecar, &estate).await;
        killed += u32::from(sidecar.ended().is_some());
        sidecar.kill();
        aftermath(&tool, &estate, agent, &inject).await;
    }
    assert!(killed > 0, "no point of {name} was ever reached");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_any_fdatasync_it_loses_nothing_it_answered() {
    killed_at("fdatasync", 1..=14).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_any_positioned_write_it_loses_nothing_it_answered() {
    killed_at("pwrite64", (1..=12).chain((14..60).step_by(4))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_any_write_it_starts_again_from_whatever_files_it_left() {
    killed_at("write", 1..=16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_any_fsync_rename_or_send_it_starts_again() {
    killed_at("fsync", 1..=8).await;
    killed_at("rename", 1..=3).await;
    killed_at("sendto", 1..=6).await;
}

/// A failed fdatasync proves nothing about what is on the disk: the program stops serving.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_fdatasync_ends_service_and_releases_nothing_that_is_not_on_the_books() {
    let mut ended = 0;
    for n in 1..=14 {
        let tool = Tool::start().await;
        let estate = Estate::sqlite(&tool);
        let mut sidecar = traced(&estate, &format!("fdatasync:error=EIO:when={n}"));
        let agent = drive(&mut sidecar, &estate).await;
        if let Some(status) = sidecar.ended() {
            assert_ne!(status.code(), Some(0), "{}", sidecar.said());
            ended += 1;
        }
        sidecar.kill();
        aftermath(&tool, &estate, agent, &format!("EIO at fdatasync {n}")).await;
    }
    assert!(ended >= 5, "only {ended} failed fdatasyncs ended the program");
}
