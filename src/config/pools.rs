//! `pools`: what calls of all gates share, so many units in each window.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::limits::pool::{self, Per, SIZE_MAX, Unit};

/// One pool, as it is written.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Its name, the same at every gate: `[a-z0-9_-]{1,63}`.
    pub name: String,
    /// `requests`, `cost_micro_usd` or `concurrency`.
    pub unit: String,
    /// `minute`, `day`, `month` or `none`, in UTC.
    pub per: String,
    /// Units of one window.
    pub size: u64,
    /// Only calls of these agents; empty: of all.
    #[serde(default)]
    pub agents: BTreeSet<String>,
    /// Only calls of agents whose manifest has all of these labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Only calls of these tools; empty: of all.
    #[serde(default)]
    pub tools: BTreeSet<String>,
}

impl Pool {
    /// The pool. `None` for words that [`check`] refuses.
    #[must_use]
    pub fn value(&self) -> Option<pool::Pool> {
        Some(pool::Pool {
            name: self.name.clone(),
            unit: Unit::parse(&self.unit)?,
            per: Per::parse(&self.per)?,
            size: self.size,
            agents: self.agents.clone(),
            labels: self.labels.clone(),
            tools: self.tools.clone(),
        })
    }
}

pub(super) fn schema() -> Value {
    let names = |text: &str| {
        json!({"type": "array", "maxItems": 256, "default": [], "description": text,
            "items": {"type": "string", "minLength": 1, "maxLength": 128, "x-error": "expected a name"}})
    };
    let pool = json!({"type": "object", "additionalProperties": false,
        "required": ["name", "unit", "per", "size"], "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9_-]{1,63}$",
            "x-error": "expected the name of a pool: [a-z0-9_-]{1,63}"},
        "unit": {"enum": ["requests", "tokens", "cost_micro_usd", "concurrency"],
            "x-error": "expected `requests`, `tokens`, `cost_micro_usd` or `concurrency`"},
        "per": {"enum": ["minute", "day", "month", "none"],
            "x-error": "expected `minute`, `day`, `month` or `none`"},
        "size": {"type": "integer", "minimum": 1, "maximum": SIZE_MAX,
            "x-error": "expected a whole number from 1"},
        "agents": names("only calls of these agents; of all if empty"),
        "labels": {"type": "object", "maxProperties": 64, "default": {},
            "description": "only calls of agents whose manifest has all of these labels",
            "additionalProperties": {"type": "string", "maxLength": 256, "x-error": "expected text of at most 256 characters"}},
        "tools": names("only calls of these tools; of all if empty"),
    }});
    json!({"type": "array", "maxItems": 64, "default": [], "items": pool,
        "description": "units that calls of all gates share"})
}

/// What the schema cannot say.
pub(super) fn check(config: &Value) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    let pools = config.get("pools").and_then(Value::as_array);
    for (i, pool) in pools.into_iter().flatten().enumerate() {
        let text = |name: &str| pool.get(name).and_then(Value::as_str).unwrap_or_default();
        let at = |field: &str| format!("/pools/{i}/{field}");
        let name = text("name");
        if !name.is_empty() && !seen.insert(name) {
            wrong.push((at("name"), format!("pool `{name}` is there twice")));
        }
        if text("unit") == "concurrency" && !["", "none"].contains(&text("per")) {
            let why = "calls at the same time have no window: expected `none`";
            wrong.push((at("per"), why.to_owned()));
        }
    }
    wrong
}
