//! What a new bundle would have decided, where what was kept of the inputs is not all there; and on PostgreSQL.

use serde_json::Value;

use crate::keeper::{Keeper, args};
use wicketgate_support::pg::Pg;

const CONFIG: [&str; 2] = ["--config", "wicketgate.yaml"];
/// What the example agent may do, and nothing else.
const SAME: &str = r#"allow if input.tool.name == "work.do""#;

/// A bundle of one agent file beside the books.
fn bundle(keeper: &Keeper, rules: &str) {
    let dir = keeper.path("new");
    std::fs::create_dir_all(dir.join("agent")).unwrap();
    std::fs::write(dir.join("bundle.json"), r#"{"name":"new","version":"2.0.0"}"#).unwrap();
    let text = format!("package wicketgate.agent\nimport rego.v1\n{rules}\n");
    std::fs::write(dir.join("agent/main.rego"), text).unwrap();
}

#[track_caller]
fn backtest(keeper: &Keeper, from: &[&str], code: i32) -> Value {
    let ended = keeper.ask(&[&["policy", "backtest", "--bundle", "new", "--json"], from].concat());
    assert_eq!(ended.code, code, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
}

/// What was not judged, and how often.
fn left(found: &Value) -> Vec<(&str, u64)> {
    let list = found["result"]["unjudged"].as_array().unwrap();
    let count = |left: &Value| left["count"].as_u64().unwrap();
    list.iter().map(|left| (left["what"].as_str().unwrap(), count(left))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_erased_or_never_kept_is_counted_and_named_and_never_called_unchanged() {
    let keeper = Keeper::sqlite().await;
    keeper.grant_incognito("allowed");
    bundle(&keeper, SAME);
    let (_sidecar, erased) = keeper.served(3).await;
    erased.seal().await.unwrap();
    let before = backtest(&keeper, &CONFIG, 0);
    assert_eq!(before["result"]["same"], 3, "{before}");
    keeper.erase(&["--run", &erased.run]);
    let hidden = keeper.open_incognito().await;
    hidden.call("work.do", "c1", &args(1)).await.unwrap();
    hidden.seal().await.unwrap();
    let found = backtest(&keeper, &CONFIG, 2);
    assert_eq!(found["result"]["judged"], 0, "{found}");
    let incognito = "the run was incognito: its inputs are not kept";
    let gone = "the input was erased or has expired";
    assert_eq!(left(&found), [(incognito, 1), (gone, 3)], "{found}");
    let shown = keeper.ask(&[&["policy", "backtest", "--bundle", "new"], &CONFIG[..]].concat());
    assert!(shown.out.contains("NOT EVALUATED") && shown.out.contains(gone), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypted_inputs_are_judged_with_the_key_and_counted_without_it() {
    let keeper = Keeper::sqlite().await;
    keeper.encrypt("payload.key", &[]);
    bundle(&keeper, SAME);
    let (_sidecar, agent) = keeper.served(2).await;
    agent.seal().await.unwrap();
    assert_eq!(backtest(&keeper, &CONFIG, 0)["result"]["same"], 2);
    let file = ["--sqlite", "state/ledger.sqlite"];
    let found = backtest(&keeper, &file, 2);
    assert_eq!(left(&found), [("the input is encrypted, and its key was not given", 2)], "{found}");
    let keyed = [&file[..], &["--encryption-key", "payload.key"]].concat();
    assert_eq!(backtest(&keeper, &keyed, 0)["result"]["same"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backtest_distinguishes_old_engine_errors_from_new_ones() {
    let keeper = Keeper::sqlite().await;
    let rules = "odd if startswith(input.args.n, \"x\")\nallow if not odd\n\
                 deny contains \"held\" if input.tool.name == \"work.held\"";
    bundle(&keeper, rules);
    let (_sidecar, agent) = keeper.served(0).await;
    // 1 / 0 under the old bundle; a number under the new one's `startswith`; undefined under it.
    agent.call("policy.error", "broke", r#"{"n":0}"#).await.unwrap_err();
    agent.call("work.do", "breaks", r#"{"n":1}"#).await.unwrap();
    agent.call("work.do", "stays", "{}").await.unwrap();
    agent.call("work.held", "held", "{}").await.unwrap_err();
    let found = backtest(&keeper, &CONFIG, 1);
    let result = &found["result"];
    assert_eq!(result["judged"], 4, "{found}");
    assert_eq!(result["changes"]["allow_to_deny"], 1, "{found}");
    assert_eq!(result["changes"]["hold_to_deny"], 1, "{found}");
    // It is refused as it was, for the engine says something else of it.
    assert_eq!(result["changes"]["reasons"], 1, "{found}");
    let faults = result["faults"].as_array().unwrap();
    assert_eq!(faults.iter().map(|f| f["count"].as_u64().unwrap()).sum::<u64>(), 2, "{found}");
    assert!(
        faults.iter().all(|f| f["what"].as_str().unwrap().contains("agent/main.rego:3")),
        "{found}"
    );
    let group = &result["groups"][0];
    assert_eq!((&group["change"], &group["old"]), (&"allow_to_deny".into(), &"allow".into()));
    assert!(group["new"].as_str().unwrap().starts_with("engine fault: evaluation"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_postgres_a_reader_of_every_tenant_finds_the_same_and_changes_nothing() {
    let pg = tokio::task::spawn_blocking(Pg::cluster).await.unwrap();
    let db = pg.database().await;
    let keeper = Keeper::postgres(&db).await;
    let rules = "allow if { input.tool.name == \"work.do\"; input.args.amount < 80 }";
    bundle(&keeper, rules);
    let (_sidecar, agent) = keeper.served(100).await;
    agent.seal().await.unwrap();
    let reader = ["--postgres-url-file", "reader.url"];
    let heads = || keeper.ask(&[&["ledger", "head", "--json"], &reader[..]].concat()).out;
    let before = heads();
    let found = backtest(&keeper, &reader, 1);
    let result = &found["result"];
    assert_eq!(result["judged"], 100, "{found}");
    assert_eq!(result["changes"]["allow_to_deny"], 20, "{found}");
    let group = &result["groups"][0];
    assert_eq!(group["new"], "wicketgate.decision no_allow", "{found}");
    assert_eq!(group["examples"].as_array().unwrap().len(), 3, "{found}");
    let ours = [&reader[..], &["--tenant", "default"]].concat();
    assert_eq!(backtest(&keeper, &ours, 1)["result"], *result);
    let others = [&reader[..], &["--tenant", "other"]].concat();
    assert_eq!(backtest(&keeper, &others, 0)["result"]["judged"], 0);
    assert_eq!(heads(), before);
}
