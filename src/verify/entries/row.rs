//! A log in a store: one row per entry, and its head.

use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId, Seq};

/// The head row of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeadRow {
    /// Entries.
    pub size: Seq,
    /// Leaf hash of the last entry; of an empty chain, SHA-256 of the chain id's bytes.
    pub hash: Digest,
    /// Peaks of the Merkle frontier, concatenated.
    pub frontier: Vec<u8>,
    /// The signed checkpoint of this size; empty for an empty chain.
    pub checkpoint: String,
}

/// One entry as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EntryRow {
    /// Its place.
    pub seq: Seq,
    /// Hash of the entry before.
    pub prev: Digest,
    /// `SHA-256(0x00 || body)`.
    pub leaf: Digest,
    /// Shadow of the body, for the index.
    pub run: Option<RunId>,
    /// Shadow of the body, for the index.
    pub call: Option<CallId>,
    /// Shadow of the body.
    pub kind: String,
    /// The exact bytes.
    pub body: Vec<u8>,
}
