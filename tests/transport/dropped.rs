//! Tools behind a NetworkPolicy that drops what the gate sends: who reads the address.

use serde_json::{Value, json};
use wicketgate_support::dropped::Dropped;

use crate::checker::check;
use crate::sidecar::Estate;
use crate::tool::Tool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_names_the_address_that_drops_connections_and_the_agent_is_not_told_it() {
    let tool = Tool::start().await;
    let (slow, short) = (Dropped::start(), Dropped::start());
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| {
        for (name, dropped, timeout) in [("work.do", &slow, 20_000), ("work.fail", &short, 4_000)] {
            let tools = config["tools"].as_array_mut().unwrap();
            let bound: &mut Value = tools.iter_mut().find(|tool| tool["name"] == name).unwrap();
            bound["http"]["url"] = json!(format!("http://{}/", dropped.address));
            bound["timeout_ms"] = json!(timeout);
        }
    });
    let mut sidecar = estate.serve().await;
    let agent = sidecar.open().await;
    // One attempt is given up by the gate, the other is still made when the call's own time ends.
    for (name, dropped) in [("work.do", &slow), ("work.fail", &short)] {
        let address = dropped.address.to_string();
        for call in ["a", "b"] {
            let refused = agent.call(name, &format!("{name}-{call}"), "{}").await.unwrap_err();
            assert!(!format!("{refused:?}").contains(&address), "{refused:?}");
        }
        let said = sidecar.said();
        let named: Vec<&str> = said.lines().filter(|line| line.contains(&address)).collect();
        let [line] = *named else { panic!("said once for two calls: {named:?}") };
        assert!(line.contains("sends nothing back, as if a firewall or a NetworkPolicy"), "{line}");
    }
    agent.seal().await.unwrap();
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_names_the_address_of_the_database_that_drops_its_connections() {
    let tool = Tool::start().await;
    let dropped = Dropped::start();
    let url = format!("postgres://gate@{}/ledger?sslmode=disable", dropped.address);
    let estate = Estate::postgres(&tool, &url, &url, "local");
    let mut gate = estate.start();
    let named = format!("{} sends nothing back, as if a firewall", dropped.address);
    gate.hear("the address of its database", |line| line.contains(&named).then_some(()));
    gate.kill();
}
