//! Findings about single rules: dead ones, ones that always hold, and paths that the input never
//! has.

use std::collections::{BTreeMap, BTreeSet};

use regorus::Value;
use regorus::unstable::{Expr, Module, Ref, Rule, RuleBody, RuleHead, Span};

use super::locals::{self, Given, Locals};
use super::scope::ModuleScope;
use super::traps;
use super::truth::{self, ConditionValue, TruthScan, Verdicts};
use super::{Finding, Level};
use crate::ast;
use crate::bundle::Bundle;
use crate::domain::json::Json;

/// What the syntax tree gave away.
#[derive(Debug)]
pub(super) struct Read {
    pub findings: Vec<Finding>,
    /// Places of `allow` rules that hold for any call.
    pub open: Vec<String>,
    /// The place of the first rule that requires an approval, if there is one.
    pub holds: Option<String>,
}

/// Reads every module of the bundle but the library.
pub(super) fn read(bundle: &Bundle) -> Read {
    let parsed = bundle.modules();
    let modules: Vec<&Ref<Module>> = parsed.iter().collect();
    let data = bundle.data_files();
    let names: BTreeSet<Vec<String>> = modules
        .iter()
        .flat_map(|module| module.policy.iter().map(|r| ast::whole(module, r)))
        .collect();
    let scoped = modules.iter().map(|module| (&***module, ModuleScope::of(module, &names, &data)));
    let given = locals::given(scoped);
    let known = settle(&modules, (&names, &given), &data);
    let findings = traps::find(&modules, &names, &data, &given);
    let mut out = Read { findings, open: Vec::new(), holds: None };
    for module in modules.into_iter().filter(|module| !ast::file(module).starts_with("lib/")) {
        let scope = ModuleScope::of(module, &names, &data);
        for rule in &module.policy {
            let locals = variables(&scope, module, rule, &given);
            let reading = TruthScan { scope: &scope, locals: &locals, known: &known };
            look(&reading, ast::file(module), rule, &mut out);
        }
    }
    out
}

/// The variables of a rule, with the arguments of its calls if it is a function.
fn variables(scope: &ModuleScope<'_>, module: &Module, rule: &Rule, given: &Given) -> Locals {
    let given = given.get(&ast::whole(module, rule));
    Locals::of(scope, rule, given.map(Vec::as_slice).unwrap_or_default())
}

/// The known results of all rules: repeated until a round adds none.
fn settle(
    modules: &[&Ref<Module>],
    (names, given): (&BTreeSet<Vec<String>>, &Given),
    data: &Json,
) -> Verdicts {
    let mut known = Verdicts::default();
    loop {
        let mut groups: BTreeMap<Vec<String>, Vec<Fate>> = BTreeMap::new();
        for module in modules {
            let scope = ModuleScope::of(module, names, data);
            for rule in &module.policy {
                let locals = variables(&scope, module, rule, given);
                let reading = TruthScan { scope: &scope, locals: &locals, known: &known };
                groups.entry(ast::whole(module, rule)).or_default().push(fate(&reading, rule));
            }
        }
        let next = conclude(groups);
        if next == known {
            return known;
        }
        known = next;
    }
}

/// The possible results of one rule of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// It never fires. The value of a set is there all the same, and empty.
    Dead { set: bool },
    /// It may fire, and then has this value.
    Says(Option<bool>),
    /// It always fires, with the value `true`.
    Holds,
    /// The value if no other rule fires.
    Default(Option<bool>),
}

fn conclude(groups: BTreeMap<Vec<String>, Vec<Fate>>) -> Verdicts {
    let mut known = Verdicts::default();
    for (name, fates) in groups {
        let every = |fits: &dyn Fn(&Fate) -> bool| fates.iter().all(fits);
        if every(&|fate| matches!(fate, Fate::Dead { set: true })) {
            known.empty.insert(name);
            continue;
        }
        if fates.contains(&Fate::Holds) {
            known.always.insert(name);
            continue;
        }
        if every(&|fate| matches!(fate, Fate::Dead { set: false })) {
            known.undefined.insert(name.clone());
        }
        let no = |fate: &Fate| {
            matches!(
                fate,
                Fate::Dead { set: false } | Fate::Says(Some(false)) | Fate::Default(Some(false))
            )
        };
        if every(&no) {
            known.never.insert(name);
        }
    }
    known
}

