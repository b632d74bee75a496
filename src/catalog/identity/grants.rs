//! `spec.tools` of a manifest: tools by name, and tools of an MCP server by their lock.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::manifest::Grant;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::tier::Tier;
use crate::server::governed;
use crate::yaml::{self, Document};

/// Tools of one server in one grant.
const ALLOW_MAX: usize = 1024;

/// The JSON Schema of one entry: `{name, tier, definition}` or `{server, lock, allow, tier}`.
pub(super) fn schema() -> Value {
    json!({"type": "object", "additionalProperties": false, "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,128}$",
            "x-error": "expected a tool name: [A-Za-z0-9_.-]{1,128}"},
        "tier": {"enum": Tier::TEXTS, "x-error": "expected `T0`, `T1`, `T2` or `T3`"},
        "definition": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$",
            "x-error": "expected `sha256:` and 64 lowercase hex digits"},
        "server": {"type": "string", "pattern": "^[a-z0-9_-]{1,32}$",
            "x-error": "expected the name of an MCP server: [a-z0-9_-]{1,32}"},
        "lock": {"type": "object", "additionalProperties": false, "required": ["signer"], "properties": {
            "signer": {"type": "string", "pattern": "^[0-9a-f]{64}$",
                "x-error": "expected the id of the key that signs the lock: 64 lowercase hex digits, quoted"}}},
        "allow": {"type": "array", "minItems": 1, "maxItems": ALLOW_MAX, "items": {"type": "string"},
            "x-error": "expected 1 to 1024 names of the server's tools, or methods like `resources/read`"},
    }})
}

#[derive(Deserialize)]
pub(super) struct RawGrant {
    name: Option<ToolName>,
    tier: Option<Tier>,
    definition: Option<Digest>,
    server: Option<String>,
    lock: Option<RawLock>,
    #[serde(default)]
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct RawLock {
    signer: String,
}

/// One entry whatever its members hold: one that is `null` is written, too.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Written {
    #[serde(deserialize_with = "written")]
    name: Option<Value>,
    #[serde(deserialize_with = "written")]
    definition: Option<Value>,
    #[serde(deserialize_with = "written")]
    server: Option<Value>,
    #[serde(deserialize_with = "written")]
    lock: Option<Value>,
    #[serde(deserialize_with = "written")]
    allow: Option<Value>,
}

fn written<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl Written {
    fn of_server(&self) -> [(&'static str, Option<&Value>); 3] {
        [
            ("server", self.server.as_ref()),
            ("lock", self.lock.as_ref()),
            ("allow", self.allow.as_ref()),
        ]
    }
}

/// Errors for which a schema has no good message: which form an entry has, and names granted twice.
pub(super) fn beyond_schema(document: &Document) -> Vec<yaml::Error> {
    let mut problems = Vec::new();
    let mut names = BTreeSet::new();
    let tools = document.value.pointer("/spec/tools").and_then(Value::as_array);
    for (i, tool) in tools.into_iter().flatten().enumerate() {
        let at = format!("/spec/tools/{i}");
        // A list would be read as a struct, too.
        let Some(Ok(tool)) = tool.is_object().then(|| Written::deserialize(tool)) else { continue };
        let of_server = tool.of_server().iter().any(|(_, value)| value.is_some());
        match &tool.name {
            Some(_) if of_server => {
                let why = "is either `name` or `server`, `lock` and `allow`";
                problems.push(document.error(&at, why));
            }
            Some(name) => {
                let shown = name.as_str().map_or_else(|| name.to_string(), str::to_owned);
                once(document, &format!("{at}/name"), &shown, &mut names, &mut problems);
            }
            None if of_server => server(document, &at, &tool, &mut names, &mut problems),
            None => problems.push(document.error(&at, "missing field `name`")),
        }
    }
    problems
}

fn once(
    document: &Document,
    at: &str,
    name: &str,
    names: &mut BTreeSet<String>,
    problems: &mut Vec<yaml::Error>,
) {
    if !names.insert(name.to_owned()) {
        problems.push(document.error(at, format!("tool `{name}` is granted twice")));
    }
}

fn server(
    document: &Document,
    at: &str,
    tool: &Written,
    names: &mut BTreeSet<String>,
    problems: &mut Vec<yaml::Error>,
) {
    for (field, value) in tool.of_server() {
        if value.is_none() {
            problems.push(document.error(at, format!("missing field `{field}`")));
        }
    }
    if tool.definition.is_some() {
        let why = "a server's tools are pinned by its lock; `definition` goes with `name`";
        problems.push(document.error(&format!("{at}/definition"), why));
    }
    let Some(server) = tool.server.as_ref().and_then(Value::as_str) else { return };
    let allow = tool.allow.as_ref().and_then(Value::as_array).into_iter().flatten();
    for (i, own) in allow.enumerate() {
        let Some(own) = own.as_str() else { continue };
        let at = format!("{at}/allow/{i}");
        match governed(server, own) {
            Some(name) => once(document, &at, name.as_str(), names, problems),
            None => {
                let why =
                    format!("`{own}` is neither a tool's name nor a method that can be granted");
                problems.push(document.error(&at, why));
            }
        }
    }
}

/// The grants, for a server one for each name. `None` if an entry is invalid.
pub(super) fn values(raw: Vec<RawGrant>) -> Option<Vec<Grant>> {
    let mut grants = Vec::new();
    for raw in raw {
        let (tier, definition) = (raw.tier, raw.definition);
        if let Some(name) = raw.name {
            grants.push(Grant { tier, definition, ..Grant::of(name) });
            continue;
        }
        let (server, signer) = (raw.server?, raw.lock?.signer);
        for own in &raw.allow {
            grants.push(Grant {
                tier,
                server: Some(server.clone()),
                signers: vec![signer.clone()],
                ..Grant::of(governed(&server, own)?)
            });
        }
    }
    Some(grants)
}
