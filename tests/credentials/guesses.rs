//! Guesses at a credential of the gate: no answer says how good one was, and the first that is right ends the guessing.

use std::collections::BTreeMap;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use tonic::Status;
use tonic_types::StatusExt as _;
use wicketgate::clock::SystemEntropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::openssh;
use wicketgate::crypto::ssh::SshKey;

use crate::agent::{Agent, Receipts, Refused};
use crate::encodings;
use crate::estate::Estate;
use crate::kinds::{holds, whole};
use crate::private::private;
use wicketgate_support::sidecar::Sidecar;

/// These are echoed; any other is denied, for no rule allows it.
const RULES: &str =
    "package wicketgate.agent\nimport rego.v1\nallow if startswith(input.args.text, \"open\")\n";

/// Says what it was told, as a result or as an error.
async fn echo(body: String) -> (StatusCode, String) {
    let failed = body.contains("/fail/");
    (if failed { StatusCode::BAD_REQUEST } else { StatusCode::OK }, body)
}

/// A gate that holds these credentials, each of a tool of its own, and has a tool that echoes.
async fn holding(secrets: &[String], limits: Value, operators: Value) -> Estate {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let routes = Router::new().route("/", post(echo));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    let mut tools =
        vec![json!({"name": "asks", "description": "echoes", "kind": "http", "tier": "T1",
        "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}},
        "http": {"method": "POST", "url": format!("http://127.0.0.1:{port}/"), "body": "args",
            "private_addresses": ["127.0.0.0/8"]}})];
    for (n, _) in secrets.iter().enumerate() {
        tools.push(json!({"name": format!("held.{n}"), "description": "holds", "kind": "http",
            "tier": "T0", "read_only": true, "input_schema": {"type": "object"},
            "credentials": [{"header": "authorization", "file": format!("secret.{n}")}],
            "http": {"method": "GET", "url": "https://api.example.com/"}}));
    }
    let estate = Estate::with(&tools, |dir| {
        for (n, secret) in secrets.iter().enumerate() {
            private(dir.join(format!("secret.{n}")), secret);
        }
        Vec::new()
    });
    std::fs::write(estate.path("bundle/agent/main.rego"), RULES).unwrap();
    let sign = ["policy", "sign", "bundle", "--key", "policy", "--name", "command"];
    estate.run(&[&sign[..], &["--version", "1.0.0"]].concat());
    let config = std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    config["limits"] = limits;
    config["operators"] = operators;
    config["trust"]["approver_keys"] = json!(["list.pub"]);
    config["approvals"] = json!({"signers": "signers"});
    estate.run(&["keygen", "--out", "list"]);
    let secret = SecretKey::generate(&SystemEntropy);
    openssh::store(&secret, &estate.path("olga"), "olga").unwrap();
    let key = SshKey::Plain(secret.public()).line();
    let line = format!("olga namespaces=\"wicketgate-order\" {key} roles=operator\n");
    std::fs::write(estate.path("signers"), line).unwrap();
    estate.run(&["approval", "sign-approvers", "signers", "--key", "list"]);
    std::fs::write(estate.path("wicketgate.yaml"), config.to_string()).unwrap();
    estate
}

fn random(strategy: &str, many: usize) -> Vec<String> {
    let mut runner = TestRunner::default();
    let strategy = proptest::string::string_regex(strategy).unwrap();
    (0..many).map(|_| strategy.new_tree(&mut runner).unwrap().current()).collect()
}

fn text(text: &str) -> String {
    json!({"text": text}).to_string()
}

