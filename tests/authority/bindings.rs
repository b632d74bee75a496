//! `spec.binding` through the built program: which faces and bindings a manifest accepts, and irreversible
//! calls that two people with SSH keys let run over gRPC and over MCP.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use wicketgate::serve::pb;
use wicketgate::serve::pb::gate_client::GateClient;

use crate::agent::{Refused, channel, claims};
use crate::checker::check;
use crate::people::{People, RULES, done};
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;
use wicketgate_support::ran::Ran;
use wicketgate_support::wire::{Place, Wire, request};

const BINDINGS: [&str; 3] = ["unclaimed", "claimed", "observed"];

fn rank(binding: &str) -> usize {
    BINDINGS.iter().position(|one| *one == binding).unwrap()
}

/// Gives the manifest this binding, and `work.do` the tier T3.
fn manifest(estate: &Estate, version: &str, binding: &Value) {
    estate.manifest(version, "manifest", |text| {
        let mut value: Value = serde_json::from_str(&text).unwrap();
        value["spec"]["binding"] = binding.clone();
        for grant in value["spec"]["tools"].as_array_mut().unwrap() {
            if grant["name"] == "work.do" {
                grant["tier"] = "T3".into();
            }
        }
        value.to_string()
    });
}

/// A client of the MCP face: every answer is the JSON-RPC message.
struct Client {
    socket: std::path::PathBuf,
    session: String,
}

impl Client {
    async fn begin(sidecar: &Sidecar, estate: &Estate) -> Result<Client, Value> {
        let _ = sidecar;
        let mut client = Client { socket: estate.socket(), session: String::new() };
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}});
        let (head, answer) = client.post("1", "initialize", &hello).await;
        if answer.get("error").is_some() {
            return Err(answer["error"].clone());
        }
        let line = head.lines().find(|line| line.starts_with("mcp-session-id:")).unwrap();
        client.session = line["mcp-session-id:".len()..].trim().to_owned();
        Ok(client)
    }

    async fn call(&self, id: &str, arguments: &Value) -> Value {
        let params = json!({"name": "work.do", "arguments": arguments});
        self.post(id, "tools/call", &params).await.1
    }

    async fn post(&self, id: &str, method: &str, params: &Value) -> (String, Value) {
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let session = match self.session.as_str() {
            "" => String::new(),
            id => format!("mcp-session-id: {id}\r\n"),
        };
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: application/json\r\n\
             Content-Type: application/json\r\n{session}Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = UnixStream::connect(&self.socket).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let answer = serde_json::from_str(body);
        (head.to_lowercase(), answer.unwrap_or_else(|e| panic!("{e}: {text}")))
    }
}

