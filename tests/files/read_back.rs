//! What a tool that reads has to show after one that wrote; and what is taken back if it does not.

use serde_json::{Value, json};

use crate::checker::entries;
use crate::rig::Rig;
use wicketgate_support::ran::Ran;

/// A rig whose `fs.deep` is read back by `fs.read`, which has to find `good` in the file.
async fn rig() -> Rig {
    Rig::with(|config| {
        let tools = config["tools"].as_array_mut().unwrap();
        let deep = tools.iter_mut().find(|tool| tool["name"] == "fs.deep").unwrap();
        deep["read_back"] = json!({"tool": "fs.read", "args": {"path": "{args/path}"},
            "expect": {"text": {"$contains": "good"}}});
    })
    .await
}

fn of_call<'a>(all: &'a [Value], call: &str) -> Vec<&'a Value> {
    all.iter().filter(|entry| entry["call"] == call).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_reads_back_as_expected_is_answered_and_both_calls_are_recorded() {
    let rig = rig().await;
    let (sidecar, agent) = rig.serve().await;
    let args = json!({"path": "a.txt", "content": "a good text"});
    agent.call("fs.deep", "w1", &args.to_string()).await.unwrap();
    assert_eq!(rig.text("a.txt"), "a good text");
    rig.close(sidecar, &agent).await;
    let authorized = entries(&rig.keeper.estate.database, "call.authorized");
    let read = of_call(&authorized, "w1.g1");
    assert_eq!((read.len(), &read[0]["tool"]), (1, &"fs.read".into()));
    assert_eq!(read[0]["data"]["justification"], "the gate checks what call w1 did");
    assert_eq!(read[0]["data"]["gate_of"], "w1", "the entry says who made it");
    assert_eq!(of_call(&authorized, "w1")[0]["data"]["gate_of"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_does_not_read_back_takes_back_all_that_the_run_wrote_and_says_so_again() {
    let rig = rig().await;
    rig.put("kept.txt", "one");
    let (sidecar, agent) = rig.serve().await;
    rig.write(&agent, "kept.txt", "two").await;
    rig.write(&agent, "made.txt", "new").await;
    let args = json!({"path": "a.txt", "content": "a bad text"});
    for _ in 0..2 {
        let refused = agent.call("fs.deep", "w1", &args.to_string()).await.unwrap_err();
        assert_eq!(
            (&*refused.code, &*refused.detail),
            ("tool.failed", "unverified"),
            "{refused:?}"
        );
        for part in ["check by `fs.read` failed", "`/text`", "3 files restored"] {
            assert!(refused.message.contains(part), "{refused:?}");
        }
    }
    assert_eq!(rig.text("kept.txt"), "one");
    assert!(!rig.path("made.txt").exists() && !rig.path("a.txt").exists());
    rig.close(sidecar, &agent).await;
    let failed = entries(&rig.keeper.estate.database, "call.failed");
    let [failed] = of_call(&failed, "w1")[..] else { panic!("{failed:?}") };
    assert_eq!(
        (&failed["data"]["class"], &failed["data"]["started"]),
        (&"unverified".into(), &true.into())
    );
    let completed = entries(&rig.keeper.estate.database, "call.completed");
    for call in ["w1.g1", "w1.g2", "w1.g3", "w1.g4"] {
        assert_eq!(of_call(&completed, call).len(), 1, "{call}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_that_may_not_run_counts_as_failed() {
    let rig = rig().await;
    let (sidecar, agent) = rig.serve().await;
    // The policy lets no call read this one: the rig's policy denies what is not a file there.
    let args = json!({"path": "d/a.txt", "content": "a good text"});
    std::fs::create_dir(rig.path("d")).unwrap();
    agent.call("fs.deep", "w1", &args.to_string()).await.unwrap();
    let delete = json!({"path": "d/a.txt", "mode": "delete"});
    let refused = agent.call("fs.deep", "w2", &delete.to_string()).await.unwrap_err();
    assert_eq!(refused.detail, "unverified");
    assert!(refused.message.contains("it could not be read back"), "{refused:?}");
    // The delete is taken back, and the write before it too.
    assert!(!rig.path("d/a.txt").exists());
    rig.close(sidecar, &agent).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_by_a_tool_that_is_not_there_writes_or_needs_another_argument_is_refused() {
    for (read_back, why) in [
        (json!({"tool": "fs.red", "expect": {}}), "`fs.red` is no tool of this list"),
        (
            json!({"tool": "fs.write", "args": {"path": "x"}, "expect": {}}),
            "`fs.write` does not only read",
        ),
        (json!({"tool": "fs.read", "expect": {}}), "`fs.read` needs the argument `path`"),
        (
            json!({"tool": "fs.read", "args": {"path": "x", "pat": "y"}, "expect": {}}),
            "takes no argument `pat`",
        ),
        (json!({"tool": "fs.read", "args": {"path": "{arg/path}"}, "expect": {}}), "is no place"),
    ] {
        let rig = Rig::with(|config| {
            let tools = config["tools"].as_array_mut().unwrap();
            let deep = tools.iter_mut().find(|tool| tool["name"] == "fs.deep").unwrap();
            deep["read_back"] = read_back;
        })
        .await;
        let checked: Ran = rig.keeper.ask(&["config", "check", "wicketgate.yaml"]);
        assert!(checked.code != 0 && checked.text().contains(why), "{why}: {}", checked.text());
    }
}
