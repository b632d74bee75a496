//! The shape of `agent.yaml`: every error at once, with its place; then the values.

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use std::collections::{BTreeMap, BTreeSet};

use super::client_tools::{self, ClientTool, UnknownTools};
use super::error::Error;
use super::grants;
use super::instructions::{self, Instructions};
use super::manifest::{Acceptance, Incognito, Keep, Manifest, Mode, Replay, RunLimits, Status};
use super::templates::Templates;
use crate::domain::closed;
use crate::domain::digest::Digest;
use crate::domain::tier::{Binding, Face};
use crate::domain::time::Timestamp;
use crate::yaml::{self, Document};

/// The JSON Schema (2020-12) of a manifest. `x-error` is the message for a person instead of the
/// pattern.
pub fn schema() -> Value {
    let digest = json!({"type": "string", "pattern": "^sha256:[0-9a-f]{64}$",
        "x-error": "expected `sha256:` and 64 lowercase hex digits"});
    let text = json!({"type": "string", "minLength": 1, "maxLength": 256, "x-error": "expected 1 to 256 characters of text"});
    let binding = json!({"enum": Binding::TEXTS,
        "x-error": "expected `unclaimed`, `claimed` or `observed`"});
    let closed = |required: Value, properties: Value| {
        json!({"type": "object",
        "additionalProperties": false, "required": required, "properties": properties})
    };
    let quoted: Vec<String> = Face::TEXTS.iter().map(|face| format!("`{face}`")).collect();
    let all = quoted.join(", ");
    let one = quoted
        .split_last()
        .map_or_else(String::new, |(last, others)| format!("{} or {last}", others.join(", ")));
    let spec = closed(
        json!(["status", "tools", "validity"]),
        json!({
            "status": {"enum": Status::TEXTS,
                "x-error": "expected `active`, `suspended`, `retired` or `revoked`"},
            "model": closed(json!(["provider", "names"]), json!({
                "provider": text,
                "names": {"type": "array", "minItems": 1, "maxItems": 64, "items": text,
                    "x-error": "expected 1 to 64 exact model ids"},
                "responded": {"type": "array", "minItems": 1, "maxItems": 64,
                    "items": {"type": "string", "pattern": "^[^*]{1,255}[*]?$",
                        "x-error": "expected a model id, exact or with a `*` at its end"},
                    "x-error": "expected 1 to 64 model ids"},
            })),
            "instructions": instructions::schema(),
            "binding": closed(json!([]), json!({
                "minimum": binding,
                "tier3": binding,
                "faces": {"type": "array", "minItems": 1, "uniqueItems": true,
                    "items": {"enum": Face::TEXTS, "x-error": format!("expected {one}")},
                    "x-error": format!("expected one or more different faces: {all}")},
            })),
            "policy": closed(json!(["agent"]), json!({"agent": digest})),
            "mode": {"enum": Mode::TEXTS, "x-error": "expected `enforce` or `simulate`"},
            "tools": {"type": "array", "maxItems": 4096, "items": grants::schema()},
            "client_tools": client_tools::schema(),
            "unknown_tools": {"enum": UnknownTools::TEXTS, "x-error": "expected `deny` or `strip`"},
            "limits": limits(),
            "replay": replay(),
            "incognito": {"enum": Incognito::TEXTS,
                "x-error": "expected `forbidden`, `allowed` or `required`"},
            "delegates": {"type": "array", "maxItems": 64, "items": closed(json!(["manifest"]), json!({"manifest": digest})),
                "x-error": "expected at most 64 manifests"},
            "validity": closed(json!(["not_before", "not_after"]), json!({
                "not_before": {"type": "string"}, "not_after": {"type": "string"}})),
        }),
    );
    closed(
        json!(["apiVersion", "kind", "metadata", "spec"]),
        json!({
            "apiVersion": {"const": "wicketgate.dev/v1", "x-error": "expected `wicketgate.dev/v1`"},
            "kind": {"const": "AgentManifest", "x-error": "expected `AgentManifest`"},
            "metadata": closed(json!(["name", "version", "owner"]), json!({
                "name": {"type": "string", "pattern": "^[a-z0-9-]{1,63}$",
                    "x-error": "expected an agent name: [a-z0-9-]{1,63}"},
                "version": {"type": "string"},
                "owner": text,
                "labels": {"type": "object", "maxProperties": 64, "additionalProperties":
                    {"type": "string", "maxLength": 256, "x-error": "expected text of at most 256 characters"}},
            })),
            "spec": spec,
        }),
    )
}

