//! Where a pruned chain begins: the peaks before its first entry, and the entries that pruning
//! kept.

use super::chain::Chain;
use super::read::Damage;
use crate::crypto::merkle::{Frontier, verifies_inclusion};
use crate::crypto::note::Checkpoint;
use crate::crypto::range::cover;
use crate::domain::id::Seq;
use crate::ledger::proofs::{self, Prover};
use crate::ledger::store::{ChainRow, KEPT, LedgerReader, StoreError};

/// Prepares the chain for the entry `from`: the keys from the kept entries, each proven to be in
/// the head's tree, and the peaks of the tree before `from`. The head itself is checked at the end.
pub(super) async fn begin(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    from: Seq,
    chain: &mut Chain,
) -> Result<Option<(Seq, Damage)>, StoreError> {
    let (head, _) = match Checkpoint::parse(&row.head.checkpoint) {
        Ok(head) => head,
        Err(error) => return Ok(Some((from, Damage::new("H1", error.to_string())))),
    };
    match prepare(reader, row, from, &head, chain).await {
        Ok(()) => Ok(None),
        Err(PrunedStop::Damage(seq, damage)) => Ok(Some((seq, damage))),
        Err(PrunedStop::Proof(proofs::Error::Store(error))) => Err(error),
        Err(PrunedStop::Proof(error)) => Ok(Some((from, Damage::new("E2", error.to_string())))),
    }
}

enum PrunedStop {
    Damage(Seq, Damage),
    Proof(proofs::Error),
}

impl<E: Into<proofs::Error>> From<E> for PrunedStop {
    fn from(error: E) -> Self {
        Self::Proof(error.into())
    }
}

async fn prepare(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    from: Seq,
    head: &Checkpoint,
    chain: &mut Chain,
) -> Result<(), PrunedStop> {
    let prover = Prover::for_head(reader, &row.chain, head).await?;
    let kept = reader.entries_of(&row.chain, &KEPT).await?;
    for entry in kept.iter().filter(|entry| entry.seq < from) {
        let damaged = |damage| PrunedStop::Damage(entry.seq, damage);
        let line = chain.accept_kept(entry).map_err(damaged)?;
        let path = prover.inclusion(entry.seq).await?;
        if !verifies_inclusion(&line.leaf, entry.seq, head.size, &path, &head.root) {
            let why = "the entry is not the one that is in the signed tree";
            return Err(damaged(Damage::new("E2", why)));
        }
    }
    let mut peaks = Vec::new();
    for node in cover(0, from) {
        peaks.push(prover.node(node).await?);
    }
    let frontier = Frontier::from_peaks(from, peaks);
    let frontier = frontier.ok_or(proofs::Error::Damaged(head.size))?;
    chain.begin_after(frontier);
    Ok(())
}
