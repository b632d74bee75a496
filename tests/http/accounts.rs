//! Agents that show the projected token of their Kubernetes service account.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use wicketgate_support::tokens::{TokenSigner, signed_part};
use wicketgate_support::waiting::until;

use crate::gate::{self, Gate, call};

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// A gate whose agent is the account `agents/reviewer` of a cluster, and the file with the keys of that cluster.
struct Cluster {
    gate: Gate,
    files: tempfile::TempDir,
}

impl Cluster {
    async fn start(signer: &TokenSigner) -> Self {
        let files = tempfile::tempdir().unwrap();
        let file = files.path().join("cluster.jwks");
        std::fs::write(&file, keys(&[signer])).unwrap();
        let gate = Gate::start_with(|config| {
            config["trust"]["kubernetes"] = json!({"issuer": ISSUER, "keys": file});
            let callers = config["agents"][0]["callers"].as_array_mut().unwrap();
            callers.push(json!({"k8s_service_account": "agents/reviewer"}));
        });
        Self { gate: gate.await, files }
    }

    /// The status of a request to open a run with this token.
    async fn opens(&self, token: &str) -> u16 {
        let bearer = format!("Bearer {token}");
        let lines = [("Authorization", bearer.as_str())];
        self.gate.ask("POST", "/gate/v1/runs", &lines, &gate::claims().to_string()).await.status
    }
}

fn keys(signers: &[&TokenSigner]) -> String {
    json!({"keys": signers.iter().map(|one| one.published()).collect::<Vec<_>>()}).to_string()
}

/// The claims of a token as kubelet projects one, for an hour.
fn projected(namespace: &str, name: &str) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    json!({"iss": ISSUER, "sub": format!("system:serviceaccount:{namespace}:{name}"), "aud": ["wicketgate"],
        "iat": now, "nbf": now, "exp": now + 3607, "jti": "0b2a",
        "kubernetes.io": {"namespace": namespace, "node": {"name": "n1", "uid": "6"},
            "pod": {"name": "reviewer-7d", "uid": "5c"}, "serviceaccount": {"name": name, "uid": "4f"}}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_account_is_the_agent_that_is_configured_for_it_and_entries_name_it() {
    let signer = TokenSigner::rsa("k1");
    let cluster = Cluster::start(&signer).await;
    let token = signer.token(&signer.header(), &projected("agents", "reviewer"));
    let bearer = format!("Bearer {token}");
    let lines = [("Authorization", bearer.as_str())];
    let claims = gate::claims().to_string();
    let opened = cluster.gate.ask("POST", "/gate/v1/runs", &lines, &claims).await;
    assert_eq!(opened.status, 201, "{opened:?}");
    let opened = opened.json();
    let text = |name: &str| opened[name].as_str().unwrap().to_owned();
    let run = gate::Run { bearer: format!("Bearer {}", text("run_token")), id: text("run_id") };
    let done = cluster.gate.put(&run, "a", &call(json!({"n": 1}))).await;
    assert_eq!(done.status, 200, "{done:?}");
    for kind in ["run.opened", "call.authorized"] {
        let entry = cluster.gate.entries(kind).pop().unwrap();
        let auth = &entry["data"]["auth"];
        assert_eq!(auth["method"], "service_account", "{entry}");
        assert_eq!(auth["account"], "agents/reviewer", "{entry}");
        assert_eq!(auth.get("token"), None, "{entry}");
    }
    assert!(!cluster.gate.sidecar.said().contains(&token));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_of_another_cluster_audience_time_or_account_is_nobody() {
    let signer = TokenSigner::ed("k1");
    let cluster = Cluster::start(&signer).await;
    let sound = || projected("agents", "reviewer");
    assert_eq!(cluster.opens(&signer.token(&signer.header(), &sound())).await, 201);
    let now = sound()["iat"].as_u64().unwrap();
    let without = |name: &str| {
        let mut claims = sound();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    let with = |name: &str, value: Value| {
        let mut claims = sound();
        claims[name] = value;
        claims
    };
    let mut wrong = vec![
        with("iss", json!("https://kubernetes.default.svc")),
        with("aud", json!("https://kubernetes.default.svc")),
        with("aud", json!(["wicketgate", "https://kubernetes.default.svc"])),
        with("aud", json!([])),
        with("exp", json!(now - 1)),
        with("exp", json!(now.to_string())),
        with("nbf", json!(now + 600)),
        with("sub", json!("system:serviceaccount:agents:admin")),
        with("sub", json!("system:serviceaccount:agents:reviewer:x")),
        projected("agents", "other"),
        projected("other", "reviewer"),
        projected("agents/reviewer", "x"),
    ];
    wrong.extend(["iss", "aud", "exp", "sub", "kubernetes.io"].map(without));
    for claims in wrong {
        let token = signer.token(&signer.header(), &claims);
        assert_eq!(cluster.opens(&token).await, 401, "{claims}");
    }
    let stranger = TokenSigner::ed("k1");
    assert_eq!(cluster.opens(&stranger.token(&stranger.header(), &sound())).await, 401);
    let unsigned = format!("{}.", signed_part(&json!({"alg": "none", "kid": "k1"}), &sound()));
    assert_eq!(cluster.opens(&unsigned).await, 401);
    let mut header = signer.header();
    header["crit"] = json!(["b64"]);
    assert_eq!(cluster.opens(&signer.token(&header, &sound())).await, 401);
    let said = cluster.gate.sidecar.said();
    for why in ["it is for another audience", "it is not valid now", "is no caller of any agent"] {
        assert!(said.contains(why), "`{why}` is not in {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_the_cluster_changes_count_without_a_restart() {
    let (first, second) = (TokenSigner::ec("k1"), TokenSigner::ec("k2"));
    let cluster = Cluster::start(&first).await;
    let claims = projected("agents", "reviewer");
    let [old, new] = [&first, &second].map(|one| one.token(&one.header(), &claims));
    assert_eq!((cluster.opens(&old).await, cluster.opens(&new).await), (201, 401));
    let file = cluster.files.path().join("cluster.jwks");
    std::fs::write(&file, keys(&[&second])).unwrap();
    until("the new keys", || async { cluster.opens(&new).await == 201 }).await;
    assert_eq!(cluster.opens(&old).await, 401);
    // A file without keys is refused as a whole: what was in force stays.
    std::fs::write(&file, "{\"keys\": []}").unwrap();
    until("the refusal", || async {
        cluster.gate.sidecar.said().contains("has no key of an issuer")
    })
    .await;
    assert_eq!(cluster.opens(&new).await, 201);
}
