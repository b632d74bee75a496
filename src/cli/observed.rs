//! `wicketgate policy observed`: the calls that enforcement would have refused, rule by rule.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::argument::ArgumentError;
use super::error::LookupError;
use super::reader::{self, LedgerSource};
use super::{Exit, Failure, note, output, say, wait};
use crate::clock::{Clock as _, SystemClock};
use crate::domain::id::RunId;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::evidence::observations::{FindingKey, ObservationReport, RuleFindings};
use crate::ledger::store::{EntryRow, LedgerReader, StoreError};
use crate::record::Entry;

/// Entries read at once.
const PAGE: u32 = 1000;

/// `policy observed`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate policy observed --config wicketgate.yaml --since 7d")]
pub struct Args {
    #[command(flatten)]
    source: LedgerSource,
    /// Run to report on; if omitted, every run
    #[arg(long, value_name = "ID", value_parser = super::evidence::run_id)]
    run: Option<RunId>,
    /// Only decisions since this time (`2026-11-20T00:00:00Z`), or of the last `90m`, `24h` or `7d`
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<StartingPoint>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// From when on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StartingPoint {
    At(Timestamp),
    Ago(std::time::Duration),
}

impl StartingPoint {
    pub(super) fn instant(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(at) => at,
            Self::Ago(long) => {
                let long = i64::try_from(long.as_millis()).unwrap_or(i64::MAX);
                Timestamp::from_millis(now.millis().saturating_sub(long))
            }
        }
    }
}

/// Reads a time or a duration.
pub(super) fn since(text: &str) -> Result<StartingPoint, ArgumentError> {
    if let Ok(at) = text.parse::<jiff::Timestamp>() {
        return Ok(StartingPoint::At(Timestamp::from_millis(at.as_millisecond())));
    }
    let unit = text.chars().last().ok_or(ArgumentError::Since)?;
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<u64>().ok());
    let number = number.ok_or(ArgumentError::Since)?;
    let seconds = match unit {
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(ArgumentError::Since),
    };
    Ok(StartingPoint::Ago(std::time::Duration::from_secs(number.saturating_mul(seconds))))
}

/// `42 calls, 1 denied, 3 would have been denied (agent/review.rego:15 ×3)`.
fn short(report: &ObservationReport) -> String {
    let calls = if report.decided == 1 { "call" } else { "calls" };
    let mut line = format!("{} {calls}", report.decided);
    if report.refused > 0 {
        line.push_str(&format!(", {} denied", report.refused));
    }
    let would = report.denied.saturating_add(report.held);
    if would == 0 {
        return line;
    }
    let mut places: BTreeMap<&str, u64> = BTreeMap::new();
    for ((rule, ..), found) in &report.rules {
        // File and line, where known, are more precise than the rule's name.
        let place = rule.rsplit(' ').next().unwrap_or(rule);
        let count = places.entry(place).or_default();
        *count = count.saturating_add(found.count);
    }
    let places: Vec<String> =
        places.iter().map(|(place, count)| format!("{place} ×{count}")).collect();
    line.push_str(&format!(", {would} would have been denied ({})", places.join(", ")));
    line
}

/// As `--json` prints it.
fn facts(report: &ObservationReport) -> Value {
    let rule = |((rule, tool, verdict), found): (&FindingKey, &RuleFindings)| {
        let examples = found.examples.iter().map(|(run, call)| json!({"run": run, "call": call}));
        json!({
            "rule": rule,
            "tool": tool,
            "verdict": verdict,
            "message": found.message,
            "count": found.count,
            "first": found.first,
            "last": found.last,
            "examples": examples.collect::<Vec<_>>(),
        })
    };
    json!({
        "v": "wicketgate/observed/1",
        "decided": report.decided,
        "denied": report.denied,
        "held": report.held,
        "rules": report.sorted().into_iter().map(rule).collect::<Vec<_>>(),
    })
}

