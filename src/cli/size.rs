//! `wicketgate ledger size`: the space that the given ledger needs, measured.

use serde_json::{Value, json};

use super::ledger::chains;
use super::reader::{self, LedgerSource};
use super::{Exit, Failure, present, report, say};
use crate::crypto::tiles;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::ledger::store::{ChainRow, LedgerReader, Volume};
use crate::record::Entry;

/// Milliseconds of a day.
const DAY: u64 = 86_400_000;
/// Entries read at a time when calls are counted.
const PAGE: u32 = 1000;

/// `ledger size`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    wicketgate ledger size --config wicketgate.yaml")]
pub struct Size {
    #[command(flatten)]
    source: LedgerSource,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was counted over all chains.
#[derive(Default)]
struct Counted {
    chains: u64,
    entries: u64,
    calls: u64,
    /// Milliseconds from the first entry to the last, summed over the chains.
    lived: u64,
    /// Bytes of all tiles and entry bundles, if they were archived.
    tiles: u64,
}

/// One line of the table.
struct SizeRow {
    what: &'static str,
    rows: u64,
    bytes: u64,
    disk: Option<u64>,
}

/// Counts and prints.
pub(super) async fn run(command: &Size) -> Result<Exit, Failure> {
    let reader = reader::open_reader(&command.source).await?;
    let volumes = reader.volumes().await?;
    let mut counted = Counted::default();
    for row in chains(reader.as_ref(), None).await? {
        count(reader.as_ref(), &row, &mut counted).await?;
    }
    let whole = volumes.iter().find(|v| v.what == "file").and_then(|v| v.disk);
    let mut lines: Vec<SizeRow> = volumes.iter().filter(|v| v.what != "file").map(line).collect();
    lines.push(SizeRow { what: "tiles, archived", rows: 0, bytes: counted.tiles, disk: None });
    report(facts(&lines, &counted, whole), || print(&lines, &counted, whole));
    Ok(Exit::Ok)
}

fn line(volume: &Volume) -> SizeRow {
    SizeRow { what: volume.what, rows: volume.rows, bytes: volume.bytes, disk: volume.disk }
}

async fn count(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    counted: &mut Counted,
) -> Result<(), Failure> {
    let mut from = 0;
    let (mut first, mut last): (Option<Timestamp>, Option<Timestamp>) = (None, None);
    let mut bodies = 0_u64;
    while from < row.head.size {
        let rows = reader.entries(&row.chain, from, PAGE).await?;
        let Some(end) = rows.last() else { break };
        from = end.seq.saturating_add(1);
        for entry in &rows {
            counted.entries = counted.entries.saturating_add(1);
            // Every call is decided or held exactly once, before its other entries.
            let decided = ["call.authorized", "call.denied"].contains(&entry.kind.as_str());
            counted.calls = counted.calls.saturating_add(u64::from(decided));
            let length = u64::try_from(entry.body.len()).unwrap_or(u64::MAX);
            bodies = bodies.saturating_add(length).saturating_add(2);
        }
        let time = |body: &[u8]| Entry::parse(body).ok().map(|entry| entry.ts);
        first = first.or_else(|| rows.first().and_then(|row| time(&row.body)));
        last = time(&end.body).or(last);
    }
    if let (Some(first), Some(last)) = (first, last) {
        let span_ms = last.millis().saturating_sub(first.millis());
        counted.lived = counted.lived.saturating_add(u64::try_from(span_ms).unwrap_or(0));
    }
    counted.chains = counted.chains.saturating_add(1);
    let hashes: u64 = tiles::places(row.head.size).map(|tile| tile.width(row.head.size)).sum();
    counted.tiles = counted.tiles.saturating_add(bodies).saturating_add(hashes.saturating_mul(32));
    Ok(())
}

/// `bytes` of `of` things, per thing; 0 for no things.
fn per(bytes: u64, of: u64) -> u64 {
    bytes.checked_div(of).unwrap_or(0)
}

/// Per chain and day at the rate observed; `None` if less than a minute was observed.
fn daily(bytes: u64, counted: &Counted) -> Option<u64> {
    let observed = counted.lived >= 60_000;
    let per_day = u128::from(bytes).saturating_mul(u128::from(DAY));
    let per_day = per_day.checked_div(u128::from(counted.lived)).filter(|_| observed)?;
    u64::try_from(per_day).ok()
}

fn facts(lines: &[SizeRow], counted: &Counted, whole: Option<u64>) -> Value {
    let row = |line: &SizeRow| {
        let day = daily(line.bytes, counted);
        present(json!({
            "what": line.what,
            "rows": line.rows,
            "bytes": line.bytes,
            "per_entry": per(line.bytes, counted.entries),
            "per_call": per(line.bytes, counted.calls),
            "disk": line.disk,
            "per_sidecar_and_day": day,
            "per_1000_sidecars_and_day": day.map(|day| day.saturating_mul(1000)),
        }))
    };
    present(json!({
        "chains": counted.chains,
        "entries": counted.entries,
        "calls": counted.calls,
        "observed_ms": counted.lived,
        "table": lines.iter().map(row).collect::<Vec<_>>(),
        "file": whole,
    }))
}

fn print(lines: &[SizeRow], counted: &Counted, whole: Option<u64>) {
    say(format!(
        "{}, {}, {}, {} s observed (summed over the chains)",
        many(counted.chains, "chain"),
        many(counted.entries, "entry"),
        many(counted.calls, "call"),
        counted.lived / 1000
    ));
    say(format!(
        "{:<16} {:>10} {:>14} {:>14} {:>10} {:>10} {:>16} {:>18}",
        "",
        "rows",
        "bytes",
        "on disk",
        "per entry",
        "per call",
        "sidecar and day",
        "1000 sidecars, day"
    ));
    let dash = || "-".to_owned();
    for line in lines {
        let day = daily(line.bytes, counted);
        let thousand = day.map(|day| day.saturating_mul(1000));
        say(format!(
            "{:<16} {:>10} {:>14} {:>14} {:>10} {:>10} {:>16} {:>18}",
            line.what,
            if line.rows == 0 && line.disk.is_none() { dash() } else { line.rows.to_string() },
            line.bytes,
            line.disk.map_or_else(dash, |disk| disk.to_string()),
            per(line.bytes, counted.entries),
            per(line.bytes, counted.calls),
            day.map_or_else(dash, |day| day.to_string()),
            thousand.map_or_else(dash, |day| day.to_string()),
        ));
    }
    if let Some(disk) = whole {
        let each = per(disk, counted.entries);
        say(format!("the file takes {disk} bytes, {each} per entry with everything in it"));
    }
    if daily(1, counted).is_none() {
        say("the entries span less than a minute: too little to estimate growth per day");
    }
}
