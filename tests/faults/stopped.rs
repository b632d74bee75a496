//! A gate that was stopped, and wakes up with permits of a slot that is another's by now.

use rustix::process::Signal;
use serde_json::Value;
use sqlx::{Connection as _, PgConnection, Row as _};

use crate::checker::{calls, check};
use crate::database::through;
use crate::proxy::{Proxy, Way};
use crate::sidecar::Estate;
use crate::slots::{agent_chain, takes_over};
use crate::tool::Tool;
use wicketgate_support::pg::{Pg, TestDb};

/// Calls that are at the ledger when the gate is stopped.
const CALLS: usize = 8;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_slept_longer_than_its_lease_sends_nothing_of_what_it_had_permitted() {
    let tool = Tool::start().await;
    let pg = tokio::task::spawn_blocking(Pg::cluster).await.unwrap();
    let TestDb { admin_url, writer_url, .. } = pg.database().await;
    let proxy = Proxy::to(pg.port()).await;
    let url = through(&writer_url, pg.port(), proxy.port);
    let estate = Estate::postgres(&tool, &url, &admin_url, "pool/one");
    let lease = |config: &mut Value| {
        config["ledger"]["postgres"]["lease_seconds"] = 2.into();
        // Its callers have the patience to hear of it afterwards.
        config["limits"]["commit_wait_ms"] = 4_500.into();
    };
    estate.configure(lease);
    let mut first = estate.serve().await;
    let agent = first.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    // What the gate asks is done, and it does not hear so.
    proxy.answered(Way::Held);
    let asked: Vec<_> = (0..CALLS)
        .map(|n| {
            let agent = agent.clone();
            tokio::spawn(async move { agent.call("work.do", &format!("b{n}"), "{}").await })
        })
        .collect();
    crate::until("a call to be authorised", || async {
        let mut database = PgConnection::connect(&admin_url).await.unwrap();
        let count = "SELECT count(*) AS n FROM ledger.entry WHERE kind = 'call.authorized'";
        sqlx::query(count).fetch_one(&mut database).await.unwrap().get::<i64, _>("n") > 1
    })
    .await;
    first.freeze();
    proxy.answered(Way::Open);
    let newcomer = Estate::postgres(&tool, &writer_url, &admin_url, "pool/one");
    newcomer.configure(lease);
    let mut second = takes_over(&newcomer, &agent_chain(&estate.receipts)).await;
    first.signal(Signal::CONT);
    first.ends(75).await;
    for call in asked {
        let answer = crate::within("an answer", call).await.unwrap();
        assert!(answer.is_err(), "{answer:?}");
    }
    assert_eq!(tool.count(), 1, "sent after another had taken the slot");
    second.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert!(calls(&summary, "unknown") > 0, "{summary}");
}
