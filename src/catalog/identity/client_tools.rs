//! `spec.client_tools` of a manifest: tools that the agent runs itself, when its model asks for them.
//!
//! The gate judges and records what the model asks for. It does not run these tools, and does not
//! see what the agent does.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::manifest::{Grant, Manifest};
use crate::domain::closed::texts;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::tier::Tier;
use crate::yaml::{self, Document};

/// The first part of the names of these tools in entries and policies. No tool of the configuration
/// has it.
pub const CLIENT: &str = "client";
/// Tools of one manifest, at most.
const TOOLS_MAX: usize = 256;
/// Bytes of a name, at most: with [`CLIENT`] before it, it is the name of a tool.
const NAME_BYTES_MAX: usize = 121;

texts! {
    /// `spec.unknown_tools`: what becomes of a request that offers the model a tool which is neither
    /// granted nor listed in `spec.client_tools`.
    #[derive(Default)]
    pub enum UnknownTools {
        /// The gate denies the request.
        #[default]
        Deny = "deny",
        /// The gate removes the tool from the request.
        Strip = "strip",
    }
}

/// A tool that the agent runs itself.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct ClientTool {
    /// Its name as the model sees it.
    pub name: String,
    /// How much harm a call can do.
    pub tier: Tier,
    /// The only accepted definition, if pinned.
    pub definition: Option<Digest>,
}

impl ClientTool {
    /// The name in entries and policies: `client.<name>`.
    pub fn governed(&self) -> Option<ToolName> {
        governed(&self.name)
    }
}

/// `client.<name>`, if that is a name of a tool.
fn governed(name: &str) -> Option<ToolName> {
    ToolName::parse(&format!("{CLIENT}.{name}"))
}

/// Whether an entry of `spec.client_tools` can have this name.
pub(super) fn is_listable(name: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(fits)
}

/// Whether only a tool that an agent runs itself has this name.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    name.split_once('.').is_some_and(|(first, _)| first == CLIENT)
}

/// The JSON Schema of `spec.client_tools`.
pub(super) fn schema() -> Value {
    json!({"type": "array", "maxItems": TOOLS_MAX, "x-error": "expected at most 256 tools", "items": {
    "type": "object", "additionalProperties": false, "required": ["name", "tier"],
    "properties": {
        "name": {"type": "string", "pattern": "^[A-Za-z0-9_.-]{1,121}$",
            "x-error": "expected a tool name: [A-Za-z0-9_.-]{1,121}"},
        "tier": {"enum": Tier::TEXTS, "x-error": "expected `T0`, `T1`, `T2` or `T3`"},
        "definition": {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$",
            "x-error": "expected `sha256:` and 64 lowercase hex digits"},
    }}})
}

/// What the schema cannot express: names that occur twice, here or in `spec.tools`.
pub(super) fn beyond_schema(document: &Document) -> Vec<yaml::Error> {
    let names = |list: &str| {
        let tools = document.value.pointer(list).and_then(Value::as_array);
        let tools = tools.into_iter().flatten().enumerate();
        tools.filter_map(|(i, tool)| Some((i, tool.get("name")?.as_str()?)))
    };
    let granted: BTreeSet<&str> = names("/spec/tools").map(|(_, name)| name).collect();
    let (mut problems, mut before) = (Vec::new(), BTreeSet::new());
    for (i, name) in names("/spec/client_tools") {
        let at = format!("/spec/client_tools/{i}/name");
        if !before.insert(name) {
            problems.push(document.error(&at, format!("tool `{name}` is listed twice")));
        }
        let full = format!("{CLIENT}.{name}");
        if granted.contains(full.as_str()) {
            let why = format!("tool `{full}` is granted in `spec.tools`, too");
            problems.push(document.error(&at, why));
        }
    }
    problems
}

impl Manifest {
    /// The tool of this name that the agent runs itself, if it is listed.
    pub fn client_tool(&self, name: &str) -> Option<&ClientTool> {
        self.client_tools.iter().find(|tool| tool.name == name)
    }

    /// The grant of the tool of this name that the agent runs itself: of the tool `client.<name>`.
    pub fn client_grant(&self, name: &str) -> Option<Grant> {
        let tool = self.client_tool(name)?;
        let (tier, definition) = (Some(tool.tier), tool.definition);
        Some(Grant { tier, definition, ..Grant::of(tool.governed()?) })
    }
}
