//! A chain as static files after c2sp.org/tlog-tiles: `checkpoint`, `tile/…`, `tile/entries/…`.
//!
//! The archiver writes one file at a time and never changes it: it stops if a full tile exists with
//! other bytes, and it replaces the checkpoint only once everything under it exists. The files and
//! the trust roots suffice to check the whole log. The files contain no payloads.

pub mod check;
pub mod storage;

use super::proofs::{self, Prover};
use super::store::{ChainRow, LedgerReader, StoreError};
use super::verify::epochs::Epochs;
use super::verify::{Damage, EntryLine};
use crate::crypto::keys::PublicKey;
use crate::crypto::merkle;
use crate::crypto::note::Checkpoint;
use crate::crypto::tiles::{self, Place, WIDTH};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::plural::many;
use crate::record::{Entry, Kind};
use storage::{ArchiveStore, Keep};

/// Name of the signed head in an archive.
pub const CHECKPOINT: &str = "checkpoint";
/// Entries of one group, as a page of rows.
const GROUP: u32 = 256;

/// Why an archive cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ledger cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The ledger cannot prove the entries to archive.
    #[error(transparent)]
    Proof(#[from] proofs::Error),
    /// The ledger is damaged where it is read.
    #[error("entry {0}: {1}")]
    Damaged(Seq, Damage),
    /// A file exists with other bytes.
    #[error("`{0}` is there with other bytes, and a full tile never changes")]
    Differs(String),
    /// The archive is of another log, of another history, or ahead of the ledger.
    #[error("{0}")]
    Foreign(String),
    /// A file cannot be read or written.
    #[error("`{name}`: {why}")]
    File {
        /// Its name.
        name: String,
        /// What is wrong.
        why: String,
    },
}

/// What was archived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Saved {
    /// Entries the archive held before.
    pub before: Seq,
    /// Entries it holds now.
    pub size: Seq,
    /// Root over them.
    pub root: Digest,
    /// Files written.
    pub files: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// Brings an archive up to the chain's current head.
///
/// # Errors
/// The ledger is damaged, the archive is not of this chain, or a file cannot be written. The files
/// written so far stay, and the next try continues from there.
pub async fn save(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    trusted: &[PublicKey],
    store: &dyn ArchiveStore,
) -> Result<Saved, Error> {
    let head = signed_head(reader, row, trusted).await?;
    let prover = Prover::for_head(reader, &row.chain, &head).await?;
    let old = store.get(CHECKPOINT).await?;
    let old = old.map(|note| old_head(&note, &head)).transpose()?;
    let before = old.as_ref().map_or(0, |old| old.size);
    if let Some(old) = old.filter(|old| old.size > 0) {
        prover.consistency(old.size).await?;
        if prover.root_at(old.size).await? != old.root {
            let why = format!(
                "the archive holds another history of its first {}",
                many(old.size, "entry")
            );
            return Err(Error::Foreign(why));
        }
    }
    let mut saved = Saved { before, size: head.size, root: head.root, files: 0, bytes: 0 };
    for place in tiles::places(head.size).filter(|place| place.width(before) < WIDTH) {
        let width = place.width(head.size);
        let hashes = prover.tile(place).await?;
        if place.level == 0 {
            let bundle = entries(reader, row, place, &hashes).await?;
            let name = tiles::entries_path(place.index, width);
            put(store, &name, &bundle, width, &mut saved).await?;
        }
        put(store, &place.path(width), &tiles::tile_bytes(&hashes), width, &mut saved).await?;
    }
    if before != head.size {
        store.put(CHECKPOINT, row.head.checkpoint.as_bytes(), Keep::Latest).await?;
        tidy(store, before, head.size).await?;
    }
    Ok(saved)
}

/// The head's checkpoint, signed by a writer that the chain itself introduces.
///
/// # Errors
/// The ledger cannot be read, or the checkpoint is not signed so.
pub async fn signed_head(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    trusted: &[PublicKey],
) -> Result<Checkpoint, Error> {
    let mut epochs = Epochs::new(trusted);
    let kinds = [Kind::ChainGenesis.as_str(), Kind::WriterStarted.as_str()];
    for entry in reader.entries_of(&row.chain, &kinds).await? {
        let damaged = |damage| Error::Damaged(entry.seq, damage);
        let line = EntryLine::read(&entry.body).map_err(damaged)?;
        if line.is(Kind::ChainGenesis) {
            epochs.genesis(&line).map_err(damaged)?;
        } else {
            epochs.started(&line).map_err(damaged)?;
        }
    }
    let opened = epochs.checkpoint(&row.head.checkpoint);
    let (head, _) = opened.map_err(|damage| Error::Damaged(row.head.size, damage))?;
    if head.size == row.head.size {
        return Ok(head);
    }
    let damage = Damage::new("H1", "the checkpoint is not of the head's size");
    Err(Error::Damaged(row.head.size, damage))
}

