//! Explains missing entries: the fleet log records every pruning, with the root that identifies the
//! archive of the pruned entries.

use super::{Error, fleet, gather};
use crate::domain::id::Seq;
use crate::domain::plural::many;
use crate::ledger::store::{ChainRow, LedgerReader};
use crate::ledger::verify::EntryLine;
use crate::record::Kind;
use crate::record::payload::RetentionPruned;

/// The most prunings that a message names.
const TOLD_MAX: usize = 4;

/// The same error, with the prunings that may be its cause, if the tenant's fleet logs record any.
pub async fn explained(
    reader: &dyn LedgerReader,
    tenant: &str,
    chains: &[ChainRow],
    error: Error,
) -> Error {
    let about = if let Error::Pruned { log, from, to } = &error {
        Some((log.clone(), *from, *to))
    } else {
        None
    };
    // Pruning does not cause other errors.
    if about.is_none() && !matches!(error, Error::NoRun(_)) {
        return error;
    }
    // An unreadable fleet log must not replace the error that the caller asked about.
    let Ok(records) = records(reader, tenant, chains).await else { return error };
    let wanted = |record: &&Record| {
        about.as_ref().is_none_or(|(log, from, to)| {
            // A request for a single entry has equal ends.
            let to = from.saturating_add(1).max(*to);
            record.log == *log && record.from < to && *from < record.to
        })
    };
    let records: Vec<&Record> = records.iter().filter(wanted).collect();
    let Some(more) = records.len().checked_sub(1) else { return error };
    let mut shown: Vec<String> =
        records.iter().rev().take(TOLD_MAX).map(|record| record.text()).collect();
    if more >= TOLD_MAX {
        let earlier = records.len().saturating_sub(TOLD_MAX);
        shown.push(format!("{} before", many(earlier, "pruning")));
    }
    let gone = if let Error::NoRun(run) = &error {
        format!("no run `{run}` in this ledger: it never was, or was pruned with others")
    } else {
        error.to_string()
    };
    Error::Gone { gone, pruned: shown.join("; ") }
}

/// One `retention.pruned`.
struct Record {
    log: String,
    from: Seq,
    to: Seq,
    root: String,
    by: String,
    at: String,
    /// Its place.
    seq: Seq,
}

impl Record {
    fn of(line: &EntryLine) -> Option<Self> {
        let RetentionPruned { by, from, log, root, to } = line.get()?;
        Some(Self {
            log: log.to_string(),
            from: from.get(),
            to: to.get(),
            root: root.to_string(),
            by: by.to_string(),
            at: line.entry.ts.to_string(),
            seq: line.entry.seq,
        })
    }

    fn text(&self) -> String {
        let Self { log, from, to, root, by, at, seq } = self;
        format!(
            "entries {from}..{to} of `{log}` were pruned at {at} by `{by}` (its entry {seq}), once an archive \
             was found to hold them: that whose first {to} entries have the root {root}"
        )
    }
}

async fn records(
    reader: &dyn LedgerReader,
    tenant: &str,
    chains: &[ChainRow],
) -> Result<Vec<Record>, Error> {
    let mut records = Vec::new();
    for row in chains.iter().filter(|row| fleet::number(row, tenant).is_some()) {
        let rows = reader.entries_of(&row.chain, &[Kind::RetentionPruned.as_str()]).await?;
        records.extend(gather::read(&rows)?.iter().filter_map(Record::of));
    }
    Ok(records)
}
