//! How many calls may wait for a person, at a real gate.

use std::collections::BTreeMap;
use wicketgate_support::agent::Refused;

use crate::gate::Gate;

const ASKS: &str = r#"
require_approval contains {"code": "ask", "message": "ask first"} if input.args.ask
allow if input.tool.name == "work.do"
"#;

#[tokio::test]
async fn ten_calls_of_a_run_may_wait_and_the_next_one_is_denied_also_when_all_come_at_once() {
    let gate = Gate::start("{}", &[("agent/main.rego", ASKS)]);
    let agent = gate.open("").await;
    let asks = (0..20).map(|n| {
        let agent = &agent;
        async move {
            let (id, args) = (format!("c{n}"), format!(r#"{{"ask":true,"n":{n}}}"#));
            agent.call("work.do", &id, &args).await.unwrap_err()
        }
    });
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for Refused { code, detail, .. } in futures_util::future::join_all(asks).await {
        *counts.entry((code, detail)).or_default() += 1;
    }
    let held: usize =
        counts.iter().filter(|((code, _), _)| code == "call.held").map(|(_, n)| n).sum();
    let full = counts.get(&("limit.exceeded".to_owned(), "limit.pending".to_owned()));
    assert_eq!((held, full), (10, Some(&10)), "{counts:?}");
    // What asks nobody is not concerned, and the books are in order.
    agent.call("work.do", "plain", r#"{"n":1}"#).await.unwrap();
    agent.seal().await.unwrap();
    gate.verified(&agent.run).ok();
}
