//! What a run has read, its parent has read, and its children have.

use serde_json::{Value, json};

use crate::family::{Family, member, refusal};

/// `work.do` reads within, `work.large` leads outside, and the labels alone are enough for a denial.
fn strict(config: &mut Value) {
    config["taint"] = json!({"label_only": "deny", "trifecta": "deny", "linger_seconds": 0});
    let tools = config["tools"].as_array_mut().unwrap();
    for tool in tools.iter_mut().filter(|tool| tool["name"] == "work.large") {
        tool["taint"] = json!({"egress": "outside", "trust": "trusted", "data": "public"});
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_begins_with_the_labels_of_its_parent_and_gives_its_own_to_every_run_above() {
    let members = vec![
        member("helper", &["work.do", "work.large"]),
        member("scout", &["work.do", "work.large"]),
    ];
    let mut family = Family::of(members, |_| {}, strict).await;
    let lead = family.lead().await;
    let helper = family.child("helper", &lead).await;
    let scout = family.child("scout", &helper).await;
    lead.call_large("work.large", "before").await;
    scout.call("work.do", "read", "{}").await.unwrap();
    for (agent, id) in [(&scout, "s"), (&helper, "h"), (&lead, "l")] {
        let (code, detail, _) = refusal(agent.call("work.large", id, "{}").await);
        assert_eq!((code.as_str(), detail.as_str()), ("effect.refused", "flow.label"), "{id}");
    }
    // So does a child that is opened after that, and so do all of them after a crash.
    let later = family.child("helper", &lead).await;
    family.setup.restart().await;
    for (agent, id) in [(&later, "later"), (&lead, "again")] {
        let (_, detail, _) = refusal(agent.call("work.large", id, "{}").await);
        assert_eq!(detail, "flow.trifecta", "{id}");
    }
    let denied = &family.of_run(&lead.run, "call.denied")[0]["data"]["taint"]["labels"][0];
    assert_eq!((&denied["call"], &denied["run"]), (&json!("read"), &json!(scout.run)), "{denied}");
    let opened = &family.of_run(&later.run, "run.opened")[0]["data"]["taint"];
    assert_eq!(opened[0]["run"], json!(scout.run), "{opened}");
    // A run beside them has read nothing.
    family.lead().await.call_large("work.large", "beside").await;
    family.close().await;
}
