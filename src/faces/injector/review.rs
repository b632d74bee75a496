//! Reads an `AdmissionReview` and answers it. What is not understood is never allowed.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::StatusCode;
use serde_json::{Value, json};

use super::GATE_LABEL;
use super::merge::{merged, unchanged};
use super::profile::{Profile, ProfileSet};
use crate::domain::closed::texts;

const VERSION: &str = "admission.k8s.io/v1";
const KIND: &str = "AdmissionReview";

/// The longest id of a review that is answered by its id.
const UID_BYTES_MAX: usize = 256;

/// Members of a pod that a profile can change, in the order of the patch.
const CHANGED: [&str; 10] = [
    "/metadata/labels",
    "/metadata/annotations",
    "/spec/automountServiceAccountToken",
    "/spec/enableServiceLinks",
    "/spec/terminationGracePeriodSeconds",
    "/spec/securityContext",
    "/spec/imagePullSecrets",
    "/spec/volumes",
    "/spec/initContainers",
    "/spec/containers",
];

texts! {
    /// Which of the two webhooks is called.
    pub enum WebhookPath {
        /// It gives a pod its gate.
        Mutate = "mutate",
        /// It refuses a pod that has not the whole gate.
        Validate = "validate",
    }
}

texts! {
    /// How a review ended.
    pub enum ReviewOutcome {
        /// The pod gets a gate.
        Patched = "patched",
        /// The pod is allowed as it is.
        Allowed = "allowed",
        /// The pod is refused.
        Refused = "refused",
        /// It is no review of a pod.
        Malformed = "malformed",
    }
}

/// What is answered.
#[derive(Debug)]
pub(super) struct ReviewAnswer {
    pub outcome: ReviewOutcome,
    /// Why a review without an id is refused.
    pub status: StatusCode,
    /// The review, or why there is none.
    pub body: Result<Value, String>,
    /// Why the pod is refused.
    pub reasons: Vec<String>,
    /// The pod, for logs: namespace and name.
    pub pod: String,
}

/// What a review says, as far as it is needed.
struct Admission<'r> {
    operation: &'r str,
    new: &'r Value,
    old: Option<&'r Value>,
}

/// What follows from a review.
enum AdmissionVerdict {
    Patch(Value),
    Allow,
    Refuse(Vec<String>),
    Misread(String),
}

/// The answer to the bytes of a review.
pub(super) fn answer(path: WebhookPath, body: &[u8], profiles: &ProfileSet) -> ReviewAnswer {
    let no_id = |why: &str| ReviewAnswer {
        outcome: ReviewOutcome::Malformed,
        status: StatusCode::BAD_REQUEST,
        body: Err(why.to_owned()),
        reasons: Vec::new(),
        pod: String::new(),
    };
    let Ok(review) = serde_json::from_slice::<Value>(body) else {
        return no_id("the body is not JSON; send an AdmissionReview");
    };
    let request = review.get("request").unwrap_or(&Value::Null);
    let uid = request.get("uid").and_then(Value::as_str).unwrap_or_default();
    if uid.is_empty() || uid.len() > UID_BYTES_MAX {
        return no_id(
            "request.uid: missing or too long; send an AdmissionReview of admission.k8s.io/v1",
        );
    }
    let verdict = match Admission::read(&review, request) {
        Ok(admission) => admission.verdict(path, profiles),
        Err(why) => AdmissionVerdict::Misread(why),
    };
    let mut reasons = Vec::new();
    let (outcome, response) = match verdict {
        AdmissionVerdict::Allow => (ReviewOutcome::Allowed, json!({"uid": uid, "allowed": true})),
        AdmissionVerdict::Patch(patch) => {
            let patch = BASE64_STANDARD.encode(patch.to_string());
            let response =
                json!({"uid": uid, "allowed": true, "patchType": "JSONPatch", "patch": patch});
            (ReviewOutcome::Patched, response)
        }
        AdmissionVerdict::Misread(why) => {
            let status = status(400, "BadRequest", &why);
            reasons.push(why);
            (ReviewOutcome::Malformed, json!({"uid": uid, "allowed": false, "status": status}))
        }
        AdmissionVerdict::Refuse(why) => {
            let status = status(403, "Forbidden", &why.join("\n"));
            reasons = why;
            (ReviewOutcome::Refused, json!({"uid": uid, "allowed": false, "status": status}))
        }
    };
    let body = Ok(json!({"apiVersion": VERSION, "kind": KIND, "response": response}));
    ReviewAnswer { outcome, status: StatusCode::OK, body, reasons, pod: pod_name(request) }
}

fn status(code: u16, reason: &str, message: &str) -> Value {
    json!({"code": code, "status": "Failure", "reason": reason, "message": message})
}

