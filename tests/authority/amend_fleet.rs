//! A new policy for two gates over one database, through the hub.

use serde_json::Value;

use crate::amend::{FIRST, SECOND, draft, proposed, types};
use crate::checker::{check, kinds};
use crate::people::People;
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use wicketgate_support::hub::Hub;
use wicketgate_support::pg::Pg;

async fn runs(sidecar: &Sidecar) -> bool {
    sidecar.open().await.call("work.do", "", r#"{"n":1}"#).await.is_ok()
}

fn gates(told: &Value) -> usize {
    told["gates"].as_array().map_or(0, Vec::len)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_amendment_through_the_hub_reaches_every_gate_also_one_that_was_away_or_is_new() {
    let (people, tool) = (People::new(), Tool::start().await);
    let db = Pg::cluster().database().await;
    let gate = || {
        let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
        estate.bundle("1.0.0", FIRST, "policy");
        estate.configure(|config| people.configure_amendments(config, false));
        estate
    };
    let (one, two) = (gate(), gate());
    let (mut first, mut second) = (one.serve().await, two.serve().await);
    let urls = (db.operator_url.as_str(), db.reader_url.as_str());
    let configure = |config: &mut Value| people.configure_amendments(config, true);
    let hub = Hub::start_with(&one, urls, ("hub", configure), |_| ()).await;
    let url = hub.url();
    let bundle = proposed(&people, "paula", &url, &draft(&one, "1.1.0", SECOND, "policy"));
    let key = people.path("grace").display().to_string();
    let (exit, told) = types(&people, "grace", &url, &["approve", &bundle, "--key", &key]);
    assert_eq!((exit, gates(&told)), (Some(0), 2), "{told}");
    // One of them is away when it is put in force.
    second.stop().await;
    let (exit, told) = types(&people, "grace", &url, &["activate", &bundle]);
    assert_eq!((exit, gates(&told)), (Some(0), 1), "{told}");
    assert!(!runs(&first).await);
    second = two.serve().await;
    assert!(!runs(&second).await, "it catches up before it serves");
    // A new one has the first bundle in its directory, and follows.
    let three = gate();
    let mut third = three.serve().await;
    assert!(!runs(&third).await);
    // A directory that no amendment knows is not where a new gate may begin.
    let four = gate();
    four.bundle("9.0.0", FIRST, "policy");
    let mut fourth = four.start();
    fourth.not_ready("no bundle is in force").await;
    fourth.stop().await;
    for sidecar in [&mut first, &mut second, &mut third] {
        sidecar.stop().await;
    }
    let summary = check(&one.database, &tool, &one.receipts);
    assert_eq!(kinds(&summary, "amendment.approved"), 3);
}
