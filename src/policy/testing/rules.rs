//! Rules named `test_…`.

use std::collections::BTreeMap;

use regorus::Value;
use regorus::unstable::{Module, Ref, Rule};

use super::{Bench, Case, Outcome, TestOptions, explain};
use crate::domain::json::Json;
use crate::explain::{Prober, RuleTracer, condition_lines, path_of, short};
use crate::fault::read_engine_message;
use crate::{ast, source};

/// One test: every rule of its name in its package.
struct Test<'a> {
    package: Vec<String>,
    name: String,
    rules: Vec<(&'a Ref<Module>, &'a Ref<Rule>)>,
}

impl Test<'_> {
    fn shown(&self) -> String {
        format!("{}.{}", self.package.join("."), self.name)
    }

    fn place(&self) -> String {
        self.rules.first().map(|(_, rule)| source::place(rule.span())).unwrap_or_default()
    }

    fn case(&self, outcome: Outcome, message: impl Into<String>) -> Case {
        let (name, place, message) = (self.shown(), self.place(), message.into());
        Case { name, place, outcome, message, details: Vec::new(), input: None }
    }
}

/// Runs every test rule of the bundle.
pub(super) fn run(bench: &Bench, options: &TestOptions) -> Vec<Case> {
    let modules = bench.modules.as_slice();
    let mut tests: BTreeMap<(String, u32), Test<'_>> = BTreeMap::new();
    for module in modules.iter().filter(|module| !ast::file(module).starts_with("lib/")) {
        for rule in &module.policy {
            collect(module, rule, &mut tests);
        }
    }
    let wanted =
        |test: &&Test<'_>| options.only.as_ref().is_none_or(|only| only.is_match(&test.shown()));
    tests.values().filter(wanted).map(|test| one(bench, modules, test)).collect()
}

fn collect<'a>(
    module: &'a Ref<Module>,
    rule: &'a Ref<Rule>,
    tests: &mut BTreeMap<(String, u32), Test<'a>>,
) {
    let parts = ast::path(ast::head(rule)).map(|path| path.parts).unwrap_or_default();
    let Some(name) = parts.first().filter(|name| is_test(name)) else { return };
    if ast::is_function(rule) || matches!(rule.as_ref(), Rule::Default { .. }) {
        return;
    }
    let package = ast::package(module);
    let same = |test: &&mut Test<'a>| test.package == package && test.name == *name;
    if let Some(test) = tests.values_mut().find(same) {
        test.rules.push((module, rule));
        return;
    }
    let key = (ast::file(module).to_owned(), rule.span().line);
    tests.insert(key, Test { package, name: name.clone(), rules: vec![(module, rule)] });
}

fn is_test(name: &str) -> bool {
    name.starts_with("test_") || name.starts_with("todo_test_")
}

fn one(bench: &Bench, modules: &[Ref<Module>], test: &Test<'_>) -> Case {
    if test.name.starts_with("todo_") {
        return test.case(Outcome::Skipped, "to do");
    }
    let path = path_of(&test.package, &test.name);
    match bench.fresh().eval_rule(path) {
        Ok(value) if value == Value::from(true) => test.case(Outcome::Passed, ""),
        Ok(value) => {
            let what = if value == Value::Undefined {
                "it is undefined".to_owned()
            } else {
                format!("it is {}, and only `true` passes", short(&explain::json(&value)))
            };
            explained(bench, modules, test, test.case(Outcome::Failed, what))
        }
        Err(error) => {
            let (file, line, column, message) = read_engine_message(&error.to_string());
            let at = if line == 0 { String::new() } else { format!("{file}:{line}:{column}: ") };
            let case = test.case(Outcome::Error, format!("{at}{message}"));
            explained(bench, modules, test, case)
        }
    }
}

/// The same failure, with its failing condition, the input of that condition and the rules' values.
fn explained(bench: &Bench, modules: &[Ref<Module>], test: &Test<'_>, mut case: Case) -> Case {
    let prober = Prober::new(&bench.engine, None);
    let tracer = RuleTracer::new(&prober, modules);
    for (module, rule) in &test.rules {
        let Rule::Spec { bodies, .. } = rule.as_ref() else { continue };
        for body in bodies {
            let (conditions, _) = tracer.conditions(module, &body.query, 0);
            let at = conditions.iter().position(|c| c.holds == Some(false) || c.failed.is_some());
            let Some((at, stopped)) = at.and_then(|at| Some((at, conditions.get(at)?))) else {
                continue;
            };
            let before = body.query.stmts.iter().take(at).map(|stmt| source::text(&stmt.span));
            let before = before.collect::<Vec<_>>().join("\n");
            let stmt = body.query.stmts.get(at);
            let input = stmt.and_then(|stmt| tracer.input_of(module, &before, stmt));
            let input: Option<Json> = input.as_ref().map(explain::json);
            stopped.place.clone_into(&mut case.place);
            case.details.extend(input.iter().map(|input| format!("input {}", short(input))));
            case.details.extend(condition_lines(std::slice::from_ref(stopped)));
            case.input = case.input.or(input);
        }
    }
    case
}
