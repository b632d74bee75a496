//! Kill and revoke: what is in flight is stopped, and the answer says what was and what could not be.

use wicketgate::control::{Action, Target, answer};
use wicketgate::domain::id::{RunId, ToolName};

use crate::checker::calls;
use crate::control::{Setup, agent, done, no_run, on_both_stores, refused, spawn, stopped};

on_both_stores!(
    a_kill_switch_that_reports_success_has_stopped_what_it_names,
    a_held_call_does_not_outlive_the_kill_of_its_agent,
    a_call_that_was_held_before_a_crash_does_not_outlive_the_kill_of_its_tool,
    a_revoked_agent_stays_out_over_a_restart_until_it_is_reinstated,
    a_run_and_a_tool_are_stopped_without_their_neighbours,
    an_order_given_while_the_gate_was_away_is_obeyed_before_it_takes_a_call,
    a_gate_that_does_not_answer_is_named_and_never_counted_as_stopped,
);

async fn a_kill_switch_that_reports_success_has_stopped_what_it_names(setup: Setup) {
    let (one, two) = (setup.sidecar.open().await, setup.sidecar.open().await);
    one.call("work.do", "before", "{}").await.unwrap();
    setup.tool.hold();
    let running =
        [spawn(&one, "work.do", "a"), spawn(&one, "work.do", "b"), spawn(&two, "work.do", "c")];
    setup.tool.entered(3).await;
    let answer = setup.order(Action::Kill, agent()).await;
    // What is reported is so when the answer is there: nothing has to be waited for.
    let done = done(&answer);
    assert_eq!(stopped(&done, "unknown"), ["a", "b", "c"], "{done}");
    let counts = (&done["stopped_count"], &done["runs_sealed"], &done["left"]);
    assert_eq!(counts, (&3.into(), &2.into(), &0.into()), "{done}");
    setup.tool.inside(0).await;
    for call in running {
        assert_eq!(refused(&call.await.unwrap()).0, "call.unknown");
    }
    for run in [&one, &two] {
        assert_eq!(refused(&run.call("work.do", "later", "{}").await).0, "run.sealed");
    }
    assert_eq!(setup.tool.count(), 4, "nothing started after the answer");
    // Killed is not revoked: the next run works.
    setup.tool.release();
    setup.sidecar.open().await.call("work.do", "again", "{}").await.unwrap();
    let summary = setup.close().await;
    assert_eq!(calls(&summary, "unknown"), 3, "{summary}");
}

async fn a_held_call_does_not_outlive_the_kill_of_its_agent(setup: Setup) {
    let run = setup.sidecar.open().await;
    assert_eq!(refused(&run.call("work.held", "h", "{}").await).0, "call.held");
    let done = done(&setup.order(Action::Kill, agent()).await);
    assert_eq!(stopped(&done, "unheld"), ["h"], "{done}");
    assert_eq!(refused(&run.get("h").await).0, "call.cancelled");
    setup.close().await;
}

async fn a_call_that_was_held_before_a_crash_does_not_outlive_the_kill_of_its_tool(
    mut setup: Setup,
) {
    let run = setup.sidecar.open().await;
    assert_eq!(refused(&run.call("work.held", "h", "{}").await).0, "call.held");
    setup.restart().await;
    let other = Target::Tool(ToolName::parse("work.do").unwrap());
    assert_eq!(done(&setup.order(Action::Kill, other).await)["stopped_count"], 0);
    let tool = Target::Tool(ToolName::parse("work.held").unwrap());
    let done = done(&setup.order(Action::Kill, tool).await);
    assert_eq!(stopped(&done, "unheld"), ["h"], "{done}");
    assert_eq!(refused(&run.get("h").await).0, "call.cancelled");
    setup.close().await;
}