fn old_head(note: &[u8], new: &Checkpoint) -> Result<Checkpoint, Error> {
    let invalid = |why: String| Error::File { name: CHECKPOINT.into(), why };
    let text = std::str::from_utf8(note).map_err(|e| invalid(e.to_string()))?;
    let (old, _) = Checkpoint::parse(text).map_err(|e| invalid(e.to_string()))?;
    if old.origin != new.origin {
        let why = format!("the archive is of `{}`, not of `{}`", old.origin, new.origin);
        return Err(Error::Foreign(why));
    }
    if old.size > new.size {
        let why = format!("the archive holds {}, the ledger {}", many(old.size, "entry"), new.size);
        return Err(Error::Foreign(why));
    }
    Ok(old)
}

/// The entry bundle beside a tile of leaf hashes.
async fn entries(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    place: Place,
    leaves: &[Digest],
) -> Result<Vec<u8>, Error> {
    let from = place.index.saturating_mul(WIDTH);
    let rows = reader.entries(&row.chain, from, GROUP).await?;
    let mut bodies = Vec::with_capacity(leaves.len());
    for (seq, leaf) in (from..).zip(leaves) {
        let there = rows.get(bodies.len()).filter(|row| row.seq == seq);
        let Some(entry) = there else { return Err(proofs::Error::Gone(seq).into()) };
        if Entry::leaf(&entry.body) != *leaf {
            let why = "the stored leaf hash is not that of the bytes";
            return Err(Error::Damaged(seq, Damage::new("D2", why)));
        }
        bodies.push(entry.body.as_slice());
    }
    let too_long =
        || Error::Damaged(from, Damage::new("E1", "an entry is longer than 65535 bytes"));
    tiles::bundle(bodies).ok_or_else(too_long)
}

async fn put(
    store: &dyn ArchiveStore,
    name: &str,
    bytes: &[u8],
    width: u64,
    saved: &mut Saved,
) -> Result<(), Error> {
    if let Some(there) = store.get(name).await? {
        // Within one history the bytes under a name never change, not even those of a partial tile.
        return if there == bytes { Ok(()) } else { Err(Error::Differs(name.to_owned())) };
    }
    let keep = if width == WIDTH { Keep::Forever } else { Keep::Latest };
    store.put(name, bytes, keep).await?;
    saved.files = saved.files.saturating_add(1);
    saved.bytes = saved.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    Ok(())
}

/// Removes the partial tiles of the previous checkpoint, which no reader needs any more.
async fn tidy(store: &dyn ArchiveStore, before: Seq, now: Seq) -> Result<(), Error> {
    for place in tiles::places(before) {
        let width = place.width(before);
        if width < WIDTH && width != place.width(now) {
            store.remove(&place.path(width)).await?;
            if place.level == 0 {
                store.remove(&tiles::entries_path(place.index, width)).await?;
            }
        }
    }
    Ok(())
}

/// Checks that the archive holds exactly the entries `from .. to` of this chain; both are multiples
/// of 256.
///
/// # Errors
/// Something is missing or differs from the ledger, whose own leaf hashes are proven first.
pub async fn holds(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    trusted: &[PublicKey],
    store: &dyn ArchiveStore,
    (from, to): (Seq, Seq),
) -> Result<Checkpoint, Error> {
    let head = signed_head(reader, row, trusted).await?;
    let prover = Prover::for_head(reader, &row.chain, &head).await?;
    let missing = |name: String| Error::File { name, why: "not in the archive".into() };
    let note = store.get(CHECKPOINT).await?.ok_or_else(|| missing(CHECKPOINT.into()))?;
    let kept = old_head(&note, &head)?;
    if kept.size < to {
        let why = format!("the archive holds {} only", many(kept.size, "entry"));
        return Err(Error::Foreign(why));
    }
    prover.consistency(kept.size).await?;
    if prover.root_at(kept.size).await? != kept.root {
        return Err(Error::Foreign("the archive holds another history".into()));
    }
    for index in from / WIDTH..to / WIDTH {
        let place = Place { level: 0, index };
        let leaves = prover.tile(place).await?;
        let name = place.path(WIDTH);
        let tile = store.get(&name).await?.ok_or_else(|| missing(name.clone()))?;
        if tile != tiles::tile_bytes(&leaves) {
            return Err(Error::Differs(name));
        }
        let name = tiles::entries_path(index, WIDTH);
        let bundle = store.get(&name).await?.ok_or_else(|| missing(name.clone()))?;
        let held = tiles::unbundle(&bundle, WIDTH)
            .map(|entries| entries.into_iter().map(merkle::leaf_hash).collect::<Vec<Digest>>());
        if held.as_deref() != Some(leaves.as_slice()) {
            return Err(Error::Differs(name));
        }
    }
    // This proves that these leaves are under the signed head; the root at `to` is the result.
    prover.consistency(to).await?;
    Ok(Checkpoint { origin: head.origin, size: to, root: prover.root_at(to).await? })
}
