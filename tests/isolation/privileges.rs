//! What an agent must not have beside a network: the gate's uid, its files, capabilities, tokens.

use crate::world::{self, AGENT, World};

#[test]
fn an_agent_with_the_gates_own_uid_is_held_by_nothing_and_that_is_found() {
    world::run(
        "privileges::an_agent_with_the_gates_own_uid_is_held_by_nothing_and_that_is_found",
        || {
            let world = World::begin(|config| {
                config["agents"][0]["callers"] = serde_json::json!([{"uid": 0}]);
            });
            world.rules();
            let found = world.doctor_as_the_gate();
            found.open(&["gate.process", "gate.files", "socket.raw"]);
            found.open(&["privileges.capabilities", "privileges.escalation"]);
            let reasons = found.value["receipt"]["reasons"].to_string();
            assert!(reasons.contains("is open"), "{reasons}");
            world.not_ready("isolation.failed: agent `test-agent` as uid 0");
        },
    );
}

#[test]
fn a_token_that_is_mounted_for_the_agent_and_files_it_may_change_are_found() {
    world::run(
        "privileges::a_token_that_is_mounted_for_the_agent_and_files_it_may_change_are_found",
        || {
            let world = World::begin(|_| {});
            world.rules();
            world.doctor(AGENT).passed();
            let mounted = "/run/secrets/kubernetes.io/serviceaccount";
            std::fs::create_dir_all(mounted).unwrap();
            std::fs::write(format!("{mounted}/token"), "a token").unwrap();
            let manifest = world.estate.path("agent.yaml");
            std::os::unix::fs::chown(&manifest, Some(AGENT), None).unwrap();
            let found = world.doctor(AGENT);
            found.open(&["credentials.token", "gate.files"]);
            assert_eq!(found.kinds("open"), ["credentials.token", "gate.files"]);
            world.not_ready("credentials.token /var/run/secrets/kubernetes.io");
        },
    );
}
