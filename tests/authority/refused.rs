//! Manifests and bindings a gate does not begin with: it says why and where, serves nobody, and ends with 78.

use serde_json::{Value, json};
use wicketgate::crypto::dsse;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::identity::PAYLOAD_TYPE;

use crate::sidecar::{Estate, key};
use crate::tool::Tool;

/// The identity point as a public key: every message has a signature under it.
const WEAK: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n-----END PUBLIC KEY-----\n";

type Change = fn(&Estate);

fn envelope(estate: &Estate, change: impl FnOnce(&mut Value)) {
    let path = estate.path("agent.yaml.sig.json");
    let mut envelope: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut envelope);
    std::fs::write(path, envelope.to_string()).unwrap();
}

/// Signs bytes that `manifest sign` would refuse.
fn signs(estate: &Estate, change: impl FnOnce(String) -> String) {
    let text = change(std::fs::read_to_string(estate.path("agent.yaml")).unwrap());
    let secret = SecretKey::load(std::path::Path::new(&key("manifest"))).unwrap();
    let signed = dsse::sign(PAYLOAD_TYPE, text.as_bytes(), &[&secret]);
    std::fs::write(estate.path("agent.yaml"), text).unwrap();
    std::fs::write(estate.path("agent.yaml.sig.json"), signed).unwrap();
}

fn tool(estate: &Estate, change: impl FnOnce(&mut Value)) {
    estate.configure(|config| change(&mut config["tools"][0]));
}

/// What is done, and what the gate then says.
const CASES: [(&str, Change, &str); 14] = [
    ("unsigned", |e| std::fs::remove_file(e.path("agent.yaml.sig.json")).unwrap(), "sig.json"),
    (
        "signed by a stranger",
        |e| e.manifest("1.0.0", "stranger", |text| text),
        "none is by a trusted key",
    ),
    (
        "no algorithm",
        |e| {
            envelope(e, |envelope| {
                envelope["signatures"][0]["sig"] = json!("");
                envelope["signatures"][0]["alg"] = json!("none");
            });
        },
        "agent.yaml",
    ),
    (
        "a signature of another kind",
        |e| envelope(e, |envelope| envelope["signatures"][0]["alg"] = json!("HS256")),
        "agent.yaml",
    ),
    (
        "a small-order key",
        |e| {
            std::fs::write(e.path("weak.pub"), WEAK).unwrap();
            e.configure(|config| config["trust"]["manifest_keys"] = json!(["weak.pub"]));
        },
        "small-order",
    ),
    (
        "one of two signatures",
        |e| {
            envelope(e, |envelope| {
                let mut second = envelope["signatures"][0].clone();
                second["keyid"] = json!("00");
                envelope["signatures"].as_array_mut().unwrap().push(second);
            });
            e.configure(|config| {
                config["trust"]["manifest_keys"] =
                    json!([key("manifest.pub"), key("stranger.pub")]);
                config["trust"]["manifest_threshold"] = json!(2);
            });
        },
        "agent.yaml",
    ),
    (
        "not yet valid",
        |e| e.manifest("1.0.0", "manifest", |text| text.replace("2020-01-01", "2098-01-01")),
        "not_before",
    ),
    (
        "no longer valid",
        |e| {
            e.manifest("1.0.0", "manifest", |text| text.replace("2099-01-01", "2020-01-02"));
        },
        "not_after",
    ),
    ("an anchor", |e| signs(e, |text| format!("{text}\n# &x\nx: &x 1\n")), "agent.yaml"),
    (
        "a tag",
        |e| signs(e, |text| text.replace("\"test-agent\"", "!!python/object:x test-agent")),
        "agent.yaml",
    ),
    ("a kind nobody knows", |e| tool(e, |tool| tool["kind"] = json!("magic")), "kind"),
    (
        "a tool without a schema",
        |e| {
            tool(e, |tool| {
                tool.as_object_mut().unwrap().remove("input_schema");
            });
        },
        "input_schema",
    ),
    (
        "a credential in the file",
        |e| {
            tool(e, |tool| {
                tool["credentials"] = json!([{"header": "authorization", "value": "tok-12345678"}]);
            });
        },
        "never inline",
    ),
    (
        "a credential among the headers",
        |e| {
            tool(e, |tool| {
                tool["http"]["headers"] = json!({"authorization": "Bearer tok-12345678"});
            });
        },
        "never inline",
    ),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_does_not_begin_with_a_manifest_or_a_binding_that_is_not_in_order() {
    let upstream = Tool::start().await;
    for (what, change, said) in CASES {
        let estate = Estate::sqlite(&upstream);
        change(&estate);
        let mut sidecar = estate.start();
        let status = sidecar.end().await;
        let told = sidecar.said();
        assert_eq!(status.code(), Some(78), "{what}: {told}");
        assert!(told.contains(said), "{what}: `{said}` is not in {told}");
        assert!(!told.contains("tok-12345678"), "{what}: the secret is told: {told}");
        assert!(!estate.socket().exists(), "{what}: nobody was served");
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_version_that_was_served_is_never_another_content_nor_an_older_one_afterwards() {
    let upstream = Tool::start().await;
    let estate = Estate::sqlite(&upstream);
    estate.manifest("1.1.0", "manifest", |text| text);
    estate.serve().await.stop().await;
    for (version, label, said) in [
        ("1.1.0", "other", "was used before with other content"),
        ("1.0.9", "older", "metadata.version"),
    ] {
        estate.manifest(version, "manifest", |text| {
            text.replace("\"owner\"", &format!("\"labels\": {{\"team\": \"{label}\"}}, \"owner\""))
        });
        let mut sidecar = estate.start();
        let status = sidecar.end().await;
        let told = sidecar.said();
        assert_eq!(status.code(), Some(78), "{told}");
        assert!(told.contains(said), "`{said}` is not in {told}");
    }
}
