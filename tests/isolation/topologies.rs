//! Topologies A and C: a hostile agent gets nowhere, and a rule that is gone is found.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

use crate::checker::kinds;
use crate::world::{self, AGENT, World, as_uid, done};

/// Everything a hostile agent tries with plain sockets.
fn escape(operators: SocketAddr) {
    let tcp = [
        "93.184.216.34:443",
        "10.0.0.1:443",
        "169.254.169.254:80",
        "[::ffff:169.254.169.254]:80",
        "[2606:4700:4700::1111]:443",
        "[fd00:ec2::254]:80",
    ];
    let tcp = tcp.iter().map(|at| at.parse::<SocketAddr>().unwrap()).chain([operators]);
    for at in tcp {
        let tried = TcpStream::connect_timeout(&at, Duration::from_secs(1));
        assert!(tried.is_err(), "{at} was reached");
    }
    for (from, to) in [("0.0.0.0:0", "8.8.8.8:53"), ("[::]:0", "[2001:4860:4860::8888]:53")] {
        let socket = UdpSocket::bind(from).unwrap();
        let sent = socket.send_to(b"a secret", to);
        assert!(sent.is_err(), "{to} was sent {sent:?}");
    }
    let icmp = Some(rustix::net::ipproto::ICMP);
    let (inet, raw) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::RAW);
    assert!(rustix::net::socket(inet, raw, icmp).is_err(), "a raw socket was made");
}

fn operators(world: &World) -> SocketAddr {
    world.sidecar.operator_url().strip_prefix("http://").unwrap().parse().unwrap()
}

#[test]
fn under_uid_rules_nothing_leaves_and_a_rule_that_is_gone_is_found_and_shuts_the_gate() {
    world::run(
        "topologies::under_uid_rules_nothing_leaves_and_a_rule_that_is_gone_is_found_and_shuts_the_gate",
        || {
            let mut world = World::begin(|_| {});
            world.not_ready("isolation.missing: agent `test-agent`");
            assert_eq!(world.call().unwrap_err().detail, "isolation.missing");

            world.rules();
            let at = operators(&world);
            as_uid(AGENT, async move || escape(at));
            let [v4, v6] = world.refused();
            assert!(v4 >= 6 && v6 >= 3, "{v4} and {v6} packets were refused");
            world.doctor(AGENT).passed();
            assert!(world.refused()[0] > v4, "the doctor tried over IPv4");
            assert!(world.refused()[1] > v6, "the doctor tried over IPv6");
            assert_eq!(world.canaries.seen(), (0, 0), "something got out");
            world.ready();
            world.call().unwrap();

            done(Command::new("nft").args(["delete", "table", "inet", "wicketgate"]));
            let networks = ["tcp.public", "tcp.private", "tcp.metadata"];
            let networks6 = ["tcp6.public", "tcp6.private", "tcp6.metadata"];
            let found = world.doctor(AGENT);
            found.open(&networks);
            found.open(&networks6);
            found.open(&["udp.dns", "udp6.dns", "gate.operators", "gate.address", "gate.backend"]);
            assert!(world.canaries.seen().0 > 0);
            world.not_ready("isolation.failed: agent `test-agent` as uid 1500");
            let refused = world.call().unwrap_err();
            assert_eq!((&*refused.code, &*refused.detail), ("policy.denied", "isolation.failed"));

            world.rules();
            world.doctor(AGENT).passed();
            world.ready();
            world.call().unwrap();
            let summary = world.close();
            assert_eq!(kinds(&summary, "posture.observed"), 3);
            assert_eq!(kinds(&summary, "call.denied"), 2);
        },
    );
}

/// Corpus 16, FLT-034: whoever is out of memory is ended by this signal.
#[test]
fn while_a_killed_gate_is_away_the_agent_gets_nowhere_and_the_next_one_goes_on() {
    world::run(
        "topologies::while_a_killed_gate_is_away_the_agent_gets_nowhere_and_the_next_one_goes_on",
        || {
            let mut world = World::begin(|_| {});
            world.rules();
            world.doctor(AGENT).passed();
            world.ready();
            world.call().unwrap();
            let at = operators(&world);

            world.sidecar.kill();
            let before = world.refused();
            as_uid(AGENT, async move || escape(at));
            let after = world.refused();
            assert!(after[0] > before[0] && after[1] > before[1], "{before:?}, then {after:?}");
            assert_eq!(world.canaries.seen(), (0, 0), "something got out");

            world.restart();
            // What was seen of the agent's place was seen by another process.
            world.not_ready("isolation.missing: agent `test-agent`");
            world.doctor(AGENT).passed();
            world.ready();
            world.call().unwrap();
            assert_eq!(world.canaries.seen(), (0, 0), "something got out");
            assert_eq!(kinds(&world.close(), "posture.observed"), 2);
        },
    );
}

