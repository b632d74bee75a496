//! Sidecars without an enrolment key: a hub certifies their writers.

use serde_json::{Value, json};
use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::crypto::keys::PublicKey;
use wicketgate::ledger::enrolment::Request;
use wicketgate::ledger::writer_key::Certificate;

use crate::checker::check_running;
use crate::enrolled::{EnrolledFleet, key, request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sidecars_are_enrolled_by_the_hub_without_an_enrolment_key_and_their_evidence_verifies_under_it()
 {
    let enrolled = EnrolledFleet::new(true).await;
    let estates = [enrolled.sidecar("local"), enrolled.sidecar("local")];
    let hub = enrolled.hub(&estates[0], "hub").await;
    let mut runs = Vec::new();
    let mut gates = Vec::new();
    for estate in &estates {
        let gate = estate.serve().await;
        let agent = gate.open().await;
        agent.call("work.do", "a", "{}").await.unwrap();
        agent.seal().await.unwrap();
        runs.push(agent.run.clone());
        gates.push(gate);
        assert!(!estate.path("state/enrolment.key").exists());
    }
    let written = enrolled.enrolled().await;
    let of = |name: &str| written.iter().map(|data| data[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("slot"), [json!("local/0"), json!("local/1")], "{written:?}");
    assert_eq!(of("pool"), [json!("local"), json!("local")]);
    let tomorrow = SystemClock::new().now().plus(std::time::Duration::from_secs(24 * 3600));
    for until in of("not_after") {
        let until = wicketgate::domain::time::Timestamp::parse(until.as_str().unwrap()).unwrap();
        assert!(until <= tomorrow, "capped at a day: {until}");
    }
    // Without the hub what is up goes on.
    drop(hub);
    let agent = gates[0].open().await;
    agent.call("work.do", "b", "{}").await.unwrap();
    agent.seal().await.unwrap();
    runs.push(agent.run.clone());

    // The auditor pins the enrolment key, which only the hub has.
    enrolled.proves(&estates[0], &runs).await;
    for gate in &mut gates {
        gate.stop().await;
    }
    for estate in &estates {
        check_running(&estate.database, &enrolled.tool, &estate.receipts);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_starts_before_its_hub_says_so_takes_no_slot_and_serves_once_the_hub_is_there()
 {
    let enrolled = EnrolledFleet::new(true).await;
    let estate = enrolled.sidecar("local");
    let mut gate = estate.start();
    gate.not_ready("enrolment: hub unreachable").await;
    assert_eq!(enrolled.slots().await, Vec::<String>::new());
    let hub = enrolled.hub(&estate, "hub").await;
    gate.ready().await;
    gate.open().await.call("work.do", "a", "{}").await.unwrap();
    // Each epoch is certified anew; the same hub, another hub, it makes no difference.
    gate.stop().await;
    drop(hub);
    let mut gate = estate.start();
    gate.not_ready("enrolment: hub unreachable").await;
    let _hub = enrolled.hub(&estate, "again").await;
    gate.ready().await;
    let epochs: Vec<Value> =
        enrolled.enrolled().await.iter().map(|data| data["epoch"].clone()).collect();
    assert_eq!(epochs, [json!(1), json!(2)]);
    gate.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_with_a_token_that_is_not_its_pools_or_was_taken_back_is_not_enrolled() {
    let enrolled = EnrolledFleet::new(true).await;
    let estate = enrolled.sidecar("local");
    let _hub = enrolled.hub(&estate, "hub").await;
    for (token, reason) in [("other", "enrolment.pool"), ("stranger", "identity.missing")] {
        let other = enrolled.sidecar(token);
        other.start().not_ready(reason).await;
    }
    // The hub reads the file for each request: what was taken back counts no more, and a new one does.
    let own = enrolled.path("own.token");
    std::fs::copy(enrolled.path("local.token"), &own).unwrap();
    estate.configure(|config| config["enrolment"]["token_file"] = json!(own.display().to_string()));
    enrolled.token("local", "another");
    let mut gate = estate.start();
    gate.not_ready("identity.missing").await;
    assert_eq!(enrolled.enrolled().await, Vec::<Value>::new());
    std::fs::copy(enrolled.path("local.token"), &own).unwrap();
    gate.ready().await;
    assert_eq!(enrolled.enrolled().await.len(), 1);
    gate.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_answered_once_for_its_own_slot_epoch_and_key_and_is_the_same_when_it_comes_again()
 {
    let enrolled = EnrolledFleet::new(false).await;
    let estate = enrolled.sidecar("local");
    let hub = enrolled.hub(&estate, "hub").await;
    let (leased, mine, other) = (enrolled.lease("local").await, key(), key());
    let asked = request(&leased, &mine);
    let signed = asked.prove(&mine).unwrap();
    let refused = |(status, body): (u16, Value)| {
        (status, body["cause"].as_str().unwrap_or_default().to_owned())
    };
    let forged = (signed.0.clone(), asked.prove(&other).unwrap().1);
    assert_eq!(refused(enrolled.asks("local", &forged).await), (400, "enrolment.proof".into()));
    let own = |change: &dyn Fn(&mut Request)| {
        let mut asked = request(&leased, &mine);
        change(&mut asked);
        asked.prove(&mine).unwrap()
    };
    let theirs = own(&|asked| asked.certificate.slot = "other/0".into());
    assert_eq!(refused(enrolled.asks("local", &theirs).await), (403, "enrolment.pool".into()));
    assert_eq!(refused(enrolled.asks("other", &signed).await), (403, "enrolment.pool".into()));
    let hubs = own(&|asked| asked.certificate.slot = "hub/0".into());
    assert_eq!(refused(enrolled.asks("local", &hubs).await), (403, "enrolment.pool".into()));
    let tenant = own(&|asked| asked.tenant = "other".into());
    assert_eq!(refused(enrolled.asks("local", &tenant).await), (403, "enrolment.pool".into()));
    let next = own(&|asked| asked.certificate.epoch += 1);
    assert_eq!(refused(enrolled.asks("local", &next).await), (403, "enrolment.epoch".into()));
    let none = own(&|asked| asked.certificate.slot = "local/7".into());
    assert_eq!(refused(enrolled.asks("local", &none).await), (403, "enrolment.epoch".into()));
    let other_log = own(&|asked| asked.log = asked.log.replace("/0/0", "/0/1"));
    assert_eq!(refused(enrolled.asks("local", &other_log).await), (403, "enrolment.epoch".into()));
    let past = own(&|asked| {
        asked.certificate.not_after = wicketgate::domain::time::Timestamp::from_millis(0);
    });
    assert_eq!(refused(enrolled.asks("local", &past).await), (400, "enrolment.request".into()));
    assert_eq!(enrolled.asks("stranger", &signed).await.0, 401);
    assert_eq!(enrolled.enrolled().await, Vec::<Value>::new(), "nothing of this was certified");

    let (status, first) = enrolled.asks("local", &signed).await;
    assert_eq!(status, 200, "{first}");
    let public = PublicKey::load_all(&enrolled.path("enrolment.pem.pub")).unwrap()[0];
    let issued = serde_json::from_value(first["certificate"].clone()).unwrap();
    let certificate = Certificate::open(&issued, &public).unwrap();
    assert_eq!((certificate.slot.as_str(), certificate.key), (leased.slot.as_str(), mine.public()));
    assert_eq!(enrolled.asks("local", &signed).await, (200, first.clone()), "replayed");
    let taken = request(&leased, &other).prove(&other).unwrap();
    assert_eq!(refused(enrolled.asks("local", &taken).await), (403, "enrolment.taken".into()));
    assert_eq!(enrolled.enrolled().await.len(), 1, "one certificate, one entry");
    // Another hub knows it from the books.
    drop(hub);
    let _hub = enrolled.hub(&estate, "again").await;
    assert_eq!(enrolled.asks("local", &signed).await, (200, first));
    assert_eq!(refused(enrolled.asks("local", &taken).await), (403, "enrolment.taken".into()));
    assert_eq!(enrolled.enrolled().await.len(), 1);
    // Operators are answered elsewhere.
    for path in ["/v1/control", "/v1/fleet", "/metrics"] {
        let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_eq!(enrolled.sends(&ask).await.0, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_in_the_enrolment_sections_name_the_key() {
    let enrolled = EnrolledFleet::new(false).await;
    let refused = |change: &dyn Fn(&mut Value), words: &[&str]| enrolled.checks(change, words);
    refused(&|_| (), &[]);
    refused(
        &|config| config["fleet"] = json!({"enrolment_key": enrolled.shown("enrolment.pem")}),
        &["enrolment:", "`fleet.enrolment_key`"],
    );
    refused(&|config| config["ledger"] = json!({"sqlite": {}}), &["enrolment:", "Postgres"]);
    refused(
        &|config| config["enrolment"]["hub"] = json!("http://hub.example:7303"),
        &["enrolment.hub", "in the clear"],
    );
    refused(
        &|config| config["enrolment"]["public_key"] = json!(enrolled.shown("none.pub")),
        &["enrolment.public_key", "none.pub"],
    );
    let tokens = enrolled.dir.path().display().to_string();
    let reads = json!({"name": "fs.read", "description": "reads", "kind": "file.read", "tier": "T0",
    "read_only": true, "file": {"root": tokens, "name": "tokens"},
    });
    refused(&|config| config["tools"] = json!([reads]), &["which no tool may read"]);
    let registry = |change: &dyn Fn(&mut Value)| {
        let token =
            |pool: &str, file: &str| json!({"pool": pool, "token_file": enrolled.shown(file)});
        let mut registry =
            json!({"listen": "127.0.0.1:0", "tokens": [token("local", "local.token")]});
        change(&mut registry);
        registry
    };
    let hub = |change: &dyn Fn(&mut Value), words: &[&str]| {
        refused(&|config| config["hub"] = json!({"enrolment": registry(change)}), words);
    };
    hub(&|_| (), &[]);
    hub(
        &|registry| registry["listen"] = json!("0.0.0.0:7303"),
        &["hub.enrolment.listen", "`hub.enrolment.tls`"],
    );
    hub(&|registry| registry["days"] = json!(91), &["hub.enrolment.days", "from 1 to 90"]);
    hub(
        &|registry| registry["tokens"][0]["pool"] = json!("hub"),
        &["hub.enrolment.tokens[0].pool", "themselves"],
    );
    hub(
        &|registry| {
            let mut second = registry["tokens"][0].clone();
            second["pool"] = json!("other");
            registry["tokens"].as_array_mut().unwrap().push(second);
        },
        &["hub.enrolment.tokens[1].token_file", "another pool has"],
    );
}
