//! What a name in a rule stands for: the input, data, a rule of the bundle, or something local.

use std::collections::{BTreeMap, BTreeSet};

use regorus::unstable::{AssignOp, Expr, Literal, Module, Rule, RuleHead, Span};

use super::shape::{self, Found, Step};
use crate::domain::json::Json;
use crate::policy::ast;

/// What a reference starts from, its steps after it.
#[derive(Debug)]
pub(super) enum Target<'a> {
    /// `input…`
    Input(Vec<Step<'a>>),
    /// `data…`; a rule of the same package by its whole path.
    Data(Vec<Step<'a>>),
    /// A variable of the rule, or what cannot be named.
    Local,
}

/// The names of one module, and what the bundle brings.
#[derive(Debug)]
pub(super) struct Scope<'a> {
    pub package: Vec<String>,
    imports: BTreeMap<String, Vec<String>>,
    /// Every rule of the bundle by its whole path.
    rules: &'a BTreeSet<Vec<String>>,
    data: &'a Json,
}

impl<'a> Scope<'a> {
    pub fn of(module: &'a Module, rules: &'a BTreeSet<Vec<String>>, data: &'a Json) -> Self {
        let named =
            |parts: &[String]| matches!(parts.first().map(String::as_str), Some("data" | "input"));
        let imports = ast::imports(module).filter(|(_, parts)| named(parts)).collect();
        Self { package: ast::package(module), imports, rules, data }
    }

    /// What this reference stands for, for a rule with these variables.
    pub fn target<'s>(&'s self, expr: &'s Expr, locals: &BTreeSet<String>) -> Target<'s> {
        let Some((base, steps)) = steps(expr) else { return Target::Local };
        if locals.contains(base) {
            return Target::Local;
        }
        match base {
            "input" => return Target::Input(steps),
            "data" => return Target::Data(steps),
            _ => {}
        }
        let whole = |first: &'s [String]| {
            let names = first.iter().map(|name| Step::Name(name));
            names.chain(steps.iter().copied()).collect::<Vec<_>>()
        };
        if let Some((root, rest)) = self.imports.get(base).and_then(|parts| parts.split_first()) {
            return if root == "input" {
                Target::Input(whole(rest))
            } else {
                Target::Data(whole(rest))
            };
        }
        let mut name = self.package.clone();
        name.push(base.to_owned());
        let next = self.rules.range(name.clone()..).next();
        if !next.is_some_and(|rule| rule.starts_with(&name)) {
            return Target::Local;
        }
        let mut path: Vec<Step<'s>> = self.package.iter().map(|part| Step::Name(part)).collect();
        path.push(Step::Name(base));
        path.extend(steps);
        Target::Data(path)
    }

    /// The rule a path below `data` reads, if it reads one.
    pub fn rule(&self, steps: &[Step<'_>]) -> Option<&'a Vec<String>> {
        let mut name = Vec::new();
        for step in steps {
            let Step::Name(part) = step else { return None };
            name.push((*part).to_owned());
            if let Some(rule) = self.rules.get(&name) {
                return Some(rule);
            }
        }
        None
    }

    /// Whether the bundle's data files can hold this path below `data`.
    pub fn in_data(&self, steps: &[Step<'_>]) -> bool {
        let mut at = self.data;
        for step in steps {
            at = match (at, step) {
                (Json::Object(members), Step::Name(name)) => match members.get(*name) {
                    Some(member) => member,
                    None => return false,
                },
                (_, Step::Any) => return true,
                (_, Step::Name(_)) => return false,
            };
        }
        true
    }

    /// The path of the input this reads, shown, if no input ever has it; and the name that is near.
    pub fn never_supplied(
        &self,
        expr: &Expr,
        locals: &BTreeSet<String>,
    ) -> Option<(String, Option<String>)> {
        let Target::Input(steps) = self.target(expr, locals) else { return None };
        let Found::Never { at, near } = shape::find(&steps) else { return None };
        let shown = |steps: &[Step<'_>]| {
            let names = steps.iter().map(|step| match step {
                Step::Name(name) => format!(".{name}"),
                Step::Any => "[_]".to_owned(),
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
fn steps(expr: &Expr) -> Option<(&str, Vec<Step<'_>>)> {
    let (mut at, mut reversed) = (expr, Vec::new());
    let base = loop {
        match at {
            Expr::Var { value, .. } => break text(value)?,
            Expr::RefDot { refr, field, .. } => {
                reversed.push(text(&field.1).map_or(Step::Any, Step::Name));
                at = refr;
            }
            Expr::RefBrack { refr, index, .. } => {
                reversed.push(ast::literal(index).map_or(Step::Any, Step::Name));
                at = refr;
            }
            _other => return None,
        }
    };
    reversed.reverse();
    Some((base, reversed))
}

/// The variables a rule declares for itself, as far as they hide names of the module.
pub(super) fn locals(rule: &Rule) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Rule::Spec { head, bodies, .. } = rule else { return names };
    if let RuleHead::Func { args, .. } = head {
        names.extend(args.iter().filter_map(|arg| variable(arg)));
    }
    for stmt in bodies.iter().flat_map(|body| &body.query.stmts) {
        match &stmt.literal {
            Literal::SomeVars { vars, .. } => names.extend(vars.iter().map(text_of)),
            Literal::SomeIn { key, value, .. } => {
                names.extend(key.iter().filter_map(|key| variable(key)));
                names.extend(variable(value));
            }
            Literal::Expr { expr, .. } => {
                if let Expr::AssignExpr { op: AssignOp::ColEq, lhs, .. } = expr.as_ref() {
                    names.extend(variable(lhs));
                }
            }
            Literal::NotExpr { .. } | Literal::Every { .. } => {}
        }
    }
    names
}

fn text_of(span: &Span) -> String {
    span.text().to_owned()
}

fn variable(expr: &Expr) -> Option<String> {
    if let Expr::Var { span, .. } = expr { Some(text_of(span)) } else { None }
}
