//! A whole chain, entry by entry: form, links, keys, runs and, at the end, the signed head.

use std::collections::{BTreeMap, BTreeSet};

use super::alerted::AlertCauses;
use super::amended::Amendments;
use super::epochs::{Epochs, RevokedEnrolment};
use super::lineage::Lineage;
use super::read::{Damage, EntryLine};
use super::row::{EntryRow, HeadRow};
use super::runs::Run;
use crate::crypto::keys::PublicKey;
use crate::crypto::merkle::Frontier;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Epoch, RunId, Seq};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::record::Kind;

/// A chain, as far as it was read.
#[derive(Debug)]
pub struct Chain {
    id: ChainId,
    epochs: Epochs,
    last: Option<(Digest, Timestamp, Epoch)>,
    frontier: Frontier,
    open: BTreeMap<RunId, Run>,
    sealed: BTreeSet<RunId>,
    lineage: Lineage,
    unknown: BTreeMap<String, u64>,
    amendments: Amendments,
    causes: AlertCauses,
    /// First stored entry; earlier ones were pruned.
    from: Seq,
}

impl Chain {
    /// Starts with no entry read. One of `trusted` may also sign writer certificates.
    pub fn new(id: ChainId, trusted: &[PublicKey]) -> Self {
        Self {
            id,
            epochs: Epochs::new(trusted),
            last: None,
            frontier: Frontier::default(),
            open: BTreeMap::new(),
            sealed: BTreeSet::new(),
            lineage: Lineage::default(),
            unknown: BTreeMap::new(),
            amendments: Amendments::default(),
            causes: AlertCauses::default(),
            from: 0,
        }
    }

    /// Enrolment keys that are revoked.
    #[must_use]
    pub fn revoking(mut self, revoked: &[RevokedEnrolment]) -> Self {
        self.epochs = self.epochs.revoking(revoked);
        self
    }

    /// Continues after a pruning: the next entry is the first stored one.
    pub fn begin_after(&mut self, before: Frontier) {
        self.from = before.size();
        self.frontier = before;
        self.amendments.cut();
    }

    /// Takes an entry that pruning kept below the first stored one. The caller checks its place in
    /// the tree.
    ///
    /// # Errors
    /// The first damage in it.
    pub fn accept_kept(&mut self, row: &EntryRow) -> Result<EntryLine, Damage> {
        let line = EntryLine::read(&row.body)?;
        columns(row, &line)?;
        if line.entry.chain != self.id || line.entry.seq != row.seq {
            return Err(Damage::new("S1", "the entry is of another place or chain"));
        }
        if row.seq == 0 {
            self.epochs.genesis(&line)?;
        } else if line.is(Kind::WriterStarted) {
            self.epochs.started(&line)?;
        } else if line.is(Kind::PolicyActivated) {
            self.amendments.cut();
            self.amendments.accept(&line)?;
        }
        Ok(line)
    }

    /// The tree of what was read.
    pub const fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// The leaf hash of the last entry read.
    #[must_use]
    pub fn leaf(&self) -> Option<Digest> {
        self.last.map(|(leaf, ..)| leaf)
    }

    /// Entries read: the seq expected next.
    pub const fn size(&self) -> Seq {
        self.frontier.size()
    }

    /// The keys read so far.
    pub const fn epochs(&self) -> &Epochs {
        &self.epochs
    }

    /// Root over everything read.
    pub fn root(&self) -> Digest {
        self.frontier.root()
    }

    /// Runs that are sealed, and runs that are open.
    pub fn runs(&self) -> (usize, usize) {
        (self.sealed.len(), self.open.len())
    }

    /// Calls without a final entry, in open runs.
    pub fn open_calls(&self) -> usize {
        self.open.values().map(Run::open_calls).sum()
    }

    /// Kinds this build does not know, and how often they occur.
    pub const fn unknown(&self) -> &BTreeMap<String, u64> {
        &self.unknown
    }

    /// Takes the next row.
    ///
    /// # Errors
    /// The first damage in it.
    pub fn accept(&mut self, row: &EntryRow) -> Result<(), Damage> {
        if row.seq != self.size() {
            let why = format!("the store continues at seq {}, expected {}", row.seq, self.size());
            return Err(Damage::new("S2", why));
        }
        let line = EntryLine::read(&row.body)?;
        columns(row, &line)?;
        self.place(&line)?;
        self.keys(&line)?;
        self.run(&line)?;
        self.causes.accept(&line, self.from)?;
        self.amendments.accept(&line)?;
        if let Some(kind) = &line.unknown {
            let count = self.unknown.entry(kind.clone()).or_default();
            *count = count.saturating_add(1);
        }
        self.last = Some((line.leaf, line.entry.ts, line.entry.epoch));
        self.frontier.push(line.leaf);
        Ok(())
    }