fn fate(reading: &TruthScan<'_>, rule: &Rule) -> Fate {
    let Rule::Spec { head, bodies, .. } = rule else {
        let Rule::Default { value, .. } = rule else { return Fate::Says(None) };
        return Fate::Default(flag(value));
    };
    let set = matches!(head, RuleHead::Set { .. });
    let keyed = !matches!(ast::head(rule), Expr::Var { .. });
    if dead(reading, rule).is_some() {
        return Fate::Dead { set: set || keyed };
    }
    if set || keyed || ast::is_function(rule) {
        return Fate::Says(None);
    }
    let claim = says(head);
    if claim != Some(true) {
        return Fate::Says(
            claim.filter(|_| bodies.iter().skip(1).all(|body| body.assign.is_none())),
        );
    }
    let first =
        bodies.first().is_none_or(|body| reading.query(&body.query) == ConditionValue::Always);
    if first { Fate::Holds } else { Fate::Says(None) }
}

/// The written value in the head of a rule other than a set: `true` unless there is one.
const fn assigned(head: &RuleHead) -> Option<&regorus::unstable::RuleAssign> {
    match head {
        RuleHead::Compr { assign, .. } | RuleHead::Func { assign, .. } => assign.as_ref(),
        RuleHead::Set { .. } => None,
    }
}

fn says(head: &RuleHead) -> Option<bool> {
    assigned(head).map_or(Some(true), |assign| flag(&assign.value))
}

fn flag(expr: &Expr) -> Option<bool> {
    match truth::scalar(expr) {
        Some(Value::Bool(flag)) => Some(*flag),
        Some(_) | None => None,
    }
}

/// Why a rule can never fire, if it cannot.
fn dead(reading: &TruthScan<'_>, rule: &Rule) -> Option<String> {
    let Rule::Spec { head, bodies, .. } = rule else { return None };
    let value = match head {
        RuleHead::Set { key, .. } => key.as_deref(),
        RuleHead::Compr { .. } | RuleHead::Func { .. } => assigned(head).map(|a| a.value.as_ref()),
    };
    if bodies.len() <= 1
        && let Some(why) = value.and_then(|value| reading.undefined(value))
    {
        return Some(why);
    }
    let mut first = None;
    for body in bodies {
        let ConditionValue::Never(why) = reading.query(&body.query) else { return None };
        first.get_or_insert(why);
    }
    first
}

/// Adds all findings about one rule.
fn look(reading: &TruthScan<'_>, file: &str, rule: &Rule, out: &mut Read) {
    let TruthScan { scope, locals, .. } = *reading;
    let name = truth::name_of(rule).unwrap_or_default().join(".");
    let place = |span: &Span| format!("{file}:{}", span.line);
    for read in ast::parts(rule).reads {
        if let Some((path, near)) = scope.never_supplied(read, locals) {
            let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let message = format!("`{path}` is never supplied{hint}");
            let (level, code) = (Level::Error, "lint.input_never_supplied");
            out.findings.push(Finding { level, code, message, place: place(read.span()) });
        }
    }
    let is_protective = matches!(name.as_str(), "deny" | "require_approval" | "obligations");
    if let Some(why) = dead(reading, rule) {
        // WHY: a dead `allow` only takes away; a dead protection misleads an operator who relies on
        // it.
        let level = if is_protective { Level::Error } else { Level::Warning };
        let message = format!("`{name}` can never fire: {why}");
        let (code, place) = ("lint.dead_rule", place(rule.span()));
        out.findings.push(Finding { level, code, message, place });
        return;
    }
    let Rule::Spec { head, bodies, span } = rule else { return };
    match (scope.package.get(1).map(String::as_str), name.as_str()) {
        (Some(_), "require_approval") => {
            out.holds.get_or_insert_with(|| place(span));
        }
        (Some("agent" | "team"), "allow") => {
            // An `else` has a value of its own.
            let says_so = |body: &RuleBody| match &body.assign {
                Some(assign) => flag(&assign.value) == Some(true),
                None => says(head) == Some(true),
            };
            let always = |body: &RuleBody| {
                says_so(body) && reading.query(&body.query) == ConditionValue::Always
            };
            let bare = bodies.is_empty() && says(head) == Some(true);
            if bare || bodies.iter().any(always) {
                out.open.push(place(span));
            }
        }
        _ => {}
    }
}
