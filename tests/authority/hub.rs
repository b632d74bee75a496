//! Two gates, one hub, one database.

use wicketgate_support::hub::Hub;
use wicketgate_support::people::{People, RULES, done};
use wicketgate_support::pg::Pg;

use crate::checker::check;
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_in_front_of_two_gates_approves_in_either_and_stops_both() {
    let (people, tool) = (People::new(), Tool::start().await);
    let db = Pg::cluster().database().await;
    let mut gates: Vec<(Estate, Sidecar)> = Vec::new();
    for _ in 0..2 {
        let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
        estate.bundle("1.0.1", RULES, "policy");
        estate.configure(|config| people.configure(config, false));
        let sidecar = estate.serve().await;
        gates.push((estate, sidecar));
    }
    let mut hub = Hub::start(&gates[0].0, &people, (&db.operator_url, &db.reader_url)).await;
    let url = hub.url();
    let mut agents = Vec::new();
    let ids = ["c0", "c1"];
    for ((_, sidecar), id) in gates.iter().zip(ids) {
        let agent = sidecar.open().await;
        let held = agent.call("work.do", id, r#"{"hold":2}"#).await;
        assert_eq!(held.unwrap_err().code, "call.held");
        agents.push(agent);
    }
    let (exit, said) = people.types("ada", &url, &["approval", "list"]);
    assert_eq!(exit, Some(0), "{said}");
    assert!(agents.iter().all(|agent| said.contains(&agent.run)), "{said}");
    for (agent, id) in agents.iter().zip(ids) {
        let call = (agent.run.as_str(), id);
        assert_eq!(done(&people.says("ada", "approve", &url, call).1).0, "held");
        let (exit, told) = people.says("grace", "approve", &url, call);
        assert_eq!((exit, done(&told).0.as_str()), (Some(0), "authorized"), "{told}");
        agent.wait(id, 20_000).await.unwrap();
    }
    assert_eq!(tool.count(), 2);
    // One word stops both, and says so.
    let kill = ["control", "kill", "agent", "test-agent", "--reason", "it runs away", "--json"];
    let (exit, said) = people.types("otto", &url, &kill);
    assert_eq!(exit, Some(0), "{said}");
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (told["runs_sealed"].as_u64(), told["gates"].as_array().map(Vec::len)),
        (Some(2), Some(2)),
        "{told}"
    );
    for agent in &agents {
        assert_eq!(agent.call("work.do", "d", "{}").await.unwrap_err().code, "run.sealed");
    }
    // Without a hub, calls go on.
    hub.kill();
    let again = gates[0].1.open().await;
    again.call("work.do", "e", "{}").await.unwrap();
    for (_, sidecar) in &mut gates {
        sidecar.stop().await;
    }
    for (estate, _) in &gates {
        check(&estate.database, &tool, &estate.receipts);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_on_postgres_warns_that_operators_have_no_effect_and_names_the_hub() {
    let (people, tool) = (People::new(), Tool::start().await);
    let db = Pg::cluster().database().await;
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let check = ["config", "check", "wicketgate.yaml"];
    let warned = || {
        let ran = estate.try_run(&check).ok();
        ran.out + &ran.err
    };
    assert!(!warned().contains("`operators`"));
    estate.configure(|config| people.configure(config, true));
    let said = warned();
    assert!(said.contains("warning: `operators` has no effect here"), "{said}");
    let mut sidecar = estate.serve().await;
    let said = sidecar.said();
    assert!(
        said.contains("WARN") && said.contains("on Postgres `wicketgate serve hub` serves"),
        "{said}"
    );
    sidecar.stop().await;
}
