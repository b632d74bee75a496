//! `wicketgate policy test`.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use regex::Regex;
use serde_json::{Value, json};

use crate::cli::{Exit, FileError, fail, note, present, say, say_json};
use crate::policy::fault::LoadError;
use crate::policy::testing::{
    self, Case, Coverage, Outcome, Report, TestOptions, changed_at, junit,
};

/// Between two looks at the files.
const LOOK: Duration = Duration::from_millis(300);

/// `policy test`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Directories of bundles
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Run only the tests whose name matches this regular expression
    #[arg(long, alias = "run", value_name = "REGEX")]
    filter: Option<Regex>,
    /// Print which rules fired in no test
    #[arg(long)]
    coverage: bool,
    /// Fail if fewer than this percentage of the rules fired, and print which did not
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100))]
    coverage_min: Option<u8>,
    /// Print one JSON object
    #[arg(long, conflicts_with = "watch")]
    json: bool,
    /// Also write the report as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Print every test, including those that passed
    #[arg(long, short)]
    verbose: bool,
    /// Run again whenever a file in the directories changes, until interrupted
    #[arg(long)]
    watch: bool,
}

/// The result of the tests of one directory.
type TestResult = Result<Report, Vec<LoadError>>;

/// Runs the tests.
pub fn run(args: &Args) -> Exit {
    if !args.watch {
        return once(args);
    }
    let seen = |dirs: &[PathBuf]| dirs.iter().map(|dir| changed_at(dir)).collect::<Vec<_>>();
    // No sender uses this channel: its receive timeout is the pause between two looks.
    let (_never, pause) = mpsc::channel::<()>();
    loop {
        let before = seen(&args.dirs);
        once(args);
        say("watching");
        while seen(&args.dirs) == before {
            if pause.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Disconnected) {
                return Exit::Ok;
            }
        }
    }
}

fn once(args: &Args) -> Exit {
    let coverage = args.coverage || args.coverage_min.is_some();
    let options = TestOptions { only: args.filter.clone(), coverage };
    let done: Vec<(&Path, TestResult)> =
        args.dirs.iter().map(|dir| (dir.as_path(), testing::run(dir, &options))).collect();
    let mut exit = Exit::Ok;
    for (dir, done) in &done {
        match done {
            Ok(report) => {
                if !report.passed() || !covered(args, report) {
                    exit = Exit::Invalid;
                }
                if !args.json {
                    print(args, dir, report);
                }
            }
            Err(errors) => {
                exit = Exit::Invalid;
                let lines = errors.iter().map(|e| format!("{}: {e}", dir.display()));
                lines.for_each(note);
            }
        }
    }
    if args.json {
        let bundles: Vec<Value> = done.iter().map(|(dir, done)| facts(args, dir, done)).collect();
        let ok = exit == Exit::Ok;
        say_json(json!({"v": "wicketgate/policy-test/1", "ok": ok, "bundles": bundles}));
    }
    if let Some(file) = &args.junit {
        let reports: Vec<Report> = done.into_iter().filter_map(|(_, done)| done.ok()).collect();
        if let Err(e) = std::fs::write(file, junit(&reports)) {
            return fail(Exit::Invalid, FileError::at(file)(e));
        }
    }
    exit
}

/// Whether enough rules fired.
fn covered(args: &Args, report: &Report) -> bool {
    let percent = report.coverage.as_ref().map_or(100, Coverage::percent);
    args.coverage_min.is_none_or(|least| percent >= usize::from(least))
}

fn print(args: &Args, dir: &Path, report: &Report) {
    for case in &report.cases {
        if case.outcome == Outcome::Passed && !args.verbose {
            continue;
        }
        let Case { name, place, outcome, message, details, .. } = case;
        let message = if message.is_empty() { String::new() } else { format!(": {message}") };
        say(format!("{:<7} {place} {name}{message}", outcome.as_str()));
        details.iter().for_each(|line| say(format!("          {line}")));
    }
    if let Some(coverage) = &report.coverage {
        for one in &coverage.uncovered {
            say(format!("uncovered {} {}", one.place, one.rule));
        }
        let Coverage { rules, fired, .. } = coverage;
        say(format!("{fired} of {rules} rules fired ({} %)", coverage.percent()));
    }
    let count = |outcome| report.count(outcome);
    let mut line = format!("{}: {} passed", dir.display(), count(Outcome::Passed));
    for outcome in [Outcome::Failed, Outcome::Error, Outcome::Skipped] {
        if count(outcome) > 0 {
            line.push_str(&format!(", {} {}", count(outcome), outcome.as_str()));
        }
    }
    if report.cases.is_empty() {
        line.push_str(": there is no test");
    }
    say(line);
}

fn facts(args: &Args, dir: &Path, done: &TestResult) -> Value {
    let dir = dir.display().to_string();
    let report = match done {
        Ok(report) => report,
        Err(errors) => {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return json!({"dir": dir, "errors": errors, "ok": false});
        }
    };
    present(json!({
        "dir": dir,
        "bundle": report.bundle,
        "ok": report.passed() && covered(args, report),
        "tests": report.cases.iter().map(case_facts).collect::<Vec<_>>(),
        "passed": report.count(Outcome::Passed),
        "failed": report.count(Outcome::Failed),
        "error": report.count(Outcome::Error),
        "skipped": report.count(Outcome::Skipped),
        "coverage": report.coverage.as_ref().map(coverage_facts),
    }))
}

fn case_facts(case: &Case) -> Value {
    present(json!({
        "name": case.name,
        "place": case.place,
        "outcome": case.outcome.as_str(),
        "message": case.message,
        "details": case.details,
        "input": case.input,
    }))
}

fn coverage_facts(coverage: &Coverage) -> Value {
    let uncovered = coverage.uncovered.iter();
    let uncovered = uncovered.map(|one| json!({"place": one.place, "rule": one.rule}));
    json!({
        "rules": coverage.rules,
        "fired": coverage.fired,
        "percent": coverage.percent(),
        "uncovered": uncovered.collect::<Vec<_>>(),
    })
}