/// Everything of an answer but the place of its entry and the text that was asked about.
fn shape(answer: Result<String, Status>, asked: &str) -> String {
    let text = match answer {
        Ok(text) => format!("ok {text}"),
        Err(status) => {
            let kept = status.metadata().keys().map(|key| format!("{key:?}")).collect::<Vec<_>>();
            let info = status.get_details_error_info().unwrap();
            let told: BTreeMap<_, _> = info.metadata.iter().collect();
            let after = status.get_details_retry_info();
            let (code, said, reason) = (status.code(), status.message(), info.reason);
            format!("{code:?} {said} {kept:?} {reason} {told:?} {after:?}")
        }
    };
    let text = text.replace(asked, "ASKED");
    // Digests, ids and sequence numbers.
    let plain =
        regex::Regex::new(r"[0-9a-f]{32,64}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").unwrap();
    let text = plain.replace_all(&text, "ID").into_owned();
    let seq = regex::Regex::new(r#"(seq"?[^0-9a-z]{1,6})[0-9]+"#).unwrap();
    seq.replace_all(&text, "${1}N").into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_to_how_a_credential_begins_is_that_to_what_is_none() {
    let secrets = random("[A-Za-z0-9/+_-]{16,40}", 4);
    let others = random("[A-Za-z0-9/+_-]{40}", 4);
    let limits = json!({"denials_max": null, "tool_denials_max": null});
    let estate = holding(&secrets, limits, json!([])).await;
    let gate = estate.serve();
    let agent = gate.open().await;
    let mut n = 0;
    for (secret, other) in secrets.iter().zip(&others) {
        for length in 1..secret.len() {
            for (before, after) in
                [("open/", "…"), ("open/fail/", "…"), ("open/", ""), ("shut/", "")]
            {
                let answers = [&secret[..length], &other[..length]].map(|guess| {
                    n += 1;
                    let (agent, id) = (agent.clone(), format!("call-{n:06}"));
                    let asked = format!("{before}{guess}{after}");
                    async move {
                        let answer = agent.raw("asks", &id, text(&asked).as_bytes()).await;
                        shape(answer, &asked).replace(&id, "CALL")
                    }
                });
                let [one, two] = answers;
                assert_eq!(one.await, two.await, "the first {length} of a credential");
            }
        }
    }
    // None of them was taken for the thing itself.
    agent.call("asks", "", &text("open")).await.unwrap();
    gate.finish();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guess_that_is_right_is_answered_like_any_other_denial_also_when_it_is_recalled() {
    let secrets = random("[A-Za-z0-9/+_-]{24}", 1);
    let other = random("[A-Za-z0-9/+_-]{24}", 1);
    let limits = json!({"denials_max": null, "tool_denials_max": null, "alarm_rest_seconds": null});
    let estate = holding(&secrets, limits, json!([])).await;
    let gate = estate.serve();
    let agent = gate.open().await;
    for (n, ((name, right), (_, wrong))) in
        encodings::forms(&secrets[0]).into_iter().zip(encodings::forms(&other[0])).enumerate()
    {
        for tool in ["asks", "nothing.here"] {
            let mut told = Vec::new();
            for (guess, of) in [(&right, "right"), (&wrong, "wrong")] {
                let id = format!("{of}-{n}-{tool}");
                let args = text(guess);
                for _again in 0..2 {
                    let answer = agent.raw(tool, &id, args.as_bytes()).await;
                    told.push(shape(answer, guess).replace(&id, "CALL"));
                }
                told.push(format!("{:?}", agent.get(&id).await.unwrap_err()).replace(&id, "CALL"));
            }
            assert_eq!(told[..3], told[3..], "{name}, {tool}");
            assert_eq!(told[0], told[1], "{name}, {tool}");
        }
    }
    gate.finish();
    // The ledger says what it was, and nothing of it is there.
    let denied = estate.entries("call.denied");
    let (alarming, ordinary): (Vec<_>, Vec<_>) =
        denied.iter().partition(|entry| entry.get("args_withheld").is_some());
    assert_eq!(alarming.len(), ordinary.len());
    for entry in alarming {
        assert_eq!(entry["args_withheld"], "credential");
        assert_eq!(entry["reasons"][0]["detail"], "firewall.credential", "{entry}");
    }
    for (name, form) in encodings::forms(&secrets[0]) {
        assert!(!holds(&whole(&estate, "state"), &form), "it is kept: {name}");
    }
}

async fn metrics(port: u16) -> String {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn open(gate: &Sidecar) -> Result<Agent, Refused> {
    Agent::try_open(gate.socket(), &Receipts::default())
        .await
        .map_err(|status| Refused::of(&status))
}

fn suspended(refused: &Refused) {
    let said = (refused.code.as_str(), refused.detail.as_str());
    assert_eq!(said, ("limit.exceeded", "limit.suspended"), "{refused:?}");
    assert!(!refused.message.contains("credential"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_credential_suspends_the_run_and_its_caller_and_alarms_operators() {
    let secrets = random("[A-Za-z0-9/+_-]{24}", 1);
    let operators = json!([{"subject": "otto", "roles": ["operator"], "token_file": "otto.token"}]);
    let estate = holding(&secrets, json!({}), operators).await;
    estate.run(&["keygen", "--token", "operator", "--out", "otto.token"]);
    let gate = estate.serve();
    let (agent, beside) = (gate.open().await, gate.open().await);
    let before = agent.call("asks", "before", &text("open")).await.unwrap();
    let right = agent.call("asks", "right", &text(&secrets[0])).await.unwrap_err();
    assert_eq!((right.code.as_str(), right.detail.as_str()), ("policy.denied", "no_allow"));
    let blocked = async |gate: &Sidecar| {
        suspended(&agent.call("asks", "next", &text("open")).await.unwrap_err());
        suspended(&beside.call("asks", "next", &text("open")).await.unwrap_err());
        suspended(&open(gate).await.map(|agent| agent.run).unwrap_err());
        // What is recorded is still told.
        assert_eq!(agent.call("asks", "right", &text(&secrets[0])).await.unwrap_err(), right);
        assert_eq!(agent.get("before").await.unwrap(), before);
    };
    blocked(&gate).await;
    let log = gate.said();
    assert!(
        log.contains("ERROR") && log.contains("the gate refused a call because of its content"),
        "{log}"
    );
    assert!(!holds(log.as_bytes(), &secrets[0]));
    let metrics = metrics(gate.operators().port()).await;
    assert!(metrics.contains("wicketgate_alarms_total{kind=\"credential\"} 1"), "{metrics}");
    gate.finish();
    // A restart is no way around it.
    let gate = estate.serve();
    blocked(&gate).await;
    let url = format!("http://127.0.0.1:{}", gate.operators().port());
    let order =
        ["control", "reinstate", "run", &agent.run, "--reason", "a false alarm", "--key", "olga"];
    estate.run(&[&order[..], &["--token-file", "otto.token", "--url", &url]].concat());
    open(&gate).await.unwrap();
    for agent in [&agent, &beside] {
        agent.call("asks", "after", &text("open")).await.unwrap();
    }
    gate.finish();
    let applied = estate.entries("control.applied");
    let named: Vec<_> = applied.iter().map(|one| (&one["action"], &one["name"])).collect();
    assert_eq!(named[0], (&json!("suspend"), &json!(agent.run)), "{named:?}");
}
