//! Which entries may be pruned: old enough, under no legal hold, of runs that are over, and never
//! the newest.

use crate::domain::digest::Digest;
use std::collections::{BTreeMap, BTreeSet};

use super::store::{ChainRow, LedgerReader, StoreError};
use super::verify::EntryLine;
use super::verify::fleet::is_fleet;
use crate::crypto::tiles::WIDTH;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::record::payload::{HoldLifted, HoldPlaced, RetentionPruned};
use crate::record::{Draft, Entry, HexDigest, Kind};

/// Rows read at a time.
const PAGE: u32 = 1000;

/// Why nothing is pruned.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ledger cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The rules forbid it.
    #[error("nothing is pruned: {0}")]
    Refused(String),
}

fn refused<T>(why: impl Into<String>) -> Result<T, Error> {
    Err(Error::Refused(why.into()))
}

/// What the operator asked to prune.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PruneRequest {
    /// Entries below this one.
    pub below: Option<Seq>,
    /// Entries written before.
    pub before: Option<Timestamp>,
    /// No entry that is younger than this.
    pub youngest: Timestamp,
}

/// The range to prune: both ends are multiples of 256.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PrunePlan {
    /// First entry.
    pub from: Seq,
    /// First entry to stay.
    pub to: Seq,
    /// Where the fleet log already records this pruning, if an earlier try was interrupted.
    pub recorded: Option<(ChainId, Seq)>,
}

/// Finds the range to prune.
///
/// # Errors
/// [`Error::Refused`] with the reason, or the ledger cannot be read.
pub async fn plan(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    asked: &PruneRequest,
) -> Result<PrunePlan, Error> {
    if is_fleet(row) {
        return refused("the fleet log keeps everything");
    }
    let fleet = FleetCoverage::read(reader, row).await?;
    if let Some(plan) = fleet.interrupted(reader, row).await? {
        fleet.free(reader, row, plan.to).await?;
        return Ok(plan);
    }
    // The last entry always stays, so that a writer finds the end of its chain.
    let mut to = asked.below.unwrap_or(row.head.size).min(row.head.size.saturating_sub(1));
    let limit = asked.before.map_or(asked.youngest, |before| before.min(asked.youngest));
    let scan = Scan::read(reader, row, fleet.pruned, to, limit).await?;
    to = scan.older;
    if let Some((run, first)) = scan.open.iter().min_by_key(|(_, first)| **first)
        && *first < to
    {
        if asked.below.is_some() {
            return refused(format!("run {run} began at entry {first} and is open"));
        }
        to = *first;
    }
    let to = to / WIDTH * WIDTH;
    fleet.free(reader, row, to).await?;
    if to <= fleet.pruned {
        return refused("no full tile of 256 entries is old enough");
    }
    Ok(PrunePlan { from: fleet.pruned, to, recorded: None })
}

/// Checks again that no legal hold covers the plan. The caller has the fleet log open, so no hold
/// can be placed in between.
///
/// # Errors
/// As [`plan`].
pub async fn still_free(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    plan: &PrunePlan,
) -> Result<(), Error> {
    FleetCoverage::read(reader, row).await?.free(reader, row, plan.to).await
}

/// What the tenant's fleet logs record about this chain.
struct FleetCoverage {
    /// Runs under a legal hold; `None` for the whole chain.
    holds: Vec<Option<RunId>>,
    pruned: Seq,
    last: Option<(ChainId, Seq, Seq, Seq)>,
}

impl FleetCoverage {
    async fn read(reader: &dyn LedgerReader, row: &ChainRow) -> Result<Self, Error> {
        let kinds = [Kind::HoldPlaced, Kind::HoldLifted, Kind::RetentionPruned];
        let names: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        let mut coverage = Self { holds: Vec::new(), pruned: 0, last: None };
        let rows = reader.chains().await?;
        for fleet in rows.iter().filter(|other| is_fleet(other) && other.tenant == row.tenant) {
            for entry in reader.entries_of(&fleet.chain, &names).await? {
                let read = EntryLine::read(&entry.body);
                let line = read.or_else(|e| refused(format!("the fleet log is damaged: {e}")))?;
                if line.log() == Some(row.origin.as_str()) {
                    coverage.line(&fleet.chain, &line);
                }
            }
        }
        Ok(coverage)
    }