    fn place(&self, line: &EntryLine) -> Result<(), Damage> {
        let entry = &line.entry;
        if entry.chain != self.id {
            return Err(Damage::new("S1", "the entry is of another chain"));
        }
        if entry.seq != self.size() {
            return Err(Damage::new("S2", format!("the entry says seq {}", entry.seq)));
        }
        let Some((leaf, ts, epoch)) = self.last else { return Ok(()) };
        if entry.prev != leaf {
            return Err(Damage::new("S2", "`prev` is not the leaf hash of the entry before"));
        }
        if entry.ts < ts {
            return Err(Damage::new("C1", format!("time goes back from {ts} to {}", entry.ts)));
        }
        if entry.epoch < epoch {
            let why = format!("the epoch goes back from {epoch} to {}", entry.epoch);
            return Err(Damage::new("S2", why));
        }
        Ok(())
    }

    fn keys(&mut self, line: &EntryLine) -> Result<(), Damage> {
        if self.size() == 0 {
            return self.epochs.genesis(line);
        }
        if line.is(Kind::ChainGenesis) {
            return Err(Damage::new("S1", "a second `chain.genesis`"));
        }
        if line.is(Kind::WriterStarted) {
            return self.epochs.started(line);
        }
        if self.epochs.knows(line.entry.epoch) {
            return self.epochs.check_revocation(line.entry.epoch, line.entry.seq);
        }
        let why = format!("epoch {} does not begin with `writer.started`", line.entry.epoch);
        Err(Damage::new("S1", why))
    }

    fn run(&mut self, line: &EntryLine) -> Result<(), Damage> {
        let Some(link) = line.entry.run.as_ref() else { return Ok(()) };
        let id = link.run;
        if self.sealed.contains(&id) {
            return Err(Damage::new("S4", format!("`{}` after run {id} was sealed", line.kind())));
        }
        self.lineage.accept(line, &|run| self.sealed.contains(run), self.from == 0)?;
        // The rules for later entries still apply to a run that began before the first stored
        // entry.
        let cut = self.from > 0 && link.seq > 0;
        let begin = || if cut { Run::cut(link) } else { Run::default() };
        let run = self.open.entry(id).or_insert_with(begin);
        run.accept(&id, line)?;
        if run.sealed() {
            self.open.remove(&id);
            self.sealed.insert(id);
        }
        Ok(())
    }

    /// Compares what was read with the head row: size, hash, frontier, and the signed checkpoint.
    ///
    /// # Errors
    /// `S2` the rows end early, `D2` a stored value, `H1` the checkpoint.
    pub fn finish(&self, head: &HeadRow) -> Result<(), Damage> {
        if self.size() != head.size {
            let why = format!("{} found, the head says {}", many(self.size(), "entry"), head.size);
            return Err(Damage::new("S2", why));
        }
        let Some((leaf, _, epoch)) = self.last else {
            return if head.checkpoint.is_empty() {
                Ok(())
            } else {
                Err(Damage::new("H1", "a checkpoint of an empty chain"))
            };
        };
        if leaf != head.hash {
            return Err(Damage::new("D2", "the head's hash is not that of the last entry"));
        }
        if self.frontier.to_bytes() != head.frontier {
            return Err(Damage::new("D2", "the head's frontier is not that of the entries"));
        }
        let (checkpoint, signer) = self.epochs.checkpoint(&head.checkpoint)?;
        if checkpoint.size != head.size || checkpoint.root != self.root() {
            return Err(Damage::new("H1", "the checkpoint is not of these entries"));
        }
        if signer != epoch {
            let why =
                format!("signed by the writer of epoch {signer}, the last entry is of {epoch}");
            return Err(Damage::new("H1", why));
        }
        Ok(())
    }
}

/// The store's index columns must match the bytes.
///
/// # Errors
/// `D1` a column, `D2` the stored hash.
pub fn columns(row: &EntryRow, line: &EntryLine) -> Result<(), Damage> {
    let entry = &line.entry;
    if row.leaf != line.leaf {
        return Err(Damage::new("D2", "the stored leaf hash is not that of the bytes"));
    }
    if row.prev != entry.prev {
        return Err(Damage::new("D1", "the column `prev` is not what the bytes say"));
    }
    if row.run != entry.run.as_ref().map(|link| link.run) {
        return Err(Damage::new("D1", "the column `run` is not what the bytes say"));
    }
    if row.call != entry.draft.call {
        return Err(Damage::new("D1", "the column `call` is not what the bytes say"));
    }
    if row.kind != line.kind() {
        return Err(Damage::new("D1", "the column `kind` is not what the bytes say"));
    }
    Ok(())
}
