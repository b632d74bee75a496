//! Proofs that entries are in the log: their hashes are computed again, and lead to the root that the log has signed.

use super::{Search, SearchError};
use crate::crypto::merkle;
use crate::crypto::note::Checkpoint;
use crate::crypto::tlog_proof::TlogProof;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Seq};
use crate::ledger::archive::{self, signed_head};
use crate::ledger::proofs::{self, Prover};
use crate::ledger::store::ChainRow;
use crate::operator::api::lookups::ReceiptProof;
use crate::record::Entry;

impl From<archive::Error> for SearchError {
    fn from(error: archive::Error) -> Self {
        match error {
            archive::Error::Store(error) => error.into(),
            archive::Error::Proof(error) => error.into(),
            archive::Error::Damaged(..)
            | archive::Error::Differs(_)
            | archive::Error::Foreign(_)
            | archive::Error::File { .. } => Self::Unproven(error.to_string()),
        }
    }
}

impl From<proofs::Error> for SearchError {
    fn from(error: proofs::Error) -> Self {
        match error {
            proofs::Error::Store(error) => error.into(),
            proofs::Error::Outside { .. } => Self::NoEntry,
            proofs::Error::Gone(_) | proofs::Error::Damaged(_) => Self::Unproven(error.to_string()),
        }
    }
}

impl Search<'_> {
    async fn signed(&self, chain: &ChainId) -> Result<(ChainRow, Checkpoint), SearchError> {
        let ours = self.chains().await?.into_iter().find(|row| row.chain == *chain);
        let ours = ours.ok_or(SearchError::NoEntry)?;
        let head = signed_head(self.reader, &ours, &[]).await?;
        Ok((ours, head))
    }

    /// The size of the signed checkpoint that these entries are in, with these hashes.
    pub(super) async fn proven(
        &self,
        chain: &ChainId,
        entries: &[(Entry, Digest)],
    ) -> Result<u64, SearchError> {
        let (_, head) = self.signed(chain).await?;
        let prover = Prover::for_head(self.reader, chain, &head).await?;
        for (entry, leaf) in entries {
            let path = prover.inclusion(entry.seq).await?;
            included(leaf, (entry.seq, &path), &head)?;
        }
        Ok(head.size)
    }

    /// The proof that this entry is in the log, as a file.
    ///
    /// # Errors
    /// There is no such entry, or the ledger cannot be read or does not prove it.
    pub async fn proof(&self, chain: &ChainId, seq: Seq) -> Result<ReceiptProof, SearchError> {
        let (ours, head) = self.signed(chain).await?;
        if seq >= head.size {
            return Err(SearchError::NoEntry);
        }
        let rows = self.reader.entries(chain, seq, 1).await?;
        let row = rows.first().filter(|row| row.seq == seq);
        let leaf = merkle::leaf_hash(&row.ok_or(SearchError::NoEntry)?.body);
        let path = Prover::for_head(self.reader, chain, &head).await?.inclusion(seq).await?;
        included(&leaf, (seq, &path), &head)?;
        let proof = TlogProof { extra: None, index: seq, path, note: ours.head.checkpoint.clone() };
        Ok(ReceiptProof {
            origin: ours.origin,
            seq,
            leaf: leaf.hex(),
            size: head.size,
            root: head.root.hex(),
            proof: proof.to_text(),
        })
    }
}

fn included(
    leaf: &Digest,
    (seq, path): (Seq, &[Digest]),
    head: &Checkpoint,
) -> Result<(), SearchError> {
    if merkle::verifies_inclusion(leaf, seq, head.size, path, &head.root) {
        return Ok(());
    }
    Err(SearchError::Unproven(format!("entry {seq} is not the one that the log has")))
}
