//! Why a decision is what it is: which rules fired, and at which condition the others stopped.
//!
//! The tracer evaluates a rule condition by condition: it puts each one, with those before it, into
//! a rule of its own in the same package, and the engine says whether they hold together. So an
//! explanation contains what the engine itself says, not a second interpreter's guess.

use regorus::Value;
use regorus::unstable::{Module, Ref, Rule};
use serde::Serialize;

use super::bundle::Bundle;
use super::fault::Error;
use super::rego::{self, RegoEngine, UNHURRIED};
use super::{Answer, EngineError, PolicyEngine as _, ast};
use crate::domain::decision::Verdict;
use crate::domain::json::{Json, Limits};

mod probe;
mod render;
mod rule;

use probe::ProbeOutcome;
pub(super) use probe::{Prober, path_of};
pub(super) use render::{condition_lines, short};
pub(super) use rule::RuleTracer;

/// One condition of a rule.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Condition {
    /// `file:line`.
    pub place: String,
    /// Its text, on one line.
    #[serde(rename = "condition")]
    pub text: String,
    /// Whether it holds; `None`: not evaluated, because one before it fails, or because it cannot
    /// be evaluated alone.
    pub holds: Option<bool>,
    /// Why evaluating it failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What it reads, in the order of the text, with its value; `None`: undefined.
    #[serde(rename = "values", serialize_with = "render::reads")]
    pub reads: Vec<(String, Option<Json>)>,
    /// The rules it reads, if it is the condition that stopped this rule.
    pub because: Vec<RuleTrace>,
}

/// One rule, and how many of its conditions held.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RuleTrace {
    /// `wicketgate.agent.deny`.
    #[serde(rename = "rule")]
    pub name: String,
    /// `file:line` of its head.
    pub place: String,
    /// Whether it fired.
    pub fired: bool,
    /// Its result when it fired: the members it added, or its value.
    pub result: Vec<Json>,
    /// Its conditions; of a rule with `else`, those of the branch that fired, or of every branch.
    pub conditions: Vec<Condition>,
}

/// A decision and everything that led to it.
#[derive(Clone, PartialEq, Debug)]
pub struct Explained {
    /// The decision; an error is a denial.
    pub answer: Result<Answer, EngineError>,
    /// Who decided: `org`, `team`, `agent`, or `library` where no layer spoke (no rule allows it, T3).
    pub layer: String,
    /// Every rule of the layers behind the decision, those that fired first.
    pub rules: Vec<RuleTrace>,
}

/// Decides about these canonical input bytes and explains the decision.
///
/// # Errors
/// The engine refuses the bundle.
pub fn explain(bundle: &Bundle, input: &[u8]) -> Result<Explained, Error> {
    let engine = RegoEngine::new(bundle, UNHURRIED)?;
    let answer = engine.decide(input);
    let text = String::from_utf8_lossy(input);
    let value = Value::from_json_str(&text).map_err(|e| Error::Engine(e.to_string()))?;
    let modules = bundle.modules();
    let prober = Prober::new(&rego::engine(bundle.template.clone(), UNHURRIED)?, Some(&value));
    let tracer = RuleTracer::new(&prober, modules);
    let mut rules = Vec::new();
    for module in layered(modules) {
        for rule in &module.policy {
            if decides(rule) {
                rules.extend(tracer.rule(module, rule, 0));
            }
        }
    }
    // Stable: within each, the order of the files.
    rules.sort_by_key(|rule| !rule.fired);
    let layer = layer(answer.as_ref().ok(), &rules);
    Ok(Explained { answer, layer, rules })
}

/// The modules of the layers: not the library's.
fn layered(modules: &[Ref<Module>]) -> impl Iterator<Item = &Ref<Module>> {
    modules.iter().filter(|module| !ast::file(module).starts_with("lib/"))
}

/// Whether the library reads this rule.
fn decides(rule: &Rule) -> bool {
    let name = ast::path(ast::head(rule)).map(|path| path.parts).unwrap_or_default();
    let read = ["allow", "deny", "require_approval", "obligations"];
    matches!(rule, Rule::Spec { .. })
        && matches!(name.as_slice(), [one] if read.contains(&one.as_str()))
}

fn layer(answer: Option<&Answer>, rules: &[RuleTrace]) -> String {
    let of = |name: &str| {
        let layer = name.strip_prefix("wicketgate.").and_then(|rest| rest.split('.').next());
        layer.filter(|layer| ["org", "team", "agent"].contains(layer)).map(str::to_owned)
    };
    let deciding = match answer {
        Some(answer) if answer.verdict == Verdict::Allow => rules
            .iter()
            .find(|rule| rule.fired && rule.name.ends_with(".allow"))
            .and_then(|rule| of(&rule.name)),
        Some(answer) => answer.reasons.first().and_then(|reason| of(&reason.rule)),
        None => None,
    };
    deciding.unwrap_or_else(|| "library".to_owned())
}

/// A value of the engine as ours; a value without a JSON form becomes text.
pub(super) fn json(value: &Value) -> Json {
    let text = value.to_json_str().unwrap_or_default();
    Json::parse(text.as_bytes(), &Limits::FILE).unwrap_or_else(|_| Json::from(text))
}