fn limits() -> Value {
    let count = json!({"type": "integer", "minimum": 1, "maximum": 9_007_199_254_740_991_i64,
        "x-error": "expected a whole number from 1"});
    json!({"type": "object", "additionalProperties": false, "properties": {
        "calls": count, "calls_per_minute": count, "concurrency": count, "wall_seconds": count,
        "consecutive_errors": count, "repeated_calls": count, "tokens": count,
        "cost_usd": {"type": "string", "pattern": "^(0|[1-9][0-9]{0,8})([.][0-9]{1,6})?$",
            "x-error": "expected US dollars in quotes, like \"5.00\""}}})
}

#[derive(Deserialize)]
struct RawManifest {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: semver::Version,
    owner: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Spec {
    status: Status,
    #[serde(default)]
    model: ManifestModel,
    #[serde(default)]
    instructions: Vec<Instructions>,
    #[serde(default)]
    binding: RawBinding,
    policy: Option<Policy>,
    #[serde(default)]
    mode: Mode,
    tools: Vec<grants::RawGrant>,
    #[serde(default)]
    client_tools: Vec<ClientTool>,
    #[serde(default)]
    unknown_tools: UnknownTools,
    #[serde(default)]
    limits: RunLimits,
    #[serde(default)]
    delegates: Vec<Delegate>,
    #[serde(default)]
    replay: Replay,
    #[serde(default)]
    incognito: Incognito,
    validity: Validity,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RawBinding {
    minimum: Option<Binding>,
    tier3: Option<Binding>,
    faces: Option<BTreeSet<Face>>,
}

#[derive(Deserialize)]
struct Delegate {
    manifest: Digest,
}

#[derive(Deserialize, Default)]
struct ManifestModel {
    provider: String,
    names: Vec<String>,
    #[serde(default)]
    responded: Vec<String>,
}

#[derive(Deserialize)]
struct Policy {
    agent: Digest,
}

#[derive(Deserialize)]
struct Validity {
    #[serde(deserialize_with = "time")]
    not_before: Timestamp,
    #[serde(deserialize_with = "time")]
    not_after: Timestamp,
}

fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Timestamp, D::Error> {
    closed::read(from, "a time", Timestamp::parse_short)
}

/// Reads the fields of a manifest. Signature and time are not looked at; `envelope` and `signers`
/// are empty.
///
/// # Errors
/// Everything that is wrong with the text, with its places.
pub fn read(bytes: &[u8], file: &str) -> Result<Manifest, Error> {
    let document = Document::parse(bytes, file).map_err(Error::Format)?;
    let internal = |why: String| Error::Schema(vec![document.error("", why)]);
    let mut problems = document.violations(&schema()).map_err(|e| internal(e.to_string()))?;
    problems.extend(beyond_schema(&document));
    if !problems.is_empty() {
        problems.sort();
        return Err(Error::Schema(problems));
    }
    let raw = RawManifest::deserialize(&document.value).map_err(|e| internal(e.to_string()))?;
    manifest(raw, bytes).ok_or_else(|| internal("a value cannot be read".into()))
}

/// `spec.replay`.
fn replay() -> Value {
    let pointer = json!({"type": "string", "pattern": "^(/([^~/]|~[01])*)+$", "maxLength": 256,
        "x-error": "expected a JSON pointer into the arguments, such as `/request_id`"});
    let pointers = json!({"type": "array", "minItems": 1, "maxItems": 64, "items": pointer,
        "x-error": "expected 1 to 64 JSON pointers"});
    json!({"type": "object", "additionalProperties": false, "required": ["mode"], "properties": {
        "mode": {"enum": Keep::TEXTS,
            "x-error": "expected `\"off\"`, `record` or `deterministic`"},
        "volatile": {"type": "object", "maxProperties": 256, "additionalProperties": pointers},
    }})
}

/// What a schema cannot express, or has no good message for.
fn beyond_schema(document: &Document) -> Vec<yaml::Error> {
    let mut problems = grants::beyond_schema(document);
    problems.extend(instructions::beyond_schema(document));
    problems.extend(client_tools::beyond_schema(document));
    let delegates = document.value.pointer("/spec/delegates").and_then(Value::as_array);
    let mut named = BTreeSet::new();
    for (i, delegate) in delegates.into_iter().flatten().enumerate() {
        let digest = delegate.get("manifest").and_then(Value::as_str);
        if digest.is_some_and(|digest| !named.insert(digest.to_owned())) {
            let at = format!("/spec/delegates/{i}/manifest");
            problems.push(document.error(&at, "this manifest is named twice"));
        }
    }
    let version = document.value.pointer("/metadata/version").and_then(Value::as_str);
    if let Some(version) = version.filter(|text| semver::Version::parse(text).is_err()) {
        let message = format!("`{version}` is not a semantic version like `1.4.0`");
        problems.push(document.error("/metadata/version", message));
    }
    let kept = document.value.pointer("/spec/replay/mode").and_then(Value::as_str);
    let incognito = document.value.pointer("/spec/incognito").and_then(Value::as_str);
    if incognito == Some("required") && kept.is_some_and(|mode| mode != "off") {
        let message = "a run of which nothing is stored cannot be recorded: remove `spec.replay`, or allow no more than `incognito: allowed`";
        problems.push(document.error("/spec/incognito", message));
    }
    let mut times = Vec::new();
    for field in ["not_before", "not_after"] {
        let at = format!("/spec/validity/{field}");
        let Some(text) = document.value.pointer(&at).and_then(Value::as_str) else { continue };
        match Timestamp::parse_short(text) {
            Some(time) => times.push(time),
            None => problems.push(
                document.error(&at, format!("`{text}` is not a time like `2026-11-01T00:00:00Z`")),
            ),
        }
    }
    if let [from, to] = times.as_slice()
        && from >= to
    {
        problems.push(document.error("/spec/validity/not_after", "is not later than `not_before`"));
    }
    problems
}

fn manifest(raw: RawManifest, bytes: &[u8]) -> Option<Manifest> {
    let RawManifest { metadata, spec } = raw;
    // A run has to claim what the manifest lists, unless `spec.binding` says otherwise.
    let claims = !spec.model.names.is_empty() || !spec.instructions.is_empty();
    let minimum = if claims { Binding::Claimed } else { Binding::Unclaimed };
    Some(Manifest {
        name: metadata.name,
        version: metadata.version,
        owner: metadata.owner,
        labels: metadata.labels,
        status: spec.status,
        mode: spec.mode,
        model_provider: spec.model.provider,
        model_names: spec.model.names,
        model_responded: spec.model.responded,
        instructions: spec.instructions,
        templates: Templates::new(),
        binding: Acceptance {
            minimum: spec.binding.minimum.unwrap_or(minimum),
            tier3: spec.binding.tier3.unwrap_or(Binding::Observed),
            faces: spec.binding.faces.unwrap_or_else(|| Face::ALL.iter().copied().collect()),
        },
        policy_agent: spec.policy.map(|policy| policy.agent),
        tools: grants::values(spec.tools)?,
        client_tools: spec.client_tools,
        unknown_tools: spec.unknown_tools,
        limits: spec.limits,
        delegates: spec.delegates.into_iter().map(|delegate| delegate.manifest).collect(),
        replay: spec.replay,
        incognito: spec.incognito,
        not_before: spec.validity.not_before,
        not_after: spec.validity.not_after,
        digest: Digest::of(&[bytes]),
        yaml: bytes.to_vec(),
        envelope: Vec::new(),
        signers: Vec::new(),
    })
}
