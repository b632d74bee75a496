//! Stored rows: both databases keep the same things, and they are read in one way.

use super::retention::StoredPayload;
use super::store::{
    AnchorRow, ChainRow, EntryRow, HeadRow, LeaseKey, Leased, PayloadRow, StoreError, Subtree,
};
use super::vault::SEALED;
use crate::crypto::range::Node;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::time::Timestamp;

/// A row that is read by the names of its columns. What no writer stores is
/// [`StoreError::Broken`].
pub(crate) trait DatabaseRow {
    fn maybe_integer(&self, name: &str) -> Result<Option<i64>, StoreError>;
    fn maybe_text(&self, name: &str) -> Result<Option<String>, StoreError>;
    fn maybe_bytes(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;

    fn integer(&self, name: &str) -> Result<i64, StoreError> {
        self.maybe_integer(name)?.ok_or_else(|| malformed(name))
    }

    fn text(&self, name: &str) -> Result<String, StoreError> {
        self.maybe_text(name)?.ok_or_else(|| malformed(name))
    }

    fn bytes(&self, name: &str) -> Result<Vec<u8>, StoreError> {
        self.maybe_bytes(name)?.ok_or_else(|| malformed(name))
    }

    fn number(&self, name: &str) -> Result<u64, StoreError> {
        u64::try_from(self.integer(name)?).map_err(|_| malformed(name))
    }

    fn time(&self, name: &str) -> Result<Timestamp, StoreError> {
        self.integer(name).map(Timestamp::from_millis)
    }

    fn digest(&self, name: &str) -> Result<Digest, StoreError> {
        self.bytes(name)?.try_into().map(Digest::from_bytes).map_err(|_| malformed(name))
    }

    fn chain_id(&self) -> Result<ChainId, StoreError> {
        let bytes = self.bytes("chain_id")?.try_into();
        bytes.map(ChainId::from_bytes).map_err(|_| malformed("chain_id"))
    }

    fn run_id(&self) -> Result<RunId, StoreError> {
        RunId::parse(&self.text("run_id")?).ok_or_else(|| malformed("run_id"))
    }

    fn entry(&self) -> Result<EntryRow, StoreError> {
        let run = self.maybe_text("run_id")?.map(|run| RunId::parse(&run).ok_or("run_id"));
        let call = self.maybe_text("call_id")?.map(|call| CallId::parse(&call).ok_or("call_id"));
        Ok(EntryRow {
            seq: self.number("seq")?,
            prev: self.digest("prev_hash")?,
            leaf: self.digest("leaf_hash")?,
            run: run.transpose().map_err(malformed)?,
            call: call.transpose().map_err(malformed)?,
            kind: self.text("kind")?,
            body: self.bytes("body")?,
        })
    }

    fn payload(&self) -> Result<PayloadRow, StoreError> {
        Ok(PayloadRow {
            commitment: self.digest("commitment")?,
            salt: *self.digest("salt")?.as_bytes(),
            role: self.text("role")?,
            media_type: self.text("media_type")?,
            body: self.bytes("body")?,
        })
    }

    fn stored_payload(&self) -> Result<StoredPayload, StoreError> {
        Ok(StoredPayload {
            chain: self.chain_id()?,
            commitment: self.digest("commitment")?,
            role: self.text("role")?,
            stored_at: self.time("stored")?,
            bytes: self.number("bytes")?,
            sealed: self.text("media_type")? == SEALED,
            row: None,
        })
    }

    fn head(&self) -> Result<HeadRow, StoreError> {
        Ok(HeadRow {
            size: self.number("size")?,
            hash: self.digest("head_hash")?,
            frontier: self.bytes("frontier")?,
            checkpoint: self.text("checkpoint")?,
        })
    }

    fn chain(&self) -> Result<ChainRow, StoreError> {
        Ok(ChainRow {
            chain: self.chain_id()?,
            tenant: self.text("tenant_id")?,
            slot: self.text("slot")?,
            origin: self.text("origin")?,
            epoch: self.number("epoch")?,
            head: self.head()?,
        })
    }

    fn leased(&self, secret: [u8; 32], same_writer: bool) -> Result<Leased, StoreError> {
        Ok(Leased {
            key: LeaseKey { chain: self.chain_id()?, epoch: self.number("epoch")?, secret },
            slot: self.text("slot")?,
            origin: self.text("origin")?,
            same_writer,
            head: self.head()?,
        })
    }

    fn leaf(&self) -> Result<(Seq, Digest), StoreError> {
        Ok((self.number("seq")?, self.digest("leaf_hash")?))
    }

    fn subtree(&self, height: u32) -> Result<Subtree, StoreError> {
        let node = Node { height, index: self.number("idx")? };
        Ok(Subtree { node, hash: self.digest("hash")? })
    }

    fn note(&self) -> Result<(Seq, String), StoreError> {
        Ok((self.number("size")?, self.text("note")?))
    }

    fn anchor(&self) -> Result<AnchorRow, StoreError> {
        AnchorRow::read(self.number("size")?, self.text("note")?, &self.text("tokens")?)
    }
}

/// The column holds what no writer stores.
pub(crate) fn malformed(name: &str) -> StoreError {
    StoreError::Broken(format!("a stored row cannot be read: `{name}` is malformed"))
}
