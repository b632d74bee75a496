//! The head of one chain in memory: extends it, links runs, keeps the tree. Pure; the sequencer
//! owns it.

use std::collections::BTreeMap;

use super::store::{EntryRow, HeadRow, row_of};
use super::tail::{RunTail, TailError, Tails};
use crate::crypto::merkle::Frontier;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Epoch, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::record::alert::{AlertRaised, AlertRules, AlertWatch};
use crate::record::run::{Count, RunSealed};
use crate::record::{BYTES_MAX, Body, Boot, Draft, Entry, RunLink};

/// A verified chain up to a head, and its open runs.
#[derive(Debug)]
pub struct Chain {
    id: ChainId,
    epoch: Epoch,
    boot: Boot,
    size: Seq,
    hash: Digest,
    frontier: Frontier,
    last: Timestamp,
    tails: Tails,
    watch: AlertWatch,
}

/// When an entry is written, by both clocks.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Wall clock.
    pub wall: Timestamp,
    /// Microseconds since the writer started.
    pub mono: u64,
}

/// The place of a new entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placed {
    /// Index in the chain.
    pub seq: Seq,
    /// Leaf hash.
    pub leaf: Digest,
    /// Index in the run; 0 for an entry outside a run.
    pub run_seq: u64,
}

impl Chain {
    /// The chain as its store has it; `None` if the frontier does not fit the size.
    #[must_use]
    pub fn resume(id: ChainId, epoch: Epoch, boot: Boot, head: &HeadRow) -> Option<Self> {
        let frontier = Frontier::from_bytes(head.size, &head.frontier)?;
        let last = Timestamp::from_millis(0);
        let (size, hash) = (head.size, head.hash);
        let (tails, watch) = (Tails::default(), AlertWatch::default());
        Some(Self { id, epoch, boot, size, hash, frontier, last, tails, watch })
    }

    /// Sets the last entry's time, so that time never goes back in the chain.
    pub const fn continue_from(&mut self, last: Timestamp) {
        self.last = last;
    }

    /// The last entry's time.
    pub const fn last(&self) -> Timestamp {
        self.last
    }

    /// Continues an open run after its last entry.
    pub fn take_up(&mut self, run: RunId, tail: RunTail) {
        self.tails.insert(run, tail);
    }

    /// Counts entries of open runs towards alerts, in the order of the chain.
    pub fn watch<'a>(&mut self, entries: impl IntoIterator<Item = &'a Entry>) {
        entries.into_iter().for_each(|entry| self.watch.accept(entry));
    }

    /// The alerts that the newest entry asks for: the next entries of its batch.
    pub fn due_alerts(&self, rules: &AlertRules) -> Vec<AlertRaised> {
        self.watch.due(rules)
    }

    /// The open runs.
    pub const fn tails(&self) -> &Tails {
        &self.tails
    }

    /// Entries so far.
    pub const fn size(&self) -> Seq {
        self.size
    }

    /// Root over all entries.
    pub fn root(&self) -> Digest {
        self.frontier.root()
    }

    /// The head in its stored form, with this checkpoint.
    pub fn head(&self, checkpoint: String) -> HeadRow {
        let frontier = self.frontier.to_bytes();
        HeadRow { size: self.size, hash: self.hash, frontier, checkpoint }
    }

    /// Adds one entry: sets its place, links and time, and moves the head in memory.
    ///
    /// A draft that violates the rules of its run or call is refused, and nothing moves.
    ///
    /// # Errors
    /// The violated rule.
    pub fn extend(
        &mut self,
        mut draft: Draft,
        moment: Moment,
    ) -> Result<(EntryRow, Placed), TailError> {
        self.tails.admit(&draft)?;
        let link = draft.run.map(|run| self.link(run));
        if let Body::RunSealed(sealed) = &mut draft.body {
            count(sealed, link.as_ref(), &self.tails);
        }
        let last = self.last.max(moment.wall);
        let entry = Entry {
            chain: self.id,
            epoch: self.epoch,
            seq: self.size,
            prev: self.hash,
            ts: last,
            boot: self.boot,
            mono: moment.mono,
            run: link,
            draft,
        };
        let body = entry.bytes();
        if body.len() > BYTES_MAX {
            return Err(TailError::TooLong);
        }
        self.last = last;
        let leaf = Entry::leaf(&body);
        self.tails.advance(&entry.draft, leaf);
        self.watch.accept(&entry);
        self.frontier.push(leaf);
        self.hash = leaf;
        self.size = self.size.saturating_add(1);
        let run_seq = entry.run.as_ref().map_or(0, |link| link.seq);
        let placed = Placed { seq: entry.seq, leaf, run_seq };
        Ok((row_of(&entry, leaf, body), placed))
    }

    fn link(&self, run: RunId) -> RunLink {
        self.tails.get(&run).map_or(RunLink { run, seq: 0, prev: None }, |tail| RunLink {
            run,
            seq: tail.next_seq,
            prev: Some(tail.prev),
        })
    }
}

/// Sets the counts of a `run.sealed`: its entries, itself included, and its calls by outcome.
fn count(sealed: &mut RunSealed, link: Option<&RunLink>, tails: &Tails) {
    let Some((link, tail)) = link.and_then(|l| tails.get(&l.run).map(|tail| (l, tail))) else {
        return;
    };
    sealed.entries = link.seq.saturating_add(1).into();
    let calls = tail.counts();
    sealed.calls = calls.iter().map(|(k, v)| Count { k: (*k).into(), v: (*v).into() }).collect();
}

/// Counts by name.
pub type Counts = BTreeMap<&'static str, u64>;
