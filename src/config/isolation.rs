//! What the gate demands of itself and of the place where its agents run: `self_test`, `isolation`, `posture`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema::{number, section};

/// `self_test`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SelfTest {
    /// Seconds between two calls of the gate itself that have to be denied.
    pub every_seconds: u64,
    /// Whether the first of them has to pass before the gate is ready.
    pub at_start: bool,
}

/// `isolation`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// What `wicketgate doctor` finds is recorded; nothing hangs on it.
    Advisory,
    /// Without a fresh `wicketgate doctor` that found no way out, an agent's calls are denied.
    Enforced,
}

/// `posture`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Posture {
    /// Seconds for which what `wicketgate doctor` found holds.
    pub stale_after_seconds: u64,
}

pub(super) fn self_test() -> Value {
    section(&json!({
        "every_seconds": number(3600, 10, 86_400, "seconds between two calls of the gate itself that have to be denied"),
        "at_start": {"type": "boolean", "default": true, "x-error": "expected `true` or `false`",
            "description": "whether the first of them has to pass before the gate is ready"},
    }))
}

pub(super) fn isolation() -> Value {
    json!({"enum": ["advisory", "enforced"], "type": "string", "default": "advisory",
        "x-error": "expected `advisory` or `enforced`",
        "description": "`enforced`: not ready, and calls are denied, unless a fresh `wicketgate doctor` of the agent found no way out"})
}

pub(super) fn posture() -> Value {
    section(&json!({
        "stale_after_seconds": number(900, 2, 86_400, "seconds for which what `wicketgate doctor` found holds"),
    }))
}
