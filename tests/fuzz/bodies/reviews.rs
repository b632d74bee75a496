//! Reviews of the API server of Kubernetes.

use std::path::Path;
use std::sync::LazyLock;

use serde_json::{Value, json};
use wicketgate::injector::{ProfileDirectory, WebhookPath};

/// The profile that kustomize installs.
static PROFILES: LazyLock<ProfileDirectory> = LazyLock::new(|| {
    let mut above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let profiles = above.find_map(|dir| {
        let profiles = dir.join("deploy/kustomize/base/injector/profiles");
        profiles.is_dir().then_some(profiles)
    });
    ProfileDirectory::open(profiles.expect("the repository")).expect("its profiles can be used")
});

/// The response to a review.
pub fn asked(path: WebhookPath, review: &[u8]) -> Option<Value> {
    PROFILES.reviewed(path, review).map(|answer| answer["response"].clone())
}

/// The review of the pod that this one makes, if it gives a gate.
pub fn given(bytes: &[u8]) -> Option<Value> {
    let response = asked(WebhookPath::Mutate, bytes)?;
    let mut review: Value = serde_json::from_slice(bytes).ok()?;
    if response["allowed"] != true || review["request"]["operation"] != "CREATE" {
        return None;
    }
    if let Some(patch) = response["patch"].as_str() {
        use base64::Engine as _;
        let patch = base64::engine::general_purpose::STANDARD.decode(patch).expect("base64");
        let patch: Vec<Value> = serde_json::from_slice(&patch).expect("a patch is a list");
        for change in patch {
            assert_eq!(change["op"], "add");
            let at = change["path"].as_str().expect("a path");
            let (above, name) = at.rsplit_once('/').expect("no patch of the whole pod");
            let above =
                review["request"]["object"].pointer_mut(above).expect("what it is added to");
            above[name] = change["value"].clone();
        }
    }
    Some(review)
}

/// A review is answered by its id, and a refusal says why. A pod that is let in has its whole gate: neither webhook finds
/// more to do.
pub fn admission(bytes: &[u8]) {
    for path in [WebhookPath::Mutate, WebhookPath::Validate] {
        let Some(response) = asked(path, bytes) else { continue };
        let review: Value = serde_json::from_slice(bytes).expect("what was answered is JSON");
        assert_eq!(response["uid"], review["request"]["uid"]);
        let said = response["status"]["message"].as_str().unwrap_or_default();
        assert_eq!(response["allowed"] == true, said.is_empty(), "{response}");
    }
    let Some(review) = given(bytes) else { return };
    let whole = review.to_string();
    let allowed = json!({"uid": review["request"]["uid"], "allowed": true});
    for path in [WebhookPath::Mutate, WebhookPath::Validate] {
        assert_eq!(asked(path, whole.as_bytes()), Some(allowed.clone()), "{whole}");
    }
    let spec = &review["request"]["object"]["spec"];
    let gates = spec["initContainers"].as_array().into_iter().flatten();
    let gates = gates.filter(|one| one["name"] == "gate" && one["restartPolicy"] == "Always");
    assert_eq!(gates.count(), 1, "{whole}");
    assert_eq!(spec["automountServiceAccountToken"], false, "{whole}");
}
