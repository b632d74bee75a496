//! What a tenant's fleet log says about the other chains: which there are, how far they were, what may
//! be gone.

use std::collections::BTreeMap;

use super::read::EntryLine;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::ledger::fleet::POOL;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};
use crate::record::fleet::{ChainCheckpoint, ChainRetired};
use crate::record::payload::RetentionPruned;
use crate::record::{Int, Kind};

/// A head that somebody noted outside the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Noted {
    /// Who noted it, for people: `the fleet log`, `a pinned head`.
    pub by: String,
    /// Entries at that time.
    pub size: Seq,
    /// Root over them.
    pub root: Digest,
}

/// What is known of one chain from outside it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExternalHeads {
    /// Heads that were noted.
    pub heads: Vec<Noted>,
    /// First entry that is there, after prunings.
    pub pruned: Seq,
    /// Whether the fleet log enrolled it.
    pub enrolled: bool,
    /// Whether the fleet log says that nothing of it is left: a loss that was accepted as one.
    pub lost: bool,
}

/// What fleet logs say, by the origin of the chain.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FleetHeads(pub BTreeMap<String, ExternalHeads>);

/// Whether a chain is a fleet log: of the slots of that pool. A namespace may have its name.
#[must_use]
pub fn is_fleet(row: &ChainRow) -> bool {
    row.slot.rsplit_once('/').is_some_and(|(pool, _)| pool == POOL)
}

const KINDS: [Kind; 4] =
    [Kind::ChainEnrolled, Kind::ChainCheckpoint, Kind::ChainRetired, Kind::RetentionPruned];

impl FleetHeads {
    /// Takes what one fleet log says. Whether the log itself is whole is the caller's to check.
    ///
    /// # Errors
    /// The store cannot be read. An entry that cannot be read says nothing.
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
                // What was lost was told as lost: that it is not there is no news.
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