/// Code and detail of what the MCP face says to a call.
fn told(answer: &Value) -> (String, String) {
    let (meta, data) = (&answer["result"]["_meta"], &answer["error"]["data"]);
    let text = |name: &str| {
        let own = meta.get(format!("wicketgate.dev/{name}")).or_else(|| data.get(name));
        own.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    (text("code"), text("detail"))
}

/// Ada and Grace approve the one call that waits.
fn two_approve(people: &People, url: &str) -> (String, String) {
    let (exit, said) = people.types("ada", url, &["approval", "list", "--json"]);
    assert_eq!(exit, Some(0), "{said}");
    let listed: Value = serde_json::from_str(&said).unwrap();
    let text = listed.to_string();
    let held = find(&listed, "run").unwrap_or_else(|| panic!("{text}"));
    let call = find(&listed, "call").unwrap_or_else(|| panic!("{text}"));
    let first = people.says("ada", "approve", url, (&held, &call)).1;
    assert_eq!(done(&first).0, "held", "one of two: {first}");
    let second = people.says("grace", "approve", url, (&held, &call)).1;
    assert_eq!(done(&second).0, "authorized", "{second}");
    (held, call)
}

/// The first text of this name, wherever it stands.
fn find(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::Object(members) => members
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
            .or_else(|| members.values().find_map(|value| find(value, name))),
        Value::Array(items) => items.iter().find_map(|value| find(value, name)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// What `evidence verify` says of this run, and the opening as exported.
fn evidence(estate: &Estate, run_id: &str, out: &str) -> Value {
    let dir = estate.path(".");
    if !estate.path("evidence.pem").exists() {
        for name in ["evidence.pem", "fleet.pem"] {
            run(&dir, &["keygen", "--out", name]);
        }
    }
    let order = ["evidence", "export", "--run", run_id, "--out", out, "--key", "evidence.pem"];
    let from = ["--config", "wicketgate.yaml", "--artifacts", "state/artifacts"];
    let fleet = ["--fleet-key", "fleet.pem", "--enrolment-key", "state/enrolment.key"];
    run(&dir, &[&order[..], &from, &fleet].concat());
    let trust = format!(
        "enrolment-key {}\nevidence-key {}\n",
        estate.path("state/enrolment.key.pub").display(),
        estate.path("evidence.pem.pub").display()
    );
    std::fs::write(estate.path("trust.txt"), trust).unwrap();
    let verify = ["evidence", "verify", "--json", "--trust", "trust.txt", out];
    Ran::gate(&dir, verify).json()
}

/// Every face with every demand: the call runs once if and only if what the face gives is enough, and always
/// waits for two people first. 11 s: three gates, and twelve people's commands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_t3_call_runs_after_two_approvers_over_every_face_whose_binding_the_manifest_accepts() {
    let (people, tool) = (People::new(), Tool::start().await);
    let estate = Estate::sqlite(&tool);
    estate.bundle("1.0.1", RULES, "policy");
    estate.configure(|config| people.configure(config, true));
    let mut ran = 0;
    for (n, tier3) in BINDINGS.iter().enumerate() {
        let binding = json!({"minimum": "unclaimed", "tier3": tier3});
        manifest(&estate, &format!("1.1.{n}"), &binding);
        let checked = run(&estate.path("."), &["config", "check", "wicketgate.yaml", "--json"]);
        let never = "can never run the tool `work.do`";
        assert_eq!(checked.contains(never), *tier3 == "observed", "{tier3}: {checked}");
        for told in [
            run(
                &estate.path("."),
                &["policy", "lint", "bundle", "--config", "wicketgate.yaml", "--json"],
            ),
            run(&estate.path("."), &["tools", "probe", "--config", "wicketgate.yaml", "--json"]),
        ] {
            assert_eq!(told.contains(never), *tier3 == "observed", "{tier3}: {told}");
        }
        let mut sidecar = estate.serve().await;
        let url = sidecar.operator_url();
        let agent = sidecar.open().await;
        let client = Client::begin(&sidecar, &estate).await.unwrap();
        let args = json!({"hold": 2, "n": n});

        let first = agent.call("work.do", "c", &args.to_string()).await.unwrap_err();
        if rank("claimed") >= rank(tier3) {
            assert_eq!(first.code, "call.held", "{first:?}");
            let (run_id, _) = two_approve(&people, &url);
            assert_eq!(run_id, agent.run);
            agent.wait("c", 20_000).await.unwrap();
            ran += 1;
        } else {
            let what = (first.code.as_str(), first.detail.as_str());
            assert_eq!(what, ("binding.insufficient", "tier3_binding"));
        }

        let args = json!({"hold": 2, "n": n + 100});
        let first = client.call("7", &args).await;
        let mut evident = None;
        if rank("unclaimed") >= rank(tier3) {
            assert_eq!(told(&first).0, "call.held", "{first}");
            let (run_id, _) = two_approve(&people, &url);
            let again = client.call("7", &args).await;
            assert_ne!(again["result"]["isError"], true, "{again}");
            assert!(again.to_string().contains(r#""binding":"unclaimed""#), "{again}");
            ran += 1;
            evident = Some(run_id);
        } else {
            assert_eq!(told(&first), ("binding.insufficient".into(), "tier3_binding".into()));
        }
        assert_eq!(tool.count(), ran);
        agent.seal().await.unwrap();
        sidecar.stop().await;
        if let Some(run_id) = evident {
            let report = evidence(&estate, &run_id, "evidence");
            let text = report.to_string();
            // Who may approve is for the auditor to trust, and this one names nobody (P4).
            let mut left =
                report["checks"].as_array().unwrap().iter().filter(|c| c["outcome"] != "VALID");
            assert!(left.all(|c| c["id"] == "P4" && c["outcome"] == "UNVERIFIABLE"), "{text}");
            assert!(text.contains("the agent claimed none"), "{text}");
            let entries = std::fs::read(estate.path("evidence/ledger/entries.jsonl"));
            let entries = String::from_utf8(entries.unwrap()).unwrap();
            let opened = entries.lines().find(|line| line.contains(r#""kind":"run.opened""#));
            assert!(opened.unwrap().contains(r#""binding":"unclaimed""#));
        }
    }
    assert_eq!(ran, 3);
    check(&estate.database, &tool, &estate.receipts);
}

/// What `POST /gate/v1/runs` answers to these claims: the finer code of a refusal, empty for a run.
async fn opened_over_http(estate: &Estate, claims: &Value) -> String {
    let mut wire = Wire::open(&Place::Socket(estate.socket())).await;
    let lines = [("Host", "localhost"), ("Content-Type", "application/json")];
    wire.send(&request("POST", "/gate/v1/runs", &lines, claims.to_string().as_bytes())).await;
    let reply = wire.reply().await.unwrap();
    match reply.status {
        201 => String::new(),
        _ => {
            assert_eq!(reply.json()["code"], "binding.insufficient", "{reply:?}");
            reply.json()["cause"].as_str().unwrap().to_owned()
        }
    }
}

/// Over gRPC and HTTP, with and without claims, and over MCP: what each is told by each manifest.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_below_the_minimum_or_of_a_face_that_is_off_is_refused_with_a_code_of_its_own() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let (ok, face, minimum) = ("", "binding.face", "binding.minimum");
    // The binding; then what is said to claims and to none over gRPC, to an MCP client, and over HTTP.
    let table = [
        (json!({}), [ok, minimum, minimum, ok, minimum]),
        (json!({"minimum": "unclaimed"}), [ok, ok, ok, ok, ok]),
        (json!({"minimum": "observed"}), [minimum; 5]),
        (json!({"minimum": "unclaimed", "faces": ["mcp"]}), [face, face, ok, face, face]),
        (json!({"minimum": "unclaimed", "faces": ["grpc", "llm"]}), [ok, ok, face, face, face]),
        (json!({"faces": ["http", "llm"]}), [face, face, face, ok, minimum]),
        (json!({"faces": ["llm"]}), [face; 5]),
    ];
    for (n, (binding, expected)) in table.iter().enumerate() {
        manifest(&estate, &format!("1.1.{n}"), binding);
        let checked = run(&estate.path("."), &["config", "check", "wicketgate.yaml", "--json"]);
        // Those that none of these can open, an agent opens that asks a model.
        let closed = expected.iter().all(|told| *told != ok) && binding["faces"] != json!(["llm"]);
        assert_eq!(checked.contains("can never open a run"), closed, "{binding}: {checked}");
        let mut sidecar = estate.serve().await;
        let mut gate = GateClient::new(channel(&estate.socket()));
        let asked = [claims(), pb::OpenRunRequest::default()];
        for (ask, (expected, bound)) in
            asked.into_iter().zip(expected.iter().zip(["claimed", "unclaimed"]))
        {
            match gate.open_run(ask).await {
                Ok(opened) => {
                    let opened = opened.into_inner();
                    assert_eq!((*expected, opened.binding.as_str()), (ok, bound), "{binding}");
                }
                Err(status) => {
                    let Refused { code, detail, message, .. } = Refused::of(&status);
                    assert_eq!(
                        (code.as_str(), detail.as_str()),
                        ("binding.insufficient", *expected)
                    );
                    assert!(message.contains("spec.binding"), "what to write: {message}");
                }
            }
        }
        match Client::begin(&sidecar, &estate).await {
            Ok(_) => assert_eq!(expected[2], ok, "{binding}"),
            Err(error) => {
                let data = &error["data"];
                assert_eq!(
                    (&data["code"], &data["detail"]),
                    (&json!("binding.insufficient"), &json!(expected[2]))
                );
            }
        }
        let claimed = json!({"model": "test-model", "instructions_sha256": ["ab".repeat(32)]});
        for (claims, expected) in [(claimed, expected[3]), (json!({}), expected[4])] {
            assert_eq!(opened_over_http(&estate, &claims).await, expected, "{binding}");
        }
        sidecar.stop().await;
    }
}
