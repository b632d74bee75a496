//! `wicketgate policy learn`: held calls that people decide alike, and the rule that would decide them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::archive::{free, write_all};
use super::bundles;
use crate::cli::progress::Progress;
use crate::cli::reader::{self, LedgerSource};
use crate::cli::{Exit, Failure, FileError, ended, note, runtime, say, write_new};
use crate::clock::{Clock as _, SystemClock};
use crate::crypto::keys::SecretKey;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::evidence::backtest::{self, BacktestQuery, Baseline, Candidate, Comparison, statement};
use crate::evidence::holds::{self, HoldReport};
use crate::ledger::store::LedgerReader;
use crate::ledger::vault::Vault;
use crate::operator::standing::pattern_lines;
use crate::operator::visible;
use crate::policy::bundle::Bundle;
use crate::policy::learn::{HoldPattern, LearnedFiles, learned};
use crate::policy::lint::{Level, Surroundings, lint};
use crate::policy::testing::{self, TestOptions};

/// Days that a learned rule is in force at most.
const DAYS_MAX: u64 = 90;
/// Seconds of a day.
const DAY: u64 = 86_400;

/// Find held calls that people decide alike, and write the rule that would decide them.
///
/// Twenty equal decisions by two people make a pattern, unless one of the last 90 days differs. Without `--pattern`, the
/// patterns are listed. With it, the rule is tried on every recorded input and written into a copy of the bundle, with
/// tests and a backtest; it changes nothing until that bundle is signed, proposed, approved and activated.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate policy learn --config wicketgate.yaml\n  \
    wicketgate policy learn --config wicketgate.yaml --pattern 3fa94c0d11be --bundle policy --out policy-learned \\\n    \
        --key audit.pem")]
pub struct Args {
    #[command(flatten)]
    ledger: LedgerSource,
    /// Write the rule of this pattern
    #[arg(long, value_name = "ID", requires_all = ["bundle", "out"])]
    pattern: Option<String>,
    /// The bundle in force: its directory
    #[arg(long, value_name = "DIR", requires = "pattern")]
    bundle: Option<PathBuf>,
    /// Write the changed bundle to this directory; it must be empty or not exist
    #[arg(long, value_name = "PATH", requires = "pattern")]
    out: Option<PathBuf>,
    /// Days until the rule ends
    #[arg(long, value_name = "N", default_value_t = DAYS_MAX, value_parser = clap::value_parser!(u64).range(1..=DAYS_MAX))]
    days: u64,
    /// Sign the backtest with this secret key (PKCS#8 PEM): `<out>.backtest.dsse.json`
    #[arg(long, value_name = "KEY", requires = "pattern")]
    key: Option<PathBuf>,
    /// Print one JSON object: the answer of `GET /v1/patterns`
    #[arg(long, conflicts_with = "pattern")]
    json: bool,
}

/// What the rule is not written for.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// No such pattern is open.
    #[error("no pattern `{0}` is open: `wicketgate policy learn` lists them")]
    Unknown(String),
    /// The changed bundle has a finding that keeps it out of force.
    #[error("the changed bundle does not pass the lints: {0}")]
    Lint(String),
    /// A test of the changed bundle fails.
    #[error("a test of the changed bundle fails: {0}")]
    Test(String),
    /// The tests do not load.
    #[error("the tests of the changed bundle do not load: {0}")]
    Tests(String),
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    ended(learn(args))
}

fn learn(args: &Args) -> Result<Exit, Failure> {
    let runtime = runtime()?;
    let vault = match &args.ledger.config {
        Some(path) => reader::configuration(path)
            .map_err(Failure::config)?
            .vault()
            .map_err(Failure::config)?,
        None => None,
    };
    let now = SystemClock::new().now();
    let ledger = runtime.block_on(reader::open_reader(&args.ledger)).map_err(Failure::from)?;
    let found = holds::patterns((&*ledger, vault.as_deref()), None, (now, u64::MAX));
    let found = runtime.block_on(found).map_err(Failure::unverifiable)?;
    let Some(id) = &args.pattern else {
        list(args, found);
        return Ok(Exit::Ok);
    };
    let pattern = found.found.patterns.into_iter().find(|one| one.id == *id);
    let pattern = pattern.ok_or_else(|| Failure::usage(Error::Unknown(id.clone())))?;
    // Clap guarantees both.
    let (Some(from), Some(out)) = (&args.bundle, &args.out) else { return Ok(Exit::Usage) };
    free(out).map_err(Failure::usage)?;
    let bundle = bundles::read(from).map_err(Failure::invalid)?;
    let not_after = now.plus(Duration::from_secs(args.days.saturating_mul(DAY)));
    let made = learned(&bundle, &pattern, not_after).map_err(Failure::invalid)?;
    passes_lints(&bundle, &made)?;
    write(from, out, &made)?;
    passes_tests(out)?;
    made.rule.lines().for_each(|line| say(visible(&line.replace('\t', "    "))));
    note(format!("wrote {}: read the rule and its tests before you sign them", out.display()));
    if let Some(key) = &args.key {
        let read = (&runtime, &*ledger, vault.as_deref());
        let signed = backtested(read, (&pattern, &made.bundle), (key, out), now)?;
        note(format!("signed: {}", signed.display()));
    }
    let shown = out.display();
    note(format!(
        "next: wicketgate policy sign {shown} --key KEY; wicketgate policy propose --bundle {shown} --reason WHY --token-file TOKEN"
    ));
    Ok(Exit::Ok)
}

