//! `policy test`: the tests of a bundle, run as stock OPA runs them, and its decision tables.
//!
//! ```text
//! *_test.rego             rules `test_…`: true passes, false and undefined fail; `todo_test_…` are skipped
//! tests/*.yaml, *.json    decision tables: an input, and the whole decision that is expected
//! tests/fixtures/x.json   data.fixtures.x, for both
//! ```
//!
//! The gate never reads `tests/`, and the digest excludes it. Tests may call only functions of the
//! bundle and admitted builtins, and a builtin that fails is an error, as on the road.

use std::path::Path;

use regex::Regex;
use regorus::unstable::{Module, Ref};
use regorus::{Engine, Value};

use super::bundle::{self, Bundle};
use super::fault::{LoadError, read_engine_message};
use super::{explain, layout, purity, rego, stock};
use crate::domain::canonical;
use crate::domain::json::Json;

mod coverage;
mod files;
mod junit;
mod rules;
pub mod sample;
mod table;

pub use coverage::{Coverage, Uncovered};
pub(super) use files::FIXTURES;
pub use files::changed_at;
pub use junit::junit;

/// The tests to run, and whether to count the rules they reach.
#[derive(Clone, Debug, Default)]
pub struct TestOptions {
    /// Only tests whose name (`wicketgate.agent_test.test_x`, `tests/refunds.yaml: a large one`) matches.
    pub only: Option<Regex>,
    /// Count which rules fired.
    pub coverage: bool,
}

crate::domain::closed::texts! {
    /// How one test ended.
    pub enum Outcome {
        /// It is true.
        Passed = "passed",
        /// It is false or undefined, or the decision is another.
        Failed = "failed",
        /// Evaluating it failed.
        Error = "error",
        /// `todo_test_…`.
        Skipped = "skipped",
    }
}

/// One test and how it ended.
#[derive(Clone, PartialEq, Debug)]
pub struct Case {
    /// `wicketgate.agent_test.test_x`, or the file of a table and the name of its case.
    pub name: String,
    /// `file:line`; of a table, the file.
    pub place: String,
    /// How it ended.
    pub outcome: Outcome,
    /// The expected and the actual result; empty for a test that passed.
    pub message: String,
    /// For a failed test: the conditions, the input and the rules' values, as lines for a person.
    pub details: Vec<String>,
    /// The input that the test used, where the runner can tell which.
    pub input: Option<Json>,
}

/// The results of one bundle's tests.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// Name and version of the bundle.
    pub bundle: String,
    /// Every test, in the order of files and lines.
    pub cases: Vec<Case>,
    /// The rules that fired, if coverage was requested.
    pub coverage: Option<Coverage>,
}

impl Report {
    /// Tests that ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.cases.iter().filter(|case| case.outcome == outcome).count()
    }

    /// Whether no test failed. A bundle without tests does not pass.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.count(Outcome::Passed) > 0
            && self.count(Outcome::Failed) == 0
            && self.count(Outcome::Error) == 0
    }
}

/// The fixtures beside a bundle, as one object.
///
/// # Errors
/// One of them does not load.
pub fn fixtures(dir: &Path) -> Result<Option<Json>, Vec<LoadError>> {
    files::read(dir).map(|files| files.fixtures)
}

/// The inputs of the decision tables beside a bundle, by the names of their cases.
///
/// # Errors
/// One of them does not load.
pub fn inputs(bundle: &Bundle, dir: &Path) -> Result<Vec<(String, Json)>, Vec<LoadError>> {
    table::inputs(bundle, &files::read(dir)?)
}

/// Runs the tests of the bundle in this directory.
///
/// # Errors
/// The bundle, one of its test files, tables or fixtures does not load.
pub fn run(dir: &Path, options: &TestOptions) -> Result<Report, Vec<LoadError>> {
    let bundle = Bundle::load(dir)?;
    let own = files::read(dir)?;
    let marks = coverage::Marks::of(bundle.modules());
    let bench = Bench::new(&bundle, own.fixtures.as_ref(), options.coverage.then_some(&marks))?;
    let mut cases = rules::run(&bench, options);
    cases.extend(table::run(&bundle, &bench, &own, options)?);
    let coverage = options.coverage.then(|| marks.report());
    Ok(Report { bundle: format!("{} {}", bundle.name(), bundle.version()), cases, coverage })
}

