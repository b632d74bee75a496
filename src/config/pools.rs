//! `pools`: units in each window that calls of all gates share.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::pool::{self, Per, SIZE_MAX, Unit};

/// One pool, as it is written.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Name of the pool in entries and policies, the same at every gate.
    #[schemars(
        regex(pattern = r"^[a-z0-9_-]{1,63}$"),
        extend("x-error" = "expected the name of a pool: [a-z0-9_-]{1,63}")
    )]
    pub name: String,
    /// What is counted.
    pub unit: Unit,
    /// How long a window is, in UTC. The pool is full again when a window begins.
    pub per: Per,
    /// Number of units in one window.
    #[schemars(range(min = 1, max = SIZE_MAX))]
    pub size: u64,
    /// Names of agents: the pool counts only their calls. If the list is empty, it counts the calls of all agents.
    #[serde(default)]
    #[schemars(with = "Vec<Name>", length(max = 256))]
    pub agents: BTreeSet<String>,
    /// Labels: the pool counts only calls of agents whose manifest has all of them.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, super::Label>", extend("maxProperties" = 64))]
    pub labels: BTreeMap<String, String>,
    /// Names of tools: the pool counts only calls of them. If the list is empty, it counts calls of all tools.
    #[serde(default)]
    #[schemars(with = "Vec<Name>", length(max = 256))]
    pub tools: BTreeSet<String>,
}

/// The schema of the name of an agent or a tool.
#[derive(JsonSchema)]
#[schemars(extend("x-error" = "expected a name"))]
struct Name(
    #[schemars(length(min = 1, max = 128))]
    #[expect(dead_code, reason = "only its schema is used")]
    String,
);

impl Pool {
    /// The pool that calls are counted in.
    pub fn value(&self) -> pool::Pool {
        pool::Pool {
            name: self.name.clone(),
            unit: self.unit,
            per: self.per,
            size: self.size,
            agents: self.agents.clone(),
            labels: self.labels.clone(),
            tools: self.tools.clone(),
        }
    }
}

/// Checks beyond the schema.
pub(super) fn check(config: &Value) -> Vec<(String, String)> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    let pools = config.get("pools").and_then(Value::as_array);
    for (i, pool) in pools.into_iter().flatten().enumerate() {
        let text = |name: &str| pool.get(name).and_then(Value::as_str).unwrap_or_default();
        let at = |field: &str| format!("/pools/{i}/{field}");
        let name = text("name");
        if !name.is_empty() && !seen.insert(name) {
            problems.push((at("name"), format!("pool `{name}` is configured twice")));
        }
        if text("unit") == "concurrency" && !["", "none"].contains(&text("per")) {
            let why = "`concurrency` has no window: use `per: none`";
            problems.push((at("per"), why.to_owned()));
        }
    }
    problems
}
