//! Resolves a name in a rule: the input, data, a rule of the bundle, or a local variable.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{Expr, Module};

use super::locals::Locals;
use super::shape::{self, InputTarget, PathStep};
use crate::ast;
use crate::domain::json::Json;

/// What a reference starts from, its steps after it.
#[derive(Debug)]
pub(super) enum Target<'a> {
    /// `input…`
    Input(Vec<PathStep<'a>>),
    /// `data…`; a rule of the same package by its whole path.
    Data(Vec<PathStep<'a>>),
    /// A variable of the rule, or a reference without a static name.
    Local,
}

/// The names of one module, and those of the bundle.
#[derive(Debug)]
pub(super) struct ModuleScope<'a> {
    pub package: Vec<String>,
    imports: BTreeMap<String, Vec<String>>,
    /// Every rule of the bundle by its whole path.
    rules: &'a BTreeSet<Vec<String>>,
    data: &'a Json,
}

impl<'a> ModuleScope<'a> {
    pub fn of(module: &'a Module, rules: &'a BTreeSet<Vec<String>>, data: &'a Json) -> Self {
        let named =
            |parts: &[String]| matches!(parts.first().map(String::as_str), Some("data" | "input"));
        let imports = ast::imports(module).filter(|(_, parts)| named(parts)).collect();
        Self { package: ast::package(module), imports, rules, data }
    }

    /// The target of this reference, in a rule with these variables.
    pub fn target<'s>(&'s self, expr: &'s Expr, locals: &'s Locals) -> Target<'s> {
        let Some((base, steps)) = steps(expr) else { return Target::Local };
        if let Some(stands_for) = locals.steps(base) {
            return Target::Input(stands_for.chain(steps).collect());
        }
        if locals.has(base) {
            return Target::Local;
        }
        match base {
            "input" => return Target::Input(steps),
            "data" => return Target::Data(steps),
            _ => {}
        }
        let whole = |first: &'s [String]| {
            let names = first.iter().map(|name| PathStep::Name(name));
            names.chain(steps.iter().copied()).collect::<Vec<_>>()
        };
        if let Some((root, rest)) = self.imports.get(base).and_then(|parts| parts.split_first()) {
            return if root == "input" {
                Target::Input(whole(rest))
            } else {
                Target::Data(whole(rest))
            };
        }
        if !self.in_package(base) {
            return Target::Local;
        }
        let mut path: Vec<PathStep<'s>> =
            self.package.iter().map(|part| PathStep::Name(part)).collect();
        path.push(PathStep::Name(base));
        path.extend(steps);
        Target::Data(path)
    }

    /// Whether a rule of the package begins with this name.
    fn in_package(&self, base: &str) -> bool {
        let mut name = self.package.clone();
        name.push(base.to_owned());
        let next = self.rules.range(name.clone()..).next();
        next.is_some_and(|rule| rule.starts_with(&name))
    }

    /// Whether a name means something in the module where no rule declares it.
    pub fn defines(&self, name: &str) -> bool {
        matches!(name, "input" | "data") || self.imports.contains_key(name) || self.in_package(name)
    }

    /// The whole path of the function that is called by this one; `None`: no name is there.
    pub fn whole(&self, called: &[String]) -> Option<Vec<String>> {
        let (first, rest) = called.split_first()?;
        let from = match (first.as_str(), self.imports.get(first)) {
            ("data", _) => Vec::new(),
            (_, Some(import)) => import.iter().skip(1).cloned().collect(),
            (_, None) => [self.package.as_slice(), std::slice::from_ref(first)].concat(),
        };
        Some([from.as_slice(), rest].concat())
    }

    /// The rule a path below `data` reads, if it reads one.
    pub fn rule(&self, steps: &[PathStep<'_>]) -> Option<&'a Vec<String>> {
        let mut name = Vec::new();
        for step in steps {
            let PathStep::Name(part) = step else { return None };
            name.push((*part).to_owned());
            if let Some(rule) = self.rules.get(&name) {
                return Some(rule);
            }
        }
        None
    }

    /// Whether the bundle's data files can hold this path below `data`.
    pub fn in_data(&self, steps: &[PathStep<'_>]) -> bool {
        let mut at = self.data;
        for step in steps {
            at = match (at, step) {
                (Json::Object(members), PathStep::Name(name)) => match members.get(*name) {
                    Some(member) => member,
                    None => return false,
                },
                (_, PathStep::Any) => return true,
                (_, PathStep::Name(_)) => return false,
            };
        }
        true
    }

    /// The path of the input in this reference, as text, if no input ever has it; and the nearest
    /// name.
    pub fn never_supplied(&self, expr: &Expr, locals: &Locals) -> Option<(String, Option<String>)> {
        let Target::Input(steps) = self.target(expr, locals) else { return None };
        let InputTarget::Never { at, near } = shape::find(&steps) else { return None };
        let shown = |steps: &[PathStep<'_>]| {
            let names = steps.iter().map(|step| match step {
                PathStep::Name(name) => format!(".{name}"),
                PathStep::Any => "[_]".to_owned(),
            });
            format!("input{}", names.collect::<String>())
        };
        let whole = shown(steps.get(..=at).unwrap_or(&steps));
        let before = shown(steps.get(..at).unwrap_or_default());
        Some((whole, near.map(|near| format!("{before}.{near}"))))
    }
}

fn text(value: &regorus::Value) -> Option<&str> {
    if let regorus::Value::String(text) = value { Some(text) } else { None }
}

/// The first name of a reference and the steps after it.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser's enum, not ours")]
fn steps(expr: &Expr) -> Option<(&str, Vec<PathStep<'_>>)> {
    let (mut at, mut reversed) = (expr, Vec::new());
    let base = loop {
        match at {
            Expr::Var { value, .. } => break text(value)?,
            Expr::RefDot { refr, field, .. } => {
                reversed.push(text(&field.1).map_or(PathStep::Any, PathStep::Name));
                at = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                reversed.push(ast::literal(index).map_or(PathStep::Any, PathStep::Name));
                at = refr;
            }
            _other => return None,
        }
    };
    reversed.reverse();
    Some((base, reversed))
}
