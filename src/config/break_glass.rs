//! `trust.break_glass`: who may, for a short time, stand in for approvers. Absent: nobody.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::approval::break_glass::{MINUTES_MAX, QUORUM_MIN, SIGNATURES_MAX};

/// `trust.break_glass`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BreakGlass {
    /// Who may sign: an OpenSSH `allowed_signers` file, its envelope beside it as `<file>.sig.json`.
    pub signers: PathBuf,
    /// Public key files of those who sign that list; never the same keys as others.
    pub keys: Vec<PathBuf>,
    /// How many of them must have signed the list.
    pub threshold: usize,
    /// How many different people must sign a statement.
    pub quorum: usize,
    /// Minutes a statement may span.
    pub max_minutes: u64,
}

/// The part of the schema.
pub(super) fn schema(path: &dyn Fn(&str) -> Value) -> Value {
    let number = |default: usize, least: usize, most: usize, text: &str| {
        json!({"type": "integer", "minimum": least, "maximum": most, "default": default,
            "description": text, "x-error": format!("expected a whole number from {least} to {most}")})
    };
    let minutes = usize::try_from(MINUTES_MAX).unwrap_or(usize::MAX);
    json!({"type": "object", "additionalProperties": false, "required": ["signers", "keys"],
    "description": "who may open break-glass; without it nobody can",
    "properties": {
        "signers": path("allowed_signers of break-glass key holders, its envelope beside it as <file>.sig.json"),
        "keys": {"type": "array", "minItems": 1, "maxItems": 64, "items": path("public key file (PEM)"),
            "description": "public key files (PEM) of those who sign that list; never the same keys as others",
            "x-error": "expected 1 to 64 public key files"},
        "threshold": number(1, 1, 64, "how many of them must have signed the list"),
        "quorum": number(QUORUM_MIN, QUORUM_MIN, SIGNATURES_MAX, "how many different people must sign a statement"),
        "max_minutes": number(minutes, 1, minutes, "minutes a statement may span"),
    }})
}

/// Makes the paths absolute.
pub(super) fn resolve(value: &mut Value, one: &dyn Fn(&mut Value)) {
    let Some(section) = value.pointer_mut("/trust/break_glass") else { return };
    section.get_mut("signers").map(one);
    let keys = section.get_mut("keys").and_then(Value::as_array_mut);
    keys.into_iter().flatten().for_each(one);
}
