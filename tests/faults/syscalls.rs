//! System calls of the real program that fail, or never return because it was killed in them.

use std::time::Duration;

use crate::agent::Agent;
use crate::checker::check;
use crate::crash::on_postgres;
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

/// The program under a tracer that does something to its system calls.
fn traced(estate: &Estate, inject: &str) -> Sidecar {
    let name = inject.split(':').next().unwrap();
    let (trace, inject) = (format!("trace={name}"), format!("inject={inject}"));
    estate.start_under(&["strace", "-f", "-qqq", "-o", "/dev/null", "-e", &trace, "-e", &inject])
}

/// Some failures leave a program that runs and is never ready: then there is nothing to drive.
const GIVEN_UP: Duration = Duration::from_secs(30);

/// A few calls, as far as they get; whatever was answered is kept as a receipt.
async fn drive(sidecar: &mut Sidecar, estate: &Estate) -> Option<Agent> {
    let mut agent = None;
    let began = std::time::Instant::now();
    while sidecar.ended().is_none() && began.elapsed() < GIVEN_UP {
        if sidecar.readiness().await.is_some_and(|(ready, _)| ready) {
            break;
        }
        if sidecar.said().contains("readiness ready=false reasons=[\"policy: no bundle") {
            return None;
        }
        crate::pause().await;
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
    check(&estate.database, tool, &estate.receipts);
}

/// Which store a sweep runs on.
#[derive(Clone, Copy)]
enum On {
    Sqlite,
    Postgres,
}

/// Kills the program in the nth call of these names, for every n: in whichever thread gets so far.
async fn killed_at(on: On, names: &str, points: impl Iterator<Item = u32>) {
    let mut killed = 0;
    for n in points {
        let tool = Tool::start().await;
        let estate = match on {
            On::Sqlite => Estate::sqlite(&tool),
            On::Postgres => on_postgres(&tool, "local").await,
        };
        let inject = format!("{names}:signal=KILL:when={n}");
        let mut sidecar = traced(&estate, &inject);
        let agent = drive(&mut sidecar, &estate).await;
        killed += u32::from(sidecar.ended().is_some());
        sidecar.kill();
        aftermath(&tool, &estate, agent, &inject).await;
    }
    assert!(killed > 0, "no point of {names} was ever reached");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_any_sync_it_loses_nothing_it_answered_on_sqlite() {
    killed_at(On::Sqlite, "fsync,fdatasync", 1..=16).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_any_sync_it_loses_nothing_it_answered_on_postgres() {
    killed_at(On::Postgres, "fsync,fdatasync", 1..=10).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_any_positioned_write_it_loses_nothing_it_answered() {
    killed_at(On::Sqlite, "pwrite64", (1..=12).chain((14..60).step_by(6))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_any_write_it_starts_again_from_whatever_files_it_left() {
    killed_at(On::Sqlite, "write,writev", 1..=12).await;
    killed_at(On::Sqlite, "rename,link,linkat,unlink,ftruncate", 1..=5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_in_any_send_to_the_database_it_loses_nothing_it_answered() {
    killed_at(On::Postgres, "sendto", 1..=14).await;
}

/// A failed sync proves nothing about what is on the disk: the program stops serving.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_sync_ends_service_and_releases_nothing_that_is_not_recorded() {
    let mut ended = 0;
    for n in 1..=16 {
        let tool = Tool::start().await;
        let estate = Estate::sqlite(&tool);
        let mut sidecar = traced(&estate, &format!("fsync,fdatasync:error=EIO:when={n}"));
        let agent = drive(&mut sidecar, &estate).await;
        if sidecar.ended().is_none() && sidecar.said().contains("cannot be trusted") {
            sidecar.end().await;
        }
        if let Some(status) = sidecar.ended() {
            assert_ne!(status.code(), Some(0), "{}", sidecar.said());
            ended += 1;
        }
        sidecar.kill();
        aftermath(&tool, &estate, agent, &format!("EIO at sync {n}")).await;
    }
    assert!(ended >= 5, "only {ended} failed syncs ended the program");
}