/// Namespace and name, or what begins the name.
fn pod_name(request: &Value) -> String {
    let text =
        |at: &str| request.pointer(at).and_then(Value::as_str).filter(|text| !text.is_empty());
    let name = text("/name").or_else(|| text("/object/metadata/name"));
    let name = name.or_else(|| text("/object/metadata/generateName")).unwrap_or_default();
    format!("{}/{name}", text("/namespace").unwrap_or_default())
}

impl<'r> Admission<'r> {
    fn read(review: &'r Value, request: &'r Value) -> Result<Self, String> {
        let text =
            |of: &'r Value, at: &str| of.pointer(at).and_then(Value::as_str).unwrap_or_default();
        if (text(review, "/apiVersion"), text(review, "/kind")) != (VERSION, KIND) {
            return Err(format!(
                "only {KIND} of {VERSION} is answered; correct `admissionReviewVersions` of the webhook"
            ));
        }
        let kind = ["/kind/group", "/kind/version", "/kind/kind", "/subResource"]
            .map(|at| text(request, at));
        if kind != ["", "v1", "Pod", ""] {
            return Err(
                "only pods are reviewed, and no part of them; correct `rules` of the webhook"
                    .into(),
            );
        }
        let object = |name: &str| request.get(name).filter(|value| value.is_object());
        let (operation, new, old) =
            (text(request, "/operation"), object("object"), object("oldObject"));
        let Some(new) = new else { return Err("request.object: missing, or not an object".into()) };
        match operation {
            "CREATE" => Ok(Self { operation, new, old: None }),
            "UPDATE" if old.is_some() => Ok(Self { operation, new, old }),
            "UPDATE" => Err("request.oldObject: missing, or not an object".into()),
            other => Err(format!(
                "only CREATE and UPDATE are reviewed, and this is `{other}`; correct `rules` of the webhook"
            )),
        }
    }

    fn verdict(&self, path: WebhookPath, profiles: &ProfileSet) -> AdmissionVerdict {
        let label = |pod: &Value| {
            let label = pod.get("metadata")?.get("labels")?.get(GATE_LABEL)?.as_str()?;
            Some(label.to_owned())
        };
        if let Some(old) = self.old {
            let profile = label(old).and_then(|name| profiles.get(&name));
            return match unchanged(old, self.new, profile) {
                Ok(()) => AdmissionVerdict::Allow,
                Err(why) => AdmissionVerdict::Refuse(why),
            };
        }
        let at = format!("metadata.labels[{GATE_LABEL}]");
        let Some(name) = label(self.new) else {
            return AdmissionVerdict::Refuse(vec![format!(
                "{at}: missing; set it to the name of a profile"
            )]);
        };
        let Some(profile) = profiles.get(&name) else {
            let known =
                profiles.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            return AdmissionVerdict::Refuse(vec![format!(
                "{at}: unknown profile `{name}`; the profiles are {known}"
            )]);
        };
        match (merged(self.new, profile), path) {
            (Err(why), _) => AdmissionVerdict::Refuse(why),
            (Ok(pod), WebhookPath::Mutate) => {
                patch(self.new, &pod).map_or(AdmissionVerdict::Allow, AdmissionVerdict::Patch)
            }
            (Ok(pod), WebhookPath::Validate) => self.whole(&pod, profile),
        }
    }

    /// Whether nothing is missing of what the pod should have been given.
    fn whole(&self, given: &Value, profile: &Profile) -> AdmissionVerdict {
        let Some(patch) = patch(self.new, given) else { return AdmissionVerdict::Allow };
        let paths = patch.as_array().into_iter().flatten();
        let paths = paths.filter_map(|change| change.get("path")?.as_str());
        let name = &profile.name;
        let operation = self.operation;
        let why = |path: &str| {
            let field = path.trim_start_matches('/').replace('/', ".");
            format!(
                "{field}: not what the profile `{name}` gives at {operation}: another webhook changed it after the injector, or the injector was not called; let that one run first"
            )
        };
        AdmissionVerdict::Refuse(paths.map(why).collect())
    }
}

