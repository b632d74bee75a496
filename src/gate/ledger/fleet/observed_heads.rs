//! Compares what others have seen of this ledger with its content, so that the gate does not
//! continue a storage that was set back or replaced.

use std::path::{Path, PathBuf};

use super::super::spool::Watermark;
use super::super::store::{FleetView, HeadRow, Leased, LedgerStore, StoreError, next_origin};
use super::file::AnchorFile;
use super::port::WitnessSight;
use crate::crypto::merkle::Frontier;
use crate::crypto::note::Checkpoint;
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::domain::plural::many;
use crate::record::Entry;
use crate::record::fleet::{ChainCheckpoint, ChainEnrolled, ChainRetired};

/// Leaf hashes fetched at a time.
const PAGE: u32 = 10_000;

/// Why a chain is not continued.
#[derive(Debug)]
pub enum Doubt {
    /// It is not known yet; try again.
    Later(SightError),
    /// A party has seen entries that are missing. Names both sizes and the party.
    Lost(Box<LostEntry>),
}

/// Why it is not yet known what others have seen.
#[derive(Debug, thiserror::Error)]
pub enum SightError {
    /// The storage.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The anchor file exists and cannot be read.
    #[error("the anchor file `{}`: {source}", file.display())]
    AnchorFile {
        /// Where it is.
        file: PathBuf,
        /// What is wrong with it.
        source: std::io::Error,
    },
}

impl From<StoreError> for Doubt {
    fn from(error: StoreError) -> Self {
        Self::Later(error.into())
    }
}

/// Something that a party has seen and that the ledger lacks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostEntry {
    /// The log.
    pub log: String,
    /// Entries it had at that time, and its root if known.
    pub seen: (u64, Option<Digest>),
    /// Entries there are now.
    pub here: u64,
    /// The log is long enough but has another history.
    pub forked: bool,
    /// The party that has seen it.
    pub by: String,
}

impl std::fmt::Display for LostEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { log, seen: (seen, _), here, by, .. } = self;
        let here = many(here, "entry");
        if self.forked {
            return write!(
                f,
                "the ledger holds another history of `{log}`: {here}, of which the first \
                 {seen} are not those that {by} has seen"
            );
        }
        write!(f, "the ledger was rolled back: it has {here} of `{log}`, {by} has seen {seen}")
    }
}

/// What the fleet log records about a log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LogRecord {
    /// The chain it was enrolled with.
    pub chain: Option<ChainId>,
    /// The newest head recorded.
    pub head: Option<(u64, Digest)>,
    /// It was retired.
    pub retired: bool,
}

impl LogRecord {
    /// Reads the newest entries about one log.
    pub fn read<'a>(bodies: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut record = Self::default();
        for entry in bodies.into_iter().filter_map(|body| Entry::parse(body).ok()) {
            if let Some(enrolled) = entry.draft.get::<ChainEnrolled>() {
                record.chain = Some(enrolled.chain);
            } else if let Some(head) = entry.draft.get::<ChainCheckpoint>() {
                record.chain = Some(head.chain);
                record.head = Some((head.size.get(), head.root.0));
            } else if let Some(retired) = entry.draft.get::<ChainRetired>() {
                record.chain = Some(retired.chain);
                record.retired = true;
            }
        }
        record
    }
}

/// Compares a slot that was taken, with its head after healing, with everything that was seen of
/// it: by this machine, by the fleet log in the same storage, in the anchor file, and by witnesses.
///
/// # Errors
/// [`Doubt`].
pub async fn check(
    store: &dyn LedgerStore,
    leased: &Leased,
    head: &HeadRow,
    mark: Option<&Watermark>,
    (anchor_file, witnesses): (Option<&Path>, &[WitnessSight]),
) -> Result<(), Doubt> {
    let before = mark.filter(|mark| mark.chain != leased.key.chain);
    let view = store.fleet_view(&leased.key, before.map(|mark| &mark.chain)).await?;
    if let Some(mark) = before.filter(|_| view.forgotten) {
        let log = if mark.origin.is_empty() { mark.chain.to_string() } else { mark.origin.clone() };
        return Err(lost(log, (mark.size, Some(mark.root)), 0, "this machine"));
    }
    own(store, leased, head, &view).await?;
    // WHY: a storage set back to before its first fleet log cannot name one.
    let first = leased.origin.split('/').take(2).chain([super::POOL]).collect::<Vec<_>>().join("/");
    let origin = view.fleet.as_ref().map_or(&first, |(origin, _)| origin);
    for (by, seen) in others(origin, anchor_file, witnesses).await.map_err(Doubt::Later)? {
        fleet(store, leased, &view, &seen, &by).await?;
    }
    Ok(())
}

