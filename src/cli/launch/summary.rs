//! What became of the calls of a run, for the person who ran the agent.

use std::collections::BTreeMap;
use std::path::Path;

use crate::cli::{note, reader};
use crate::config::{Config, Ledger};
use crate::domain::id::RunId;
use crate::domain::plural::many;
use crate::ledger::store::StoreError;
use crate::operator::visible;
use crate::record::{Entry, Kind};

/// Denied and held calls that are shown one by one.
const SHOWN_MAX: usize = 10;

/// Why the calls of a run are not shown.
#[derive(Debug, thiserror::Error)]
enum Unread {
    /// The ledger cannot be opened.
    #[error(transparent)]
    Open(#[from] reader::Error),
    /// The ledger cannot be read.
    #[error("{}", .0.reason())]
    Read(#[from] StoreError),
    /// The gate's login does not read.
    #[error("the ledger is in Postgres, and `hub.reader_url_file` names no login that may read it")]
    NoLogin,
}

/// Prints what was allowed, denied and held, and where to look further.
pub(super) async fn print((path, config): (&Path, &Config), run: &RunId) {
    match entries(config, run).await {
        Ok(entries) => calls(&entries),
        Err(why) => note(format!("calls      not shown: {why}")),
    }
    let listen = config.operator.listen;
    if config.console.settings(&config.operator).is_some() && listen.port() != 0 {
        let origin = config.console.origins.first().cloned();
        let origin = origin.unwrap_or_else(|| format!("http://{listen}"));
        note(format!("console    {origin}/console/runs/{run}, while the gate runs"));
    }
    note(format!("more       wicketgate run show {run} --config {}", path.display()));
}

async fn entries(config: &Config, run: &RunId) -> Result<Vec<Entry>, Unread> {
    let place = match &config.ledger {
        Ledger::Sqlite(sqlite) => reader::LedgerLocation::Sqlite(&sqlite.path),
        Ledger::Postgres(_) => match &config.hub.reader_url_file {
            Some(file) => reader::LedgerLocation::PostgresUrlFile(file),
            None => return Err(Unread::NoLogin),
        },
    };
    let reader = reader::open_place(place).await?;
    let Some(chain) = reader.find_run(run).await? else { return Ok(Vec::new()) };
    let rows = reader.run_entries(&chain, run).await?;
    Ok(rows.iter().filter_map(|row| Entry::parse(&row.body).ok()).collect())
}

fn calls(entries: &[Entry]) {
    let mut counts = BTreeMap::new();
    for entry in entries {
        let count: &mut usize = counts.entry(entry.draft.kind().as_str()).or_default();
        *count = count.saturating_add(1);
    }
    let of = |kind: Kind| counts.get(kind.as_str()).copied().unwrap_or_default();
    let failed = of(Kind::CallFailed).saturating_add(of(Kind::CallUnknown));
    let allowed = many(of(Kind::CallAuthorized), "call");
    let (denied, held) = (of(Kind::CallDenied), of(Kind::CallHeld));
    note(format!("calls      {allowed} allowed, {denied} denied, {held} held, {failed} failed"));
    let stopped = |entry: &&Entry| matches!(entry.draft.kind(), Kind::CallDenied | Kind::CallHeld);
    let shown: Vec<&Entry> = entries.iter().filter(stopped).collect();
    shown.iter().take(SHOWN_MAX).for_each(|entry| note(line(entry)));
    let more = shown.len().saturating_sub(SHOWN_MAX);
    if more > 0 {
        note(format!("           and {more} more"));
    }
}

/// One call that did not run at once: its tool, and why.
fn line(entry: &Entry) -> String {
    let what = if entry.draft.kind() == Kind::CallHeld { "held" } else { "denied" };
    let tool = entry.draft.tool.as_ref().map(ToString::to_string).unwrap_or_default();
    let decision = entry.draft.body.decision();
    let first = decision.as_ref().and_then(|decision| decision.reasons.first());
    let why = first.map_or_else(String::new, |reason| {
        let detail = if reason.detail.is_empty() { &reason.code } else { &reason.detail };
        let message = visible(&reason.message);
        format!("{}: {message}", visible(detail))
    });
    format!("{what:<10} {} {why}", visible(&tool))
}