fn list(args: &Args, found: HoldReport) {
    let found = pattern_lines(found);
    if args.json {
        say(serde_json::to_value(&found).unwrap_or_default().to_string());
        return;
    }
    for one in &found.patterns {
        let done = if one.decision == "approve" { "approved" } else { "refused" };
        say(visible(&format!(
            "{}  {}  {}  {done} {} by {}; held by {}; open until {}",
            one.id,
            one.tool,
            one.agent,
            many(one.decisions, "time"),
            one.people.join(", "),
            one.rules.join(", "),
            one.until
        )));
    }
    if found.patterns.is_empty() {
        note("no pattern: people decided no kind of call alike often enough");
    }
    if found.more > 0 {
        note(format!("{} more are not listed", many(found.more, "pattern")));
    }
    for lack in &found.lacking {
        note(visible(&format!("no pattern: {} by {}: {}", lack.tool, lack.agent, lack.why)));
    }
}

/// Refuses a bundle with a lint error that the bundle before did not have.
fn passes_lints(before: &Bundle, made: &LearnedFiles) -> Result<(), Failure> {
    let surroundings = Surroundings { tools: &[], approvers: usize::MAX, webhook: false };
    let old = lint(before, &surroundings);
    let known = |code: &str, message: &str| {
        old.iter().any(|other| other.code == code && other.message == message)
    };
    let findings = lint(&made.bundle, &surroundings).into_iter();
    let mut new =
        findings.filter(|one| one.level == Level::Error && !known(one.code, &one.message));
    new.next().map_or(Ok(()), |one| Err(Failure::invalid(Error::Lint(one.to_string()))))
}

fn passes_tests(dir: &Path) -> Result<(), Failure> {
    let report = testing::run(dir, &TestOptions::default()).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::invalid(Error::Tests(lines.join("; ")))
    })?;
    if report.passed() {
        note(format!("tested: {} passed", many(report.cases.len(), "test")));
        return Ok(());
    }
    let failed = report.cases.iter().find(|case| !case.message.is_empty());
    let failed = failed.map(|case| format!("{}: {}", case.name, case.message));
    Err(Failure::invalid(Error::Test(failed.unwrap_or_default())))
}

/// A copy of the bundle's directory without its signature, with the changed files.
fn write(from: &Path, out: &Path, made: &LearnedFiles) -> Result<(), Failure> {
    let mut files = BTreeMap::new();
    if from.is_dir() {
        gather(from, from, &mut files).map_err(Failure::unverifiable)?;
    } else {
        files.extend(
            made.bundle.as_written().map(|(name, bytes)| (name.to_owned(), bytes.to_vec())),
        );
    }
    files.remove("bundle.sig.json");
    files.extend(made.files.clone());
    write_all(out, &files)
}

fn gather(root: &Path, dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), FileError> {
    for entry in std::fs::read_dir(dir).map_err(FileError::at(dir))? {
        let path = entry.map_err(FileError::at(dir))?.path();
        if path.is_dir() {
            gather(root, &path, files)?;
        } else if let Some(name) = path.strip_prefix(root).ok().and_then(Path::to_str) {
            files.insert(name.to_owned(), std::fs::read(&path).map_err(FileError::at(&path))?);
        }
    }
    Ok(())
}

/// What the changed bundle would have decided otherwise about the calls of this agent and tool, signed.
fn backtested(
    (runtime, ledger, vault): (&tokio::runtime::Runtime, &dyn LedgerReader, Option<&Vault>),
    (pattern, bundle): (&HoldPattern, &Bundle),
    (key, out): (&Path, &Path),
    now: Timestamp,
) -> Result<PathBuf, Failure> {
    let key = SecretKey::load(key).map_err(Failure::unverifiable)?;
    let new = Candidate::new(bundle).map_err(Failure::invalid)?;
    let query = BacktestQuery {
        since: pattern.span().map(|(first, _)| first),
        agent: Some(pattern.agent.clone()),
        ..BacktestQuery::default()
    };
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let bench = Comparison { new: &new, old: Baseline::Recorded, vault, jobs };
    let progress = Progress::new("backtest");
    let sink = &mut std::io::sink();
    let found = backtest::run(runtime, ledger, &query, &bench, (&progress, sink));
    drop(progress);
    let found = found.map_err(Failure::unverifiable)?;
    let predicate = statement::predicate(&query, &bench, &found, now);
    let mut name = out.as_os_str().to_owned();
    name.push(".backtest.dsse.json");
    let file = PathBuf::from(name);
    let signed = statement::sign(predicate, &new.digest(), &key);
    write_new(&file, &signed).map_err(Failure::unverifiable)?;
    Ok(file)
}