#[test]
fn in_a_network_of_its_own_the_agent_reaches_the_gate_and_nothing_else() {
    world::run(
        "topologies::in_a_network_of_its_own_the_agent_reaches_the_gate_and_nothing_else",
        || {
            let mut world = World::begin(|_| {});
            world.isolated_doctor().passed();
            assert_eq!(world.canaries.seen(), (0, 0), "something got out");
            world.ready();
            // The same agent outside of it.
            world.doctor(AGENT).open(&["tcp.public", "tcp6.metadata", "udp.dns", "gate.operators"]);
            world.not_ready("isolation.failed");
            world.isolated_doctor().passed();
            world.ready();
            assert_eq!(kinds(&world.close(), "posture.observed"), 3);
        },
    );
}

#[test]
fn a_doctor_in_a_container_knows_its_gate_although_its_process_has_no_number_there() {
    world::run(
        "topologies::a_doctor_in_a_container_knows_its_gate_although_its_process_has_no_number_there",
        || {
            let mut world = World::begin(|_| {});
            world.rules();
            let found = world.doctor_in_a_container();
            found.passed();
            assert!(found.kinds("blocked").contains(&"gate.process"), "{:#}", found.value);
            world.ready();
            world.call().unwrap();
            // Without the rules, the same doctor finds the way out.
            done(Command::new("nft").args(["delete", "table", "inet", "wicketgate"]));
            world.doctor_in_a_container().open(&["tcp.public"]);
            world.not_ready("isolation.failed");
            assert_eq!(kinds(&world.close(), "posture.observed"), 2);
        },
    );
}

/// With pauses of an hour this would never end: as long as the gate hears nothing, they begin at a second.
#[test]
fn a_doctor_that_finds_no_gate_retries_soon_and_refused_calls_name_what_is_missing() {
    world::run(
        "topologies::a_doctor_that_finds_no_gate_retries_soon_and_refused_calls_name_what_is_missing",
        || {
            let mut world = World::begin(|_| {});
            world.rules();
            world.sidecar.kill();
            let mut doctor = world.doctor_that_waits();
            world.restart();
            let refused = world.call().err();
            if let Some(refused) = refused {
                assert_eq!(refused.detail, "isolation.missing");
                assert!(refused.message.contains("wicketgate config doctor"), "{refused:?}");
            }
            world.ready();
            world.call().unwrap();
            doctor.kill().unwrap();
            doctor.wait().unwrap();
            world.close();
        },
    );
}

/// The tool is gone, and with it whatever would answer: an agent's silence says nothing of a rule then.
#[test]
fn the_doctor_tries_backends_and_silence_counts_only_if_the_gate_reaches_them() {
    world::run(
        "topologies::the_doctor_tries_backends_and_silence_counts_only_if_the_gate_reaches_them",
        || {
            let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let mut world = World::begin(|config| {
                config["tools"][0]["http"]["url"] = serde_json::json!(format!("http://{nobody}/x"));
            });
            world.rules();
            let found = world.doctor(AGENT);
            // The other tools answer, and the rule keeps the agent from them.
            assert!(found.kinds("blocked").contains(&"gate.backend"), "{:#}", found.value);
            assert!(found.kinds("unknown").contains(&"gate.backend"), "{:#}", found.value);
            world.not_ready("isolation.failed");
            assert_eq!(world.call().unwrap_err().detail, "isolation.failed");
            // The gate looks again once what it found is ten seconds old.
            let _somebody = std::net::TcpListener::bind(nobody).unwrap();
            world.wait("the rule to be told from silence", || world.doctor(AGENT).code == 0);
            world.ready();
            world.close();
        },
    );
}
