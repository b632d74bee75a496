//! Evaluates a part of a rule: its text, put into a rule of our own in the same package.

use regorus::unstable::Module;
use regorus::{Engine, Value};

use crate::ast;
use crate::fault::read_engine_message;
use crate::{source, stock};

/// The name of our own rule; no rule of a bundle begins so.
const PROBE: &str = "wicketgate_probe__";
/// The variable a value is bound to.
const BOUND: &str = "wicketgate_value__";

/// The result of a probe.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ProbeOutcome {
    /// The values for which the body holds; empty: it does not hold.
    Values(Vec<Value>),
    /// The body cannot be evaluated alone: it needs a variable that only a later condition binds.
    Unsafe,
    /// Evaluating it failed.
    Failed(String),
}

/// An engine with an input, to evaluate rules piece by piece.
#[derive(Debug)]
pub(crate) struct Prober {
    engine: Engine,
}

impl Prober {
    /// Asks the rules and data of this engine about this input.
    pub fn new(engine: &Engine, input: Option<&Value>) -> Self {
        let mut engine = engine.clone();
        if let Some(input) = input {
            engine.set_input(input.clone());
        }
        Self { engine }
    }

    /// The same rules about another input.
    pub fn with_input(&self, input: &Value) -> Self {
        Self::new(&self.engine, Some(input))
    }

    /// The values of the expression `value` for which `body` holds, in the scope of `module`.
    pub fn ask(&self, module: &Module, body: &str, value: &str) -> ProbeOutcome {
        let body = if body.trim().is_empty() { "true" } else { body };
        let heading = source::heading(module);
        let text = format!("{heading}\n{PROBE} contains [{value}] if {{\n{body}\n}}\n");
        let text = stock::text("the probe", &text).unwrap_or(text);
        let mut engine = self.engine.clone();
        let result = engine
            .add_policy("the probe".to_owned(), text)
            .and_then(|_| engine.eval_rule(path_of(&ast::package(module), PROBE)));
        match result {
            Ok(found) => ProbeOutcome::Values(members(&found)),
            Err(error) => {
                let (file, line, _, message) = read_engine_message(&error.to_string());
                if message.contains("unsafe") {
                    return ProbeOutcome::Unsafe;
                }
                let at = if line == 0 || file == "the probe" {
                    String::new()
                } else {
                    format!("{file}:{line}: ")
                };
                ProbeOutcome::Failed(format!("{at}{message}"))
            }
        }
    }

    /// The value of an expression once `body` holds, `withs` in force; `None` where it has none.
    pub fn value(&self, module: &Module, body: &str, expr: &str, withs: &str) -> Option<Value> {
        let body = format!("{body}\n{BOUND} := {expr} {withs}");
        match self.ask(module, &body, BOUND) {
            ProbeOutcome::Values(values) => values.into_iter().next(),
            ProbeOutcome::Unsafe | ProbeOutcome::Failed(_) => None,
        }
    }
}

/// The path of a rule in the engine's notation.
pub(crate) fn path_of(package: &[String], rule: &str) -> String {
    let mut path = "data".to_owned();
    for part in package.iter().map(String::as_str).chain([rule]) {
        if crate::bundle::is_identifier(part) {
            path.push('.');
            path.push_str(part);
        } else {
            path.push_str(&format!("[{}]", serde_json::Value::from(part)));
        }
    }
    path
}

/// Every probe is a set of arrays of one value.
fn members(found: &Value) -> Vec<Value> {
    let Value::Set(items) = found else { return Vec::new() };
    let one =
        |item: &Value| if let Value::Array(one) = item { one.iter().next().cloned() } else { None };
    items.iter_sorted().filter_map(one).collect()
}
