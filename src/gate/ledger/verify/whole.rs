//! Reads whole chains from a store.

use std::collections::{BTreeMap, VecDeque};

use super::epochs::Epochs;
use super::{Chain, Damage, epochs, pruned};
use crate::crypto::keys::PublicKey;
use crate::crypto::merkle::Frontier;
use crate::crypto::note::Checkpoint;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};

/// Rows fetched at a time.
const PAGE: u32 = 1000;

/// The result of reading a whole chain.
#[derive(Clone, PartialEq, Debug)]
pub struct ChainReport {
    /// The chain as the store lists it.
    pub chain: ChainRow,
    /// First stored entry; more than 0 after a pruning.
    pub from: Seq,
    /// Entries read and valid, with the pruned ones.
    pub entries: Seq,
    /// Root over them.
    pub root: Digest,
    /// Runs that are sealed.
    pub sealed: usize,
    /// Runs that are open.
    pub open: usize,
    /// Calls without a final entry, in open runs.
    pub open_calls: usize,
    /// Kinds this build does not know: their meaning is not checked.
    pub unknown: BTreeMap<String, u64>,
    /// Whether the genesis names a trusted enrolment key; `None` if no key was given to trust.
    pub enrolled: Option<bool>,
    /// The first damage, and the seq at which it was found.
    pub damage: Option<(Seq, Damage)>,
    /// Evidence that leads from where damage was found to where it is.
    pub trail: Trail,
}

/// Facts collected up to the damage.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trail {
    /// The keys read so far.
    pub epochs: Epochs,
    /// The tree of what was read.
    pub frontier: Frontier,
    /// Leaf hash of the last valid entry.
    pub leaf: Option<Digest>,
    /// Size of the last stored checkpoint that has the root of the entries.
    pub confirmed: Seq,
    /// The tree of that size.
    pub base: Frontier,
    /// Size and note of the first stored checkpoint with another root.
    pub diverged: Option<(Seq, String)>,
}

impl ChainReport {
    /// Whether the chain is valid.
    #[must_use]
    pub fn whole(&self) -> bool {
        self.damage.is_none() && self.enrolled != Some(false)
    }
}

/// Reads one chain from its genesis to its current head, and checks everything.
///
/// `progress` receives the number of entries read, once a page.
///
/// # Errors
/// The store cannot be read. Damage is not an error: the report has it.
pub async fn chain_of(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    trusted: &[PublicKey],
    progress: &(dyn Fn(Seq) + Send + Sync),
) -> Result<ChainReport, StoreError> {
    chain_from(reader, row, Roots::of(trusted), 0, progress).await
}

/// Whose certificates count.
#[derive(Clone, Copy, Debug, Default)]
pub struct Roots<'a> {
    /// Enrolment keys.
    pub trusted: &'a [PublicKey],
    /// Those that are revoked.
    pub revoked: &'a [epochs::RevokedEnrolment],
}

impl<'a> Roots<'a> {
    /// These keys, none of them revoked.
    pub const fn of(trusted: &'a [PublicKey]) -> Self {
        Self { trusted, revoked: &[] }
    }
}

/// As [`chain_of`], for a chain whose entries below `from` were pruned.
///
/// # Errors
/// As [`chain_of`].
pub async fn chain_from(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    roots: Roots<'_>,
    from: Seq,
    progress: &(dyn Fn(Seq) + Send + Sync),
) -> Result<ChainReport, StoreError> {
    let trusted = roots.trusted;
    let mut chain = Chain::new(row.chain, trusted).revoking(roots.revoked);
    let mut checkpoints = Checkpoints::new(from);
    let mut damage = None;
    if from > 0 {
        damage = pruned::begin(reader, row, from, &mut chain).await?;
    }
    while damage.is_none() && chain.size() < row.head.size {
        let rows = reader.entries(&row.chain, chain.size(), PAGE).await?;
        if rows.is_empty() {
            break;
        }
        // The chain may grow while it is read; the report is about the head that was listed.
        for entry in rows.iter().filter(|entry| entry.seq < row.head.size) {
            if let Err(found) = chain.accept(entry) {
                damage = Some((chain.size(), found));
                break;
            }
            checkpoints.compare(reader, row, &chain).await?;
        }
        progress(chain.size());
        // Only rows beyond the head: nothing more will come.
        if damage.is_none() && rows.iter().all(|entry| entry.seq >= row.head.size) {
            break;
        }
    }
    if damage.is_none() {
        damage = chain.finish(&row.head).err().map(|found| (chain.size(), found));
    }
    if damage.is_none() && chain.size() > 0 && chain.epochs().origin() != Some(&row.origin) {
        damage = Some((0, Damage::new("S1", "the genesis names another origin than the store")));
    }
    if damage.is_none() {
        damage = checkpoints.diverged.as_ref().map(|(size, _)| {
            let why = format!("the stored checkpoint of size {size} is not of these entries");
            (checkpoints.confirmed, Damage::new("H1", why))
        });
    }
    let (sealed, open) = chain.runs();
    let enrolled = (!trusted.is_empty())
        .then(|| chain.epochs().enrolment().is_some_and(|key| trusted.contains(key)));
    Ok(ChainReport {
        chain: row.clone(),
        from,
        entries: chain.size(),
        root: chain.root(),
        sealed,
        open,
        open_calls: chain.open_calls(),
        unknown: chain.unknown().clone(),
        enrolled,
        damage,
        trail: Trail {
            epochs: chain.epochs().clone(),
            frontier: chain.frontier().clone(),
            leaf: chain.leaf(),
            confirmed: checkpoints.confirmed,
            base: checkpoints.base,
            diverged: checkpoints.diverged,
        },
    })
}

/// The stored checkpoints, compared with the entries as those are read.
struct Checkpoints {
    ahead: VecDeque<(Seq, String)>,
    /// Where to continue; `None` at the end.
    next: Option<Seq>,
    confirmed: Seq,
    /// The tree of that size.
    base: Frontier,
    diverged: Option<(Seq, String)>,
}

impl Checkpoints {
    fn new(from: Seq) -> Self {
        let next = Some(from.saturating_add(1));
        Self {
            ahead: VecDeque::new(),
            next,
            confirmed: from,
            base: Frontier::default(),
            diverged: None,
        }
    }

    /// Compares the checkpoint of the current size, if one is stored.
    async fn compare(
        &mut self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
        chain: &Chain,
    ) -> Result<(), StoreError> {
        if let Some(next) = self.next.filter(|_| self.ahead.is_empty()) {
            self.ahead = reader.checkpoints(&row.chain, next, PAGE).await?.into();
            self.next = self.ahead.back().map(|(size, _)| size.saturating_add(1));
        }
        while let Some((size, note)) = self.ahead.pop_front_if(|(size, _)| *size <= chain.size()) {
            let root = Checkpoint::parse(&note).ok().map(|(c, _)| (c.size, c.root));
            if size == chain.size() && root == Some((size, chain.root())) {
                // After a diverged checkpoint, a later one confirms another history.
                if self.diverged.is_none() {
                    self.confirmed = size;
                    self.base = chain.frontier().clone();
                }
            } else if size == chain.size() {
                self.diverged.get_or_insert((size, note));
            }
        }
        Ok(())
    }
}