async fn a_revoked_agent_stays_out_over_a_restart_until_it_is_reinstated(mut setup: Setup) {
    let run = setup.sidecar.open().await;
    setup.tool.hold();
    let call = spawn(&run, "work.do", "a");
    setup.tool.entered(1).await;
    let told = done(&setup.order(Action::Revoke, agent()).await);
    assert_eq!(stopped(&told, "unknown"), ["a"], "{told}");
    assert_eq!(refused(&call.await.unwrap()).0, "call.unknown");
    setup.tool.release();
    for restarted in [false, true] {
        if restarted {
            setup.restart().await;
        }
        let refused = no_run(&setup).await;
        assert_eq!(
            (refused.code.as_str(), refused.detail.as_str()),
            ("manifest.mismatch", "control.revoked"),
            "restarted: {restarted}"
        );
    }
    assert_eq!(setup.tool.count(), 1);
    done(&setup.order(Action::Reinstate, agent()).await);
    setup.sidecar.open().await.call("work.do", "back", "{}").await.unwrap();
    setup.close().await;
}

async fn a_run_and_a_tool_are_stopped_without_their_neighbours(setup: Setup) {
    let (one, two) = (setup.sidecar.open().await, setup.sidecar.open().await);
    setup.tool.hold();
    let (a, b) = (spawn(&one, "work.do", "a"), spawn(&two, "work.do", "b"));
    let c = spawn(&two, "work.fail", "c");
    setup.tool.entered(3).await;
    let run = Target::Run(RunId::parse(&one.run).unwrap());
    let told = done(&setup.order(Action::Kill, run).await);
    assert_eq!(stopped(&told, "unknown"), ["a"], "{told}");
    let tool = || Target::Tool(ToolName::parse("work.fail").unwrap());
    let told = done(&setup.order(Action::Revoke, tool()).await);
    assert_eq!(stopped(&told, "unknown"), ["c"], "{told}");
    assert_eq!(told["runs_sealed"], 0, "a tool has no runs: {told}");
    setup.tool.release();
    b.await.unwrap().unwrap();
    assert_eq!(refused(&a.await.unwrap()).0, "call.unknown");
    assert_eq!(refused(&c.await.unwrap()).0, "call.unknown");
    let answer = two.call("work.fail", "d", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.revoked"));
    two.call("work.do", "e", "{}").await.unwrap();
    assert_eq!(refused(&one.call("work.do", "f", "{}").await).0, "run.sealed");
    setup.close().await;
}

async fn an_order_given_while_the_gate_was_away_is_obeyed_before_it_takes_a_call(mut setup: Setup) {
    let run = setup.sidecar.open().await;
    run.call("work.do", "a", "{}").await.unwrap();
    assert_eq!(refused(&run.call("work.held", "h", "{}").await).0, "call.held");
    setup.sidecar.kill();
    let seq = setup.put(Action::Kill, agent()).await;
    setup.sidecar = setup.estate.serve().await;
    let answer = answer::wait(&*setup.operator, seq, crate::waiting::PATIENCE).await.unwrap();
    let told = done(&answer);
    assert_eq!((stopped(&told, "unheld"), &told["runs_sealed"]), (vec!["h".into()], &1.into()));
    assert_eq!(refused(&run.call("work.do", "b", "{}").await).0, "run.sealed");
    assert_eq!(setup.tool.count(), 1);
    setup.close().await;
}

async fn a_gate_that_does_not_answer_is_named_and_never_counted_as_stopped(mut setup: Setup) {
    setup.sidecar.open().await.call("work.do", "a", "{}").await.unwrap();
    setup.sidecar.freeze();
    let seq = setup.put(Action::Kill, agent()).await;
    let short = std::time::Duration::from_millis(200);
    let answer = answer::wait(&*setup.operator, seq, short).await.unwrap();
    assert_eq!(answer.reports, []);
    let names: Vec<&str> = answer.unreachable.iter().map(|g| g.origin.as_str()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    setup.sidecar.signal(rustix::process::Signal::CONT);
    let answer = answer::wait(&*setup.operator, seq, crate::waiting::PATIENCE).await.unwrap();
    assert_eq!(done(&answer)["runs_sealed"], 1);
    // One that ended in order has nothing to stop: no receiver waits for it.
    setup.sidecar.stop().await;
    let seq = setup.put(Action::Kill, agent()).await;
    let answer = answer::wait(&*setup.operator, seq, short).await.unwrap();
    assert_eq!((answer.reports.len(), answer.unreachable.len()), (0, 0), "{answer:?}");
}
