//! Break-glass through a hub, in front of two gates over one database.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::checker::check;
use crate::glass::{RULES, configure, hand_out, nonce, request, signs};
use crate::people::People;
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;
use wicketgate_support::hub::Hub;
use wicketgate_support::pg::Pg;

struct Gate {
    estate: Estate,
    sidecar: Sidecar,
    agent: Agent,
}

impl Gate {
    /// Whether a call that waits for two people runs now.
    async fn lets(&self, id: &str) -> bool {
        match self.agent.call("work.do", id, r#"{"hold":true}"#).await {
            Ok(_) => true,
            Err(refused) => {
                assert_eq!(refused.code, "call.held", "{id}");
                false
            }
        }
    }
}

/// Harry and Iris sign, Otto brings it to the hub: how that ended, and what was said.
fn breaks(people: &People, url: &str, name: &str) -> (Option<i32>, Value) {
    request(people, name, "work.do", "30");
    let (harry, iris) = (signs(people, "harry", name), signs(people, "iris", name));
    let args = ["break-glass", "open", name, "--signature", &harry, "--signature", &iris, "--json"];
    let (exit, said) = people.types("otto", url, &args);
    (exit, serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn glass_that_is_broken_at_a_hub_is_broken_at_every_gate_and_closed_at_every_gate() {
    let (people, tool) = (People::new(), Tool::start().await);
    hand_out(&people);
    let db = tokio::task::spawn_blocking(Pg::cluster).await.unwrap().database().await;
    let mut gates = Vec::new();
    for _ in 0..2 {
        let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
        estate.bundle("1.0.1", RULES, "policy");
        estate.configure(|config| {
            configure(&people, config);
            config["operators"] = json!([]);
        });
        let sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        gates.push(Gate { estate, sidecar, agent });
    }
    let urls = (db.operator_url.as_str(), db.reader_url.as_str());
    let change = |config: &mut Value| configure(&people, config);
    let hub = Hub::configured(&gates[0].estate, &people, urls, ("hub", &change)).await;
    let url = hub.url();
    for gate in &gates {
        assert!(!gate.lets("before").await);
    }
    let (exit, told) = breaks(&people, &url, "glass.json");
    assert_eq!((exit, told["gates"].as_array().map(Vec::len)), (Some(0), Some(2)), "{told}");
    for gate in &gates {
        // What waited runs, and so does what is asked now.
        gate.agent.wait("before", 20_000).await.unwrap();
        assert!(gate.lets("during").await);
    }
    // A gate that was away comes back to an order that stands.
    gates[1].sidecar.kill();
    gates[1].sidecar = gates[1].estate.serve().await;
    assert!(gates[1].lets("again").await);
    let nonce_one = nonce(&people, "glass.json");
    let close = ["break-glass", "close", &nonce_one, "--reason", "over"];
    let (exit, said) = people.types("otto", &url, &close);
    assert_eq!(exit, Some(0), "{said}");
    for gate in &gates {
        assert!(!gate.lets("closed").await);
    }
    // One gate hears of the next order only when it is back, and obeys it then.
    gates[1].sidecar.kill();
    let (exit, told) = breaks(&people, &url, "second.json");
    assert_eq!(exit, Some(1), "one gate was not reached: {told}");
    assert_eq!(told["not_reached"].as_array().map(Vec::len), Some(1), "{told}");
    assert!(gates[0].lets("second").await);
    gates[1].sidecar = gates[1].estate.serve().await;
    crate::until("the second gate to obey", || async {
        let (_, told) = gates[1].sidecar.readiness().await.unwrap();
        told.contains("needs no approver")
    })
    .await;
    assert!(gates[1].lets("second").await);
    let review = |who: &str, nonce: &str| {
        people.types(who, &url, &["break-glass", "review", nonce, "--note", "as it should be"])
    };
    assert!(review("otto", &nonce_one).1.contains("break_glass.self"));
    assert_eq!(review("aude", &nonce_one).0, Some(0));
    let (_, listed) = people.types("aude", &url, &["break-glass", "list"]);
    assert!(listed.contains("reviewed by aude") && listed.contains("OPEN"), "{listed}");
    for gate in &mut gates {
        gate.sidecar.stop().await;
    }
    for gate in &gates {
        check(&gate.estate.database, &tool, &gate.estate.receipts);
    }
}