fn print_report(report: &ObservationReport) {
    let ObservationReport { decided, denied, held, .. } = report;
    if *denied == 0 && *held == 0 {
        say(format!("{} decided, and every decision was enforced", many(decided, "call")));
        return;
    }
    say(format!(
        "of {}, enforcement would have denied {denied} and held {held} that ran",
        many(decided, "call")
    ));
    for ((rule, tool, verdict), found) in report.sorted() {
        let RuleFindings { message, count, first, last, examples } = found;
        say(format!("\n{count:>6}  {verdict}  {tool}\n        {rule}: {}", plain(message)));
        let calls: Vec<&str> = examples.iter().map(|(_, call)| call.as_str()).collect();
        let more = if *count > calls.len() as u64 { ", …" } else { "" };
        say(format!("        calls {}{more}; first {first}, last {last}", calls.join(", ")));
    }
}

/// What a policy wrote may not steer the terminal.
pub(super) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

/// Runs the command.
pub fn run(args: &Args) -> Exit {
    wait(print(args))
}

async fn print(args: &Args) -> Result<Exit, Failure> {
    let report = read(args).await?;
    output::report(facts(&report), || print_report(&report));
    if report.unread > 0 {
        note(format!(
            "{} could not be read: see `wicketgate ledger verify`",
            many(report.unread, "entry")
        ));
    }
    Ok(Exit::Ok)
}

/// What was decided since then in a SQLite ledger, in one line.
///
/// # Errors
/// The ledger cannot be read.
pub(super) async fn line(ledger: &std::path::Path, from: Timestamp) -> Result<String, Failure> {
    let source =
        LedgerSource { config: None, sqlite: Some(ledger.to_owned()), postgres_url_file: None };
    let reader = reader::open_reader(&source).await?;
    let mut report = ObservationReport::default();
    let wanted = |entry: &Entry| entry.ts >= from;
    every_entry(reader.as_ref(), |row| report.take(row, &wanted)).await?;
    Ok(short(&report))
}

async fn read(args: &Args) -> Result<ObservationReport, Failure> {
    let reader = reader::open_reader(&args.source).await?;
    let from = args.since.map(|since| since.instant(SystemClock::new().now()));
    let wanted = |entry: &Entry| from.is_none_or(|from| entry.ts >= from);
    let mut report = ObservationReport::default();
    if let Some(run) = &args.run {
        let found = reader.find_run(run).await?;
        let chain = found.ok_or_else(|| Failure::usage(LookupError::Run(*run)))?;
        let rows = reader.run_entries(&chain, run).await?;
        rows.iter().for_each(|row| report.take(row, &wanted));
        return Ok(report);
    }
    every_entry(reader.as_ref(), |row| report.take(row, &wanted)).await?;
    Ok(report)
}

async fn every_entry(
    reader: &dyn LedgerReader,
    mut take: impl FnMut(&EntryRow),
) -> Result<(), StoreError> {
    for chain in reader.chains().await? {
        let mut from = 0;
        while from < chain.head.size {
            let rows = reader.entries(&chain.chain, from, PAGE).await?;
            let Some(last) = rows.last() else { break };
            from = last.seq.saturating_add(1);
            rows.iter().for_each(&mut take);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn since_is_a_time_or_a_duration() {
        let now = Timestamp::parse("2026-11-22T12:00:00.000Z").unwrap();
        let at = |text: &str| since(text).unwrap().instant(now).to_string();
        assert_eq!(at("2026-11-20T00:00:00Z"), "2026-11-20T00:00:00.000Z");
        assert_eq!(at("90m"), "2026-11-22T10:30:00.000Z");
        assert_eq!(at("7d"), "2026-11-15T12:00:00.000Z");
        for text in ["", "d", "7", "7w", "-1h", "7é", "yesterday"] {
            assert!(since(text).is_err(), "{text}");
        }
    }
}
