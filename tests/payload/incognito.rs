//! Runs of which nothing is stored but commitments.

use crate::checker::check;
use crate::desk::{Desk, IBAN, args, holds, outcome, whole};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_an_incognito_run_is_stored_and_its_agent_gets_its_results() {
    let desk = Desk::sqlite().await;
    let (mut sidecar, open) = desk.served(0).await;
    let agent = desk.open_incognito().await;
    let answer = agent.call("work.do", "c1", &args(1)).await.unwrap();
    assert!(answer.contains(IBAN), "{answer}");
    // The gate still knows it, in memory only.
    assert_eq!(agent.call("work.do", "c1", &args(1)).await.unwrap(), answer);
    open.call("work.do", "c1", r#"{"n":1}"#).await.unwrap();
    assert_eq!(desk.listed(&["--run", &agent.run]).len(), 0);
    assert_eq!(desk.listed(&[]).len(), 3, "the other run's are stored");
    assert!(!holds(&desk.raw(), IBAN) && !holds(sidecar.said().as_bytes(), IBAN));
    // It forgot: the call is answered, and not run again.
    sidecar.kill();
    let sidecar_again = desk.estate.serve().await;
    let ran = desk.tool.count();
    let refused = agent.call("work.do", "c1", &args(1)).await.unwrap_err();
    assert_eq!(refused.code, "call.result_unavailable", "{refused:?}");
    assert_eq!(desk.tool.count(), ran);
    // A run that was taken up again is still incognito.
    agent.call("work.do", "c2", &args(2)).await.unwrap();
    assert_eq!(desk.listed(&["--run", &agent.run]).len(), 0);
    agent.seal().await.unwrap();
    open.seal().await.unwrap();
    let bundle = desk.export(&agent.run, "shown", &[]);
    let report = desk.verify(&bundle);
    assert_eq!(outcome(&report, "P1").0, "VALID", "{report}");
    let text = std::fs::read_to_string(bundle.join("payloads/index.json")).unwrap();
    assert_eq!(text.matches(r#"{"why":"incognito","withheld":true}"#).count(), 6, "{text}");
    let lines = std::fs::read_to_string(bundle.join("ledger/entries.jsonl")).unwrap();
    assert!(lines.contains(r#""incognito":true"#));
    assert!(report["not_proven"].to_string().contains("nothing of the run was stored"));
    assert!(!holds(&whole(&bundle), IBAN) && !holds(&desk.raw(), IBAN));
    drop(sidecar_again);
    check(&desk.estate.books, &desk.tool, &desk.estate.receipts);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_may_be_incognito_whatever_it_asks_for() {
    let desk = Desk::sqlite().await;
    desk.estate.configure(|c| c["retention"] = serde_json::json!({"incognito": ["test-agent"]}));
    let (_sidecar, _agent) = desk.served(2).await;
    assert_eq!(desk.listed(&[]).len(), 0);
    assert!(!holds(&desk.raw(), IBAN));
}
