//! Agents from other pods: who is known by a certificate, and everybody else.

use std::process::Command;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::ca::Ca;
use crate::checker::{calls, check};
use crate::clients::{REVIEWER, initialize, listen, openssl_client, place, python_client, shows};
use crate::sidecar::{Estate, run};
use crate::tool::Tool;
use wicketgate_support::program::python;

const OPEN: [&str; 5] = [
    "open",
    "--model",
    "test-model",
    "--instructions",
    "abababababababababababababababababababababababababababababababab",
];

/// A gate in a pod of its own, and the authority of its certificates and its clients'.
fn clients(estate: &Estate) -> Ca {
    let ca = Ca::new();
    ca.server("gate");
    std::fs::copy(ca.path("ca.pem"), ca.path("server-ca.pem")).unwrap();
    let print = ca.client("plain");
    ca.svid("reviewer", &format!("URI:{REVIEWER}"));
    let files = ["gate.pem", "gate.key", "ca.pem"].map(|name| ca.shown(name));
    listen(estate, files, &json!([{"spiffe": REVIEWER}, {"certificate": print}]));
    ca
}

/// The `auth` of every run that was opened.
fn auths(estate: &Estate) -> Vec<Value> {
    let script = "import json,sqlite3,sys\nfor row in sqlite3.connect(sys.argv[1]).execute(\"SELECT body FROM entry WHERE kind='run.opened' ORDER BY seq\"): print(json.dumps(json.loads(row[0])['data']['auth']))";
    let file = estate.path("state/ledger.sqlite");
    let done = Command::new(python()).args(["-c", script]).arg(file).output().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_spiffe_id_or_certificate_identifies_an_agent_and_no_other_caller_uses_its_run() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let ca = clients(&estate);
    let mut sidecar = estate.serve().await;
    let at = place(&sidecar);
    let ask = |who: &str, args: &[&str]| python_client((&ca, Some(who)), &at, args);
    let opened = ask("reviewer", &OPEN);
    let token = opened["ok"]["run_token"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned();
    let call = |id: &'static str| {
        ["--token", &token, "call", "work.do", r#"{"n":1}"#, "--call-id", id].map(str::to_owned)
    };
    let with = |who: &str, id: &'static str| {
        let args = call(id);
        ask(who, &args.each_ref().map(String::as_str))
    };
    let called = with("reviewer", "a");
    assert_eq!(called["ok"]["result"]["inline"]["body"]["done"], true, "{called}");
    // The next certificate of the same workload is the same caller; another caller of the agent is not.
    ca.svid("renewed", &format!("URI:{REVIEWER}"));
    let again = with("renewed", "b");
    assert_eq!(again["ok"]["result"]["inline"]["body"]["done"], true, "{again}");
    let foreign = with("plain", "c");
    assert_eq!(foreign["error"]["reason"], "run.unknown", "{foreign}");
    let socket = format!("unix:{}", estate.socket().display());
    let top = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let done = Command::new(python())
        .arg("-B")
        .arg(top.join("tests/interop/gate_client.py"))
        .args([socket.as_str(), "--token", &token, "list"])
        .output()
        .unwrap();
    let stolen: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(
        stolen["error"]["reason"], "run.unknown",
        "a token without its certificate: {stolen}"
    );
    let other = ask("plain", &OPEN);
    assert!(other["ok"]["run_token"].is_string(), "{other}");
    let sealed = ask("reviewer", &["--token", &token, "seal"]);
    assert!(sealed["ok"]["entries"].as_u64().unwrap() >= 5, "{sealed}");
    let reviewer = shows(&ca, "reviewer");
    let said = openssl_client(&at, &reviewer.each_ref().map(String::as_str), &initialize(""));
    assert!(said.contains("HTTP/1.1 200") && said.contains("serverInfo"), "MCP: {said}");
    sidecar.stop().await;
    assert_eq!(tool.count(), 2);
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(calls(&summary, "completed"), 2, "{summary}");
    let auths = auths(&estate);
    assert_eq!(
        (auths[0]["method"].as_str(), auths[0]["spiffe"].as_str()),
        (Some("mtls"), Some(REVIEWER))
    );
    let print = auths[1]["certificate"].as_str().unwrap();
    let config = std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap();
    assert!(config.contains(print) && auths[1]["spiffe"].is_null(), "{auths:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_invalid_client_certificate_gets_no_connection_and_an_unknown_one_is_refused() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let ca = clients(&estate);
    let mut sidecar = estate.serve().await;
    let at = place(&sidecar);
    let stranger = Ca::new();
    stranger.svid("reviewer", &format!("URI:{REVIEWER}"));
    ca.ended("late");
    ca.client("unknown");
    ca.svid("double", &format!("URI:{REVIEWER},URI:spiffe://example.org/other"));
    ca.svid("elsewhere", "URI:spiffe://example.com/ns/agents/sa/reviewer");
    let said = |of: &Ca, who: &str, more: &[&str]| {
        let shown = shows(of, who);
        let args = [&shown.each_ref().map(String::as_str)[..], more].concat();
        openssl_client(&at, &args, &initialize(""))
    };
    let nobody = openssl_client(&at, &[], &initialize(""));
    assert!(!nobody.contains("HTTP/1.1"), "no certificate: {nobody}");
    for (of, who) in [(&stranger, "reviewer"), (&ca, "late"), (&ca, "gate")] {
        let said = said(of, who, &[]);
        assert!(!said.contains("HTTP/1.1"), "{who}: {said}");
    }
    let old = said(&ca, "reviewer", &["-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"]);
    assert!(!old.contains("HTTP/1.1"), "TLS 1.1: {old}");
    let mut plain = tokio::net::TcpStream::connect(&at).await.unwrap();
    plain.write_all(initialize("").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // Hung up on, with or without a reset.
    let _ = crate::within("the end", plain.read_to_end(&mut answer)).await;
    assert!(!answer.starts_with(b"HTTP/"), "in the clear: {:?}", String::from_utf8_lossy(&answer));
    // What leads to the authority and belongs to nobody is told so.
    for who in ["unknown", "double", "elsewhere"] {
        let said = said(&ca, who, &[]);
        assert!(
            said.contains("HTTP/1.1 401") && said.contains("identity.missing"),
            "{who}: {said}"
        );
    }
    let refused = python_client((&ca, Some("unknown")), &at, &OPEN);
    assert_eq!(refused["error"]["reason"], "identity.missing", "{refused}");
    let refused = python_client((&ca, None), &at, &OPEN);
    assert_eq!(refused["error"]["status"], "UNAVAILABLE", "{refused}");
    // The same bytes by somebody who is known.
    let known = said(&ca, "reviewer", &[]);
    assert!(known.contains("HTTP/1.1 200"), "{known}");
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agents_beyond_loopback_need_tls_and_authorities_and_callers_with_certificates_need_the_same()
 {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let ca = clients(&estate);
    let refused = |change: &dyn Fn(&mut Value), words: &[&str]| {
        let before = std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap();
        estate.configure(|config| change(config));
        let ran = estate.try_run(&["config", "check", "wicketgate.yaml"]);
        let said = ran.text();
        assert!(ran.code != 0 && words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        std::fs::write(estate.path("wicketgate.yaml"), before).unwrap();
    };
    run(&estate.path("."), &["config", "check", "wicketgate.yaml"]);
    let without = |name: &'static str| {
        move |config: &mut Value| drop(config["listen"].as_object_mut().unwrap().remove(name))
    };
    refused(&without("tls"), &["listen.tcp", "not a loopback address", "`listen.tls`"]);
    refused(
        &without("tls"),
        &["agents[0].callers[1]", "clients show certificates only with `listen.tls`"],
    );
    refused(&without("tcp"), &["listen.tls", "TLS has no listener to apply to"]);
    refused(
        &|config| drop(config["listen"]["tls"].as_object_mut().unwrap().remove("client_ca")),
        &["listen.tls.client_ca", "agents are known by certificates"],
    );
    refused(
        &|config| config["listen"]["tls"]["key"] = json!(ca.shown("plain.key")),
        &["listen.tls.key", "not the key"],
    );
    for id in ["spiffe://Example.org/a", "spiffe://example.org", "https://example.org/a"] {
        refused(
            &|config| config["agents"][0]["callers"][1]["spiffe"] = json!(id),
            &["agents[0].callers[1]", "is not a SPIFFE id"],
        );
    }
    refused(
        &|config| config["agents"][0]["callers"][1]["uid"] = json!(1),
        &["agents[0].callers[1]", "`spiffe` stands alone"],
    );
    refused(
        &|config| config["agents"][0]["callers"][2]["certificate"] = json!("sha256:ab"),
        &["agents[0].callers[2]", "64 hex digits"],
    );
}