/// The newest heads of a fleet log that the anchor file and the witnesses have, each with its
/// source.
///
/// # Errors
/// The anchor file exists and cannot be read.
pub async fn others(
    origin: &str,
    anchor_file: Option<&Path>,
    witnesses: &[WitnessSight],
) -> Result<Vec<(String, Checkpoint)>, SightError> {
    let mut seen = Vec::new();
    if let Some(path) = anchor_file {
        let by = format!("the anchor file `{}`", path.display());
        let file = AnchorFile::load(path)
            .map_err(|source| SightError::AnchorFile { file: path.to_owned(), source })?;
        seen.extend(file.and_then(|file| file.head()).map(|head| (by, head)));
    }
    for witness in witnesses {
        seen.extend(witness.newest(origin).await.map(|head| (witness.name(), head)));
    }
    Ok(seen)
}

fn lost(log: String, seen: (u64, Option<Digest>), here: u64, by: &str) -> Doubt {
    Doubt::Lost(Box::new(LostEntry { log, seen, here, forked: false, by: by.to_owned() }))
}

fn forked(log: &str, seen: (u64, Option<Digest>), here: u64, by: &str) -> Doubt {
    let (log, by) = (log.to_owned(), by.to_owned());
    Doubt::Lost(Box::new(LostEntry { log, seen, here, forked: true, by }))
}

/// What the fleet log records about the chain itself.
async fn own(
    store: &dyn LedgerStore,
    leased: &Leased,
    head: &HeadRow,
    view: &FleetView,
) -> Result<(), Doubt> {
    let record = LogRecord::read(view.entries.iter().map(Vec::as_slice));
    let (log, by) = (&leased.origin, "the fleet log");
    let seen = record.head.map_or((0, None), |(size, root)| (size, Some(root)));
    if record.retired || record.chain.is_some_and(|chain| chain != leased.key.chain) {
        return Err(forked(log, seen, head.size, by));
    }
    let Some((size, root)) = record.head else { return Ok(()) };
    if size > head.size {
        return Err(lost(log.clone(), seen, head.size, by));
    }
    let note = store.signed_at(&leased.key, size).await?;
    let here = note.as_deref().and_then(|note| Checkpoint::parse(note).ok());
    match here {
        Some((here, _)) if here.root == root => Ok(()),
        _ => Err(forked(log, seen, head.size, by)),
    }
}

/// Compares the fleet log in the storage with a head of it that another party has seen.
///
/// # Errors
/// [`Doubt`].
pub async fn fleet(
    store: &dyn LedgerStore,
    leased: &Leased,
    view: &FleetView,
    seen: &Checkpoint,
    by: &str,
) -> Result<(), Doubt> {
    let what = (seen.size, Some(seen.root));
    let Some((origin, size)) = &view.fleet else {
        return Err(lost(seen.origin.clone(), what, 0, by));
    };
    if *origin != seen.origin {
        // A fleet log restarted after a loss is newer than any head of its predecessor.
        let mut next = next_origin(&seen.origin);
        while let Some((name, _)) = next.filter(|(_, n)| *n < 1000) {
            if name == *origin {
                return Ok(());
            }
            next = next_origin(&name);
        }
        return Err(lost(seen.origin.clone(), what, 0, by));
    }
    if *size < seen.size {
        return Err(lost(origin.clone(), what, *size, by));
    }
    let mut tree = Frontier::default();
    while tree.size() < seen.size {
        let leaves = store.fleet_leaves(&leased.key, tree.size(), PAGE).await?;
        if leaves.is_empty() {
            return Err(lost(origin.clone(), what, tree.size(), by));
        }
        for leaf in leaves {
            if tree.size() < seen.size {
                tree.push(leaf);
            }
        }
    }
    if tree.root() == seen.root { Ok(()) } else { Err(forked(origin, what, *size, by)) }
}
