//! `wicketgate policy test`.

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use regex::Regex;

use crate::cli::{Exit, FileError, fail, note, say};
use crate::domain::canonical;
use crate::domain::json::Json;
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
                let told = errors.iter().map(|e| format!("{}: {e}", dir.display()));
                told.for_each(note);
            }
        }
    }
    if args.json {
        let dirs: Vec<Json> = done.iter().map(|(dir, done)| to_json(args, dir, done)).collect();
        say(canonical::text(&Json::object([
            ("v", Json::from("wicketgate/policy-test/1")),
            ("ok", Json::from(exit == Exit::Ok)),
            ("bundles", dirs.into()),
        ])));
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

fn to_json(args: &Args, dir: &Path, done: &TestResult) -> Json {
    let dir = ("dir", Json::from(dir.display().to_string()));
    let report = match done {
        Ok(report) => report,
        Err(errors) => {
            let errors: Vec<Json> = errors.iter().map(|e| Json::from(e.to_string())).collect();
            return Json::object([dir, ("errors", errors.into()), ("ok", Json::from(false))]);
        }
    };
    let ok = report.passed() && covered(args, report);
    let mut members = vec![
        dir,
        ("bundle", Json::from(report.bundle.as_str())),
        ("ok", Json::from(ok)),
        ("tests", report.cases.iter().map(case_json).collect::<Vec<_>>().into()),
    ];
    for (name, outcome) in [
        ("passed", Outcome::Passed),
        ("failed", Outcome::Failed),
        ("error", Outcome::Error),
        ("skipped", Outcome::Skipped),
    ] {
        members.push((name, number(report.count(outcome))));
    }
    members.extend(report.coverage.as_ref().map(|coverage| ("coverage", coverage_json(coverage))));
    Json::object(members)
}

fn number(count: usize) -> Json {
    Json::from(u64::try_from(count).unwrap_or(u64::MAX))
}

fn case_json(case: &Case) -> Json {
    let details = case.details.iter().map(|line| Json::from(line.as_str())).collect::<Vec<_>>();
    let mut members = vec![
        ("name", Json::from(case.name.as_str())),
        ("place", Json::from(case.place.as_str())),
        ("outcome", Json::from(case.outcome.as_str())),
        ("message", Json::from(case.message.as_str())),
        ("details", details.into()),
    ];
    members.extend(case.input.clone().map(|input| ("input", input)));
    Json::object(members)
}

fn coverage_json(coverage: &Coverage) -> Json {
    let one = |rule: &testing::Uncovered| {
        Json::object([
            ("place", Json::from(rule.place.as_str())),
            ("rule", Json::from(rule.rule.as_str())),
        ])
    };
    Json::object([
        ("rules", number(coverage.rules)),
        ("fired", number(coverage.fired)),
        ("percent", number(coverage.percent())),
        ("uncovered", coverage.uncovered.iter().map(one).collect::<Vec<_>>().into()),
    ])
}