/// The operations (RFC 6902) that make the one pod into the other; `None` if there are none.
fn patch(from: &Value, to: &Value) -> Option<Value> {
    let changed = CHANGED.iter().filter(|at| from.pointer(at) != to.pointer(at));
    // `add` also replaces a member that is there.
    let add = |at: &&str| json!({"op": "add", "path": at, "value": to.pointer(at)});
    let all: Vec<Value> = changed.map(add).collect();
    (!all.is_empty()).then_some(Value::Array(all))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::injector::profile::{items, name_of};

    const PROFILE: &str = "profile: strict\npod:\n  initContainers:\n    - name: gate\n      \
        image: x@sha256:0000000000000000000000000000000000000000000000000000000000000001\n      restartPolicy: Always\n      \
        securityContext: {runAsUser: 65532}\n      volumeMounts: [{name: socket, mountPath: /run/wicketgate}]\n  \
        volumes: [{name: socket, emptyDir: {}}]\nagent:\n  env: [{name: WICKETGATE_SOCKET, value: /s}]\n  \
        volumeMounts: [{name: socket, mountPath: /run/wicketgate, readOnly: true}]\n  securityContext: {runAsUser: 7}\n";

    fn profiles() -> ProfileSet {
        let profile = Profile::read(PROFILE.as_bytes(), "strict.yaml", "strict").unwrap();
        ProfileSet::from([("strict".to_owned(), profile)])
    }

    fn review() -> Value {
        let token = json!({"name": "kube-api-access-x", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}});
        json!({"apiVersion": VERSION, "kind": KIND, "request": {
            "uid": "u", "operation": "CREATE", "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "object": {
                "metadata": {"labels": {GATE_LABEL: "strict"}, "annotations": {"wicketgate.dev/agents": "agent"}},
                "spec": {
                    "initContainers": [{"name": "early", "image": "x", "securityContext": {"runAsUser": 8}}],
                    "containers": [{"name": "agent", "image": "x", "env": [{"name": "A", "value": "a"}],
                        "volumeMounts": [{"name": "kube-api-access-x", "mountPath": "/token"}]}],
                    "volumes": [token, {"name": "own", "emptyDir": {}}],
                },
            },
        }})
    }

    /// The places of every value.
    fn places(value: &Value, at: &str, all: &mut Vec<String>) {
        all.push(at.to_owned());
        let below: Vec<(String, &Value)> = match value {
            Value::Object(members) => {
                members.iter().map(|(name, value)| (name.replace('/', "~1"), value)).collect()
            }
            Value::Array(items) => {
                items.iter().enumerate().map(|(n, value)| (n.to_string(), value)).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        };
        for (name, value) in below {
            places(value, &format!("{at}/{name}"), all);
        }
    }

    /// What stands for any value: of each type, and each that means something somewhere.
    fn values() -> Vec<Value> {
        vec![
            json!(null),
            json!(true),
            json!(0),
            json!(65532),
            json!(""),
            json!("gate"),
            json!("socket"),
            json!("agent"),
            json!([]),
            json!({}),
            json!([{}]),
            json!([null]),
            json!({"name": "gate"}),
            json!([{"name": "gate"}]),
            json!(-1),
            json!(1.5),
        ]
    }

    #[test]
    fn the_review_is_answered_with_a_gate() {
        let answer = answer(WebhookPath::Mutate, review().to_string().as_bytes(), &profiles());
        assert_eq!((answer.outcome, answer.reasons), (ReviewOutcome::Patched, Vec::new()));
    }

    proptest! {
        /// Whatever is at any two places of a review: it is answered, and a pod that is allowed has its gate and no token.
        #[test]
        fn no_review_ever_lets_a_pod_pass_without_its_gate(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 1..3)) {
            let mut review = review();
            for (place, value) in changes {
                let mut all = Vec::new();
                places(&review, "", &mut all);
                let (place, values) = (place.get(&all).clone(), values());
                *review.pointer_mut(&place).unwrap() = value.get(&values).clone();
            }
            let (profiles, bytes) = (profiles(), review.to_string());
            for path in [WebhookPath::Mutate, WebhookPath::Validate] {
                let answer = answer(path, bytes.as_bytes(), &profiles);
                let Ok(body) = answer.body else { continue };
                let allowed = body.pointer("/response/allowed") == Some(&true.into());
                prop_assert_eq!(allowed, matches!(answer.outcome, ReviewOutcome::Patched | ReviewOutcome::Allowed));
                if !allowed || review.pointer("/request/operation") != Some(&"CREATE".into()) {
                    continue;
                }
                let given = merged(&review["request"]["object"], &profiles["strict"]).unwrap();
                let spec = &given["spec"];
                prop_assert_eq!(name_of(&items(spec, "initContainers")[0]), "gate");
                // The API server drops a member that is null.
                let is_token = |source: &&Value| source.get("serviceAccountToken").is_some_and(|token| !token.is_null());
                let sources = spec["volumes"].as_array().into_iter().flatten().filter_map(|volume| volume.pointer("/projected/sources")?.as_array());
                prop_assert_eq!(sources.flatten().find(is_token), None);
                prop_assert_eq!(patch(&given, &merged(&given, &profiles["strict"]).unwrap()), None);
                prop_assert!(path == WebhookPath::Mutate || patch(&review["request"]["object"], &given).is_none());
            }
        }
    }
}