/// The rules, tests and data of a bundle, prepared for evaluation.
#[derive(Debug)]
pub(super) struct Bench {
    /// The prepared engine; each test clones it.
    pub engine: Engine,
    /// The rules and tests as their authors wrote them.
    pub modules: Vec<Ref<Module>>,
    /// The same with marked rules, if coverage is counted.
    marked: Option<Engine>,
}

impl Bench {
    fn new(
        bundle: &Bundle,
        fixtures: Option<&Json>,
        marks: Option<&coverage::Marks>,
    ) -> Result<Self, Vec<LoadError>> {
        let data = data(bundle, fixtures)?;
        let modules = parsed(bundle, None)?;
        let errors = purity::check_tests(&modules);
        if !errors.is_empty() {
            return Err(errors);
        }
        let engine = prepared(&modules, data.clone(), None)?;
        let marked = marks.map(|marks| prepared(&parsed(bundle, Some(marks))?, data, Some(marks)));
        Ok(Self { engine, modules, marked: marked.transpose()? })
    }

    /// A fresh engine for one test.
    fn fresh(&self) -> Engine {
        self.marked.as_ref().unwrap_or(&self.engine).clone()
    }
}

/// Rules and tests, marked where that is wanted.
fn parsed(
    bundle: &Bundle,
    marks: Option<&coverage::Marks>,
) -> Result<Vec<Ref<Module>>, Vec<LoadError>> {
    let mut engine = Engine::new();
    for (name, bytes) in bundle.files().iter().filter(|(name, _)| name.ends_with(".rego")) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let marked = marks.filter(|_| bundle::is_rule(name)).and_then(|m| m.marked(name, &text));
        engine.add_policy(name.clone(), marked.unwrap_or(text)).map_err(|e| failed(&e))?;
    }
    Ok(engine.get_modules().clone())
}

fn failed(e: &dyn std::fmt::Display) -> Vec<LoadError> {
    let (file, line, column, message) = read_engine_message(&e.to_string());
    vec![LoadError { file, line, column, code: "policy.test", message }]
}

/// Rules, tests and data, ready to be evaluated.
fn prepared(
    modules: &[Ref<Module>],
    data: Value,
    marks: Option<&coverage::Marks>,
) -> Result<Engine, Vec<LoadError>> {
    let (mut engine, _) = stock::engine(modules)?;
    engine.add_data(data).map_err(|e| failed(&e))?;
    if let Some(marks) = marks {
        marks.install(&mut engine).map_err(|e| failed(&e))?;
    }
    let mut engine = rego::engine(engine, rego::UNHURRIED).map_err(|e| failed(&e))?;
    // Report undefined names here and not in the first test.
    let entry = rego::DECISION.into();
    engine.compile_with_entrypoint(&entry).map_err(|e| failed(&e))?;
    Ok(engine)
}

/// The data of the bundle, and the fixtures as `data.fixtures`.
fn data(bundle: &Bundle, fixtures: Option<&Json>) -> Result<Value, Vec<LoadError>> {
    let error = |file: &str, why: &str| vec![LoadError::file("policy.data", file, why)];
    let Json::Object(mut data) = bundle.data_files() else { return Ok(Value::new_object()) };
    if let Some(fixtures) = fixtures {
        if data.contains_key(FIXTURES) {
            return Err(error("tests/fixtures", "the bundle has a `data/fixtures` of its own"));
        }
        data.insert(FIXTURES.to_owned(), fixtures.clone());
    }
    Value::from_json_str(&canonical::text(&Json::Object(data)))
        .map_err(|e| error("data", &e.to_string()))
}