    fn line(&mut self, fleet: &ChainId, line: &EntryLine) {
        if let Some(placed) = line.get::<HoldPlaced>() {
            self.holds.push(placed.run);
        } else if let Some(lifted) = line.get::<HoldLifted>() {
            self.holds.retain(|held| *held != lifted.run);
        } else if let Some(pruned) = line.get::<RetentionPruned>() {
            let (from, to) = (pruned.from.get(), pruned.to.get());
            self.pruned = self.pruned.max(to);
            self.last = Some((*fleet, line.entry.seq, from, to));
        }
    }

    /// Whether no hold covers an entry below `to` that is still stored.
    async fn free(&self, reader: &dyn LedgerReader, row: &ChainRow, to: Seq) -> Result<(), Error> {
        if self.holds.contains(&None) {
            return refused("the chain is under legal hold");
        }
        for run in self.holds.iter().flatten() {
            let rows = reader.run_entries(&row.chain, run).await?;
            if rows.iter().any(|row| row.seq < to) {
                return refused(format!("run {run} is under legal hold"));
            }
        }
        Ok(())
    }

    /// The last recorded pruning, if rows that it covers are still stored.
    async fn interrupted(
        &self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
    ) -> Result<Option<PrunePlan>, Error> {
        let Some((fleet, seq, from, to)) = self.last else { return Ok(None) };
        let mut at = from;
        while at < to {
            let rows = reader.entries(&row.chain, at, PAGE).await?;
            let Some(end) = rows.last() else { break };
            let kept = |kind: &str| super::store::KEPT.contains(&kind);
            if rows.iter().any(|row| row.seq < to && !kept(&row.kind)) {
                return Ok(Some(PrunePlan { from, to, recorded: Some((fleet, seq)) }));
            }
            at = end.seq.saturating_add(1);
        }
        Ok(None)
    }
}

/// What a scan of the rows below the requested end shows.
struct Scan {
    /// The first entry that is too young, or the end.
    older: Seq,
    /// Runs that are not sealed, with the places of their openings.
    open: BTreeMap<RunId, Seq>,
}

impl Scan {
    async fn read(
        reader: &dyn LedgerReader,
        row: &ChainRow,
        from: Seq,
        to: Seq,
        limit: Timestamp,
    ) -> Result<Self, Error> {
        let mut scan = Self { older: from, open: BTreeMap::new() };
        let (mut at, mut young) = (from, false);
        let mut seen: BTreeSet<RunId> = BTreeSet::new();
        while at < row.head.size {
            let rows = reader.entries(&row.chain, at, PAGE).await?;
            let Some(end) = rows.last() else { break };
            at = end.seq.saturating_add(1);
            for entry in &rows {
                let unreadable = |e| refused(format!("entry {}: {e}", entry.seq));
                let time = Entry::parse(&entry.body).map(|entry| entry.ts).or_else(unreadable)?;
                young = young || time >= limit || entry.seq >= to;
                if !young {
                    scan.older = entry.seq.saturating_add(1);
                }
                let Some(run) = entry.run else { continue };
                // The whole chain is read: a run that began below may be sealed above.
                if entry.kind == Kind::RunSealed.as_str() {
                    scan.open.remove(&run);
                } else if seen.insert(run) {
                    scan.open.insert(run, entry.seq);
                }
            }
        }
        Ok(scan)
    }
}

/// The entry that records a pruning.
pub fn draft(log: &str, plan: &PrunePlan, root: Digest, by: &str) -> Draft {
    let (from, to) = (plan.from.into(), plan.to.into());
    let (by, log) = (by.into(), log.into());
    Draft::of(RetentionPruned { by, from, log, root: HexDigest(root), to })
}
