//! What a tenant's fleet log records about the other chains: their names, their sizes, and what
//! they may have lost.

use std::collections::BTreeMap;

use super::read::EntryLine;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::ledger::fleet::POOL;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};
use crate::record::fleet::{ChainCheckpoint, ChainRetired};
use crate::record::payload::RetentionPruned;
use crate::record::{Int, Kind};

/// A head that another party noted outside the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Noted {
    /// The party that noted it, for people: `the fleet log`, `a pinned head`.
    pub by: String,
    /// Entries at that time.
    pub size: Seq,
    /// Root over them.
    pub root: Digest,
}

/// What external records show of one chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExternalHeads {
    /// Heads that were noted.
    pub heads: Vec<Noted>,
    /// First stored entry, after prunings.
    pub pruned: Seq,
    /// Whether the fleet log enrolled it.
    pub enrolled: bool,
    /// Whether the fleet log retired it with nothing left: an accepted loss.
    pub lost: bool,
}

/// What fleet logs record, by the origin of the chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetHeads(pub BTreeMap<String, ExternalHeads>);

/// Whether a chain is a fleet log, by its pool and slots: a namespace may have the pool's name.
#[must_use]
pub fn is_fleet(row: &ChainRow) -> bool {
    row.slot.rsplit_once('/').is_some_and(|(pool, _)| pool == POOL)
}

const KINDS: [Kind; 4] =
    [Kind::ChainEnrolled, Kind::ChainCheckpoint, Kind::ChainRetired, Kind::RetentionPruned];

impl FleetHeads {
    /// Reads what one fleet log records. The caller checks that the log itself is valid.
    ///
    /// # Errors
    /// The store cannot be read. Unreadable entries are ignored.
    pub async fn take(
        &mut self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
    ) -> Result<(), StoreError> {
        let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.as_str()).collect();
        let rows = reader.entries_of(&row.chain, &kinds).await?;
        for line in rows.iter().filter_map(|row| EntryLine::read(&row.body).ok()) {
            self.line(&line);
        }
        Ok(())
    }

    fn line(&mut self, line: &EntryLine) {
        let Some(log) = line.log() else { return };
        let known = self.0.entry(log.to_owned()).or_default();
        let mut head = None;
        if line.is(Kind::ChainEnrolled) {
            known.enrolled = true;
        } else if let Some(pruned) = line.get::<RetentionPruned>() {
            known.pruned = known.pruned.max(pruned.to.get());
        } else if let Some(retired) = line.get::<ChainRetired>() {
            if let Some(lost) = retired.lost_from.map(Int::get) {
                // The loss of these heads was recorded and accepted, so it is not a finding.
                known.heads.retain(|head| head.size <= lost);
                known.lost = lost == 0;
            }
            head = Some((retired.size, retired.root));
        } else if let Some(seen) = line.get::<ChainCheckpoint>() {
            head = Some((seen.size, seen.root));
        }
        if let Some((size, root)) = head.filter(|(size, _)| size.get() > 0) {
            let by = format!("entry {} of the fleet log", line.entry.seq);
            known.heads.push(Noted { by, size: size.get(), root: root.0 });
        }
    }
}
