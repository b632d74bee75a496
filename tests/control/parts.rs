//! Parts of the gate that an operator switches off: others go on.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};
use wicketgate::control::{Action, Order, Target, answer};
use wicketgate::domain::effect::ToolKind;
use wicketgate::domain::tier::Face;
use wicketgate_support::evidence::{evidence, outcome};

use crate::control::{Setup, done, given, no_run, on_both_stores, refused, spawn};

on_both_stores!(
    a_face_that_is_off_takes_no_call_and_no_run_until_it_is_on_again_even_after_a_restart,
    a_kind_that_is_off_ends_what_it_began,
);

async fn a_face_that_is_off_takes_no_call_and_no_run_until_it_is_on_again_even_after_a_restart(
    mut setup: Setup,
) {
    let run = setup.sidecar.open().await;
    let face = || Target::Face(Face::Grpc);
    done(&setup.order(Action::Suspend, face()).await);
    for restarted in [false, true] {
        if restarted {
            setup.restart().await;
        }
        let answer = run.call("work.do", &format!("a-{restarted}"), "{}").await;
        assert_eq!(refused(&answer), ("policy.denied", "control.switch.face"));
        assert!(answer.unwrap_err().message.contains("the face `grpc`"));
        assert_eq!(no_run(&setup).await.detail, "control.switch.face");
        crate::until("a note of what is off", || async {
            let (ready, why) = setup.sidecar.readiness().await.unwrap_or_default();
            ready && why.contains("control: face `grpc` is switched off")
        })
        .await;
    }
    // Another face goes on.
    let other = setup.order(Action::Suspend, Target::Face(Face::Mcp)).await;
    done(&other);
    done(&setup.order(Action::Reinstate, face()).await);
    run.call("work.do", "b", "{}").await.unwrap();
    setup.close().await;
}

async fn a_kind_that_is_off_ends_what_it_began(setup: Setup) {
    let run = setup.sidecar.open().await;
    setup.tool.hold();
    let call = spawn(&run, "work.do", "a");
    setup.tool.entered(1).await;
    let kind = |kind| Target::Kind(kind);
    done(&setup.order(Action::Suspend, kind(ToolKind::Sql)).await);
    let reply = done(&setup.order(Action::Suspend, kind(ToolKind::Http)).await);
    assert_eq!(reply["stopped_count"], 0, "{reply}");
    setup.tool.release();
    call.await.unwrap().unwrap();
    let answer = run.call("work.do", "b", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.switch.kind"));
    done(&setup.order(Action::Reinstate, kind(ToolKind::Http)).await);
    run.call("work.do", "c", "{}").await.unwrap();
    assert_eq!(setup.tool.count(), 2);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_with_a_name_that_no_gate_knows_is_reported_as_unknown() {
    let setup = Setup::sqlite().await;
    let target = Target::Server("githup".into());
    let order = Order::Switch { action: Action::Suspend, target };
    let at = wicketgate::domain::time::Timestamp::from_millis(0);
    let seq = setup.operator.put(at, &given(), &order).await.unwrap();
    let reply = answer::wait(&*setup.operator, seq, crate::waiting::PATIENCE).await.unwrap();
    let reply = done(&reply);
    assert_eq!(reply["known"], false, "{reply}");
    setup.close().await;
}

/// Runs a command against the operator API of the gate, as its operator.
fn command(setup: &Setup, token: &Path, args: &[&str]) -> Output {
    let url = format!("http://{}", setup.sidecar.operators());
    let mut command = setup.estate.command(args);
    command.args(["--url", &url, "--token-file"]).arg(token);
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_switches_a_part_off_lists_it_and_refuses_what_is_no_part() {
    let dir = tempfile::tempdir().unwrap();
    let token = dir.path().join("otto.token");
    std::fs::write(&token, format!("{:x<48}", "otto")).unwrap();
    std::fs::set_permissions(&token, Permissions::from_mode(0o600)).unwrap();
    let setup = Setup::sqlite_with(|config| {
        let otto = json!({"subject": "otto", "roles": ["operator"], "token_file": token});
        config["operators"] = json!([otto]);
    })
    .await;
    let run = setup.sidecar.open().await;
    let off = ["switch", "off", "kind", "http", "--reason", "incident 12"];
    let done = command(&setup, &token, &off);
    assert!(done.status.success(), "{done:?}");
    let answer = run.call("work.do", "a", "{}").await;
    assert_eq!(refused(&answer), ("policy.denied", "control.switch.kind"));
    // Gates report what they have switched off once in a while.
    crate::until("the list of what is off", || async {
        let listed = command(&setup, &token, &["switch", "list", "--json"]);
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        listed["off"][0]["target"] == "kind" && listed["off"][0]["name"] == "http"
    })
    .await;
    let tool = command(&setup, &token, &["switch", "off", "tool", "work.do", "--reason", "x"]);
    assert_eq!(tool.status.code(), Some(64), "{tool:?}");
    let kill = command(&setup, &token, &["control", "kill", "kind", "http", "--reason", "x"]);
    assert!(String::from_utf8_lossy(&kill.stderr).contains("only suspended"), "{kill:?}");
    // An audit takes the denial for what it is: not the policy's.
    run.seal().await.unwrap();
    let (verdict, _) = evidence(&setup.estate, &run.run, "proof");
    assert_eq!(outcome(&verdict, "P5")["outcome"], "VALID", "{verdict}");
    setup.close().await;
}
