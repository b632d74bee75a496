//! The local switch file, with everything else up and with the database down.

use crate::agent::Agent;
use crate::control::{Setup, no_run, on_both_stores, refused, spawn};
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::pg::Pg;

on_both_stores!(
    the_switch_file_stops_what_it_names_and_opens_nothing,
    a_switch_file_that_is_unclear_stops_everything,
);

fn write(setup: &Setup, text: &str) {
    std::fs::write(setup.estate.path("state/switch"), text).unwrap();
}

fn remove(setup: &Setup) {
    std::fs::remove_file(setup.estate.path("state/switch")).unwrap();
}

/// Asks until the file was seen, each time with another id; what was answered then.
async fn denied(run: &Agent, tool: &str, name: &str) -> (String, String) {
    let mut n = 0;
    loop {
        n += 1;
        assert!(n < 500, "`{tool}` is not stopped");
        let answer = run.call(tool, &format!("{name}-{n}"), "{}").await;
        match answer {
            // It was on its way when the file was seen.
            Err(refused) if ["call.cancelled", "call.unknown"].contains(&refused.code.as_str()) => {
            }
            Err(refused) => return (refused.code, refused.detail),
            Ok(_) => crate::pause().await,
        }
    }
}

async fn allowed(run: &Agent, tool: &str, name: &str) {
    let mut n = 0;
    while run.call(tool, &format!("{name}-{n}"), "{}").await.is_err() {
        n += 1;
        assert!(n < 500, "`{tool}` stays stopped");
        crate::pause().await;
    }
}

fn by_file() -> (String, String) {
    ("policy.denied".to_owned(), "control.switch_file".to_owned())
}

async fn the_switch_file_stops_what_it_names_and_opens_nothing(mut setup: Setup) {
    let run = setup.sidecar.open().await;
    setup.tool.hold();
    let call = spawn(&run, "work.do", "a");
    setup.tool.entered(1).await;
    write(&setup, "stop tool work.do\n");
    // What is at the tool is stopped too.
    assert_eq!(refused(&call.await.unwrap()).0, "call.unknown");
    setup.tool.release();
    assert_eq!(denied(&run, "work.do", "b").await, by_file());
    assert_eq!(refused(&run.call("work.fail", "c", "{}").await).0, "tool.failed");
    write(&setup, "stop agent somebody-else\n");
    allowed(&run, "work.do", "d").await;
    write(&setup, "stop agent test-agent\n");
    assert_eq!(denied(&run, "work.do", "e").await, by_file());
    let answer = run.call("work.fail", "e", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.switch_file"));
    setup.restart().await;
    assert_eq!(no_run(&setup).await.detail, "control.switch_file");
    remove(&setup);
    allowed(&run, "work.do", "f").await;
    // Without the file the list alone counts.
    setup.order(wicketgate::control::Action::Suspend, crate::control::agent()).await;
    let answer = run.call("work.do", "g", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.suspended"));
    setup.close().await;
}

async fn a_switch_file_that_is_unclear_stops_everything(setup: Setup) {
    let run = setup.sidecar.open().await;
    for (n, text) in (0..).zip(["", "stopp all\n", "stop agent\n"]) {
        write(&setup, text);
        assert_eq!(denied(&run, "work.do", &format!("a{n}")).await, by_file(), "{text}");
        remove(&setup);
        allowed(&run, "work.do", &format!("b{n}")).await;
    }
    std::fs::create_dir(setup.estate.path("state/switch")).unwrap();
    assert_eq!(denied(&run, "work.do", "c").await, by_file());
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_switch_file_stops_a_call_at_its_tool_while_the_database_is_down() {
    let tool = Tool::start().await;
    let pg = tokio::task::spawn_blocking(Pg::own_cluster).await.unwrap();
    let db = pg.database().await;
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let mut sidecar = estate.serve().await;
    let run = sidecar.open().await;
    tool.hold();
    let call = spawn(&run, "work.do", "a");
    tool.entered(1).await;
    pg.freeze();
    std::fs::write(estate.path("state/switch"), "stop all\n").unwrap();
    // The gate drops the connection: the tool sees that no receiver waits any more.
    tool.inside(0).await;
    assert_eq!(refused(&call.await.unwrap()).0, "call.unknown");
    tool.release();
    let answer = run.call("work.do", "b", "{}").await;
    assert!(matches!(refused(&answer).0, "ledger.unavailable" | "ledger.unknown"), "{answer:?}");
    pg.thaw();
    sidecar.ready().await;
    let answer = run.call("work.do", "c", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.switch_file"));
    assert_eq!(tool.count(), 1);
    sidecar.stop().await;
    crate::checker::check(&estate.database, &tool, &estate.receipts);
}
