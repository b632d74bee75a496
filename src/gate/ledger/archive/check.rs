//! Verifies a whole log from its files alone.

use std::collections::BTreeMap;

use super::storage::ArchiveStore;
use super::{CHECKPOINT, Error};
use crate::crypto::merkle::Frontier;
use crate::crypto::note::Checkpoint;
use crate::crypto::tiles::{self, HEIGHT, LEVELS, Place, WIDTH};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Seq};
use crate::domain::plural::many;
use crate::ledger::store::{EntryRow, HeadRow};
use crate::ledger::verify::fleet::Noted;
use crate::ledger::verify::kinds::{DamageKind, Finding};
use crate::ledger::verify::{Chain, Damage, EntryLine, Roots};
use crate::record::Entry;

/// The result of reading an archive.
#[derive(Clone, PartialEq, Debug)]
pub struct ArchiveReport {
    /// The log's name, as its checkpoint has it.
    pub origin: String,
    /// Entries read and found whole.
    pub entries: Seq,
    /// Root over them.
    pub root: Digest,
    /// Runs that are sealed.
    pub sealed: usize,
    /// Runs that are open.
    pub open: usize,
    /// Kinds this build does not know: their meaning is not checked.
    pub unknown: BTreeMap<String, u64>,
    /// Whether the genesis names a trusted enrolment key; `None` if no key was given to trust.
    pub enrolled: Option<bool>,
    /// The first finding and its place.
    pub finding: Option<Finding>,
}

/// Reads an archive from its first entry to its checkpoint, and checks everything.
///
/// # Errors
/// A file cannot be read, or there is no checkpoint. Damage is not an error: the report has it.
pub async fn archive(
    store: &dyn ArchiveStore,
    roots: Roots<'_>,
    heads: &[Noted],
) -> Result<ArchiveReport, Error> {
    let invalid = |why: String| Error::File { name: CHECKPOINT.into(), why };
    let note = store.get(CHECKPOINT).await?.ok_or_else(|| invalid("not in the archive".into()))?;
    let note = String::from_utf8(note).map_err(|e| invalid(e.to_string()))?;
    let (head, _) = Checkpoint::parse(&note).map_err(|e| invalid(e.to_string()))?;
    let mut reading = ArchiveReader {
        store,
        head: &head,
        chain: None,
        levels: vec![Vec::new(); usize::try_from(LEVELS).unwrap_or(0)],
        frontier: Frontier::default(),
        heads: heads.to_vec(),
    };
    let finding = match reading.all(roots, &note).await {
        Ok(()) => None,
        Err(ArchiveStop::Found(finding)) => Some(finding),
        Err(ArchiveStop::Error(error)) => return Err(error),
    };
    let chain =
        reading.chain.unwrap_or_else(|| Chain::new(ChainId::from_bytes([0; 16]), roots.trusted));
    let (sealed, open) = chain.runs();
    let enrolled = (!roots.trusted.is_empty())
        .then(|| chain.epochs().enrolment().is_some_and(|key| roots.trusted.contains(key)));
    Ok(ArchiveReport {
        origin: head.origin.clone(),
        entries: chain.size(),
        root: chain.root(),
        sealed,
        open,
        unknown: chain.unknown().clone(),
        enrolled,
        finding,
    })
}

enum ArchiveStop {
    Found(Finding),
    Error(Error),
}

impl From<Error> for ArchiveStop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn found(kind: DamageKind, seq: Seq, check: &'static str, why: String) -> ArchiveStop {
    ArchiveStop::Found(Finding { kind, seq, check, why })
}

struct ArchiveReader<'a> {
    store: &'a dyn ArchiveStore,
    head: &'a Checkpoint,
    chain: Option<Chain>,
    /// The nodes of each level of tiles, computed from the entries.
    levels: Vec<Vec<Digest>>,
    frontier: Frontier,
    heads: Vec<Noted>,
}

impl ArchiveReader<'_> {
    async fn all(&mut self, roots: Roots<'_>, note: &str) -> Result<(), ArchiveStop> {
        for index in 0..self.head.size.div_ceil(WIDTH) {
            self.group(index, roots).await?;
        }
        self.upper().await?;
        let size = self.head.size;
        if let Some(later) = self.heads.iter().find(|noted| noted.size > size) {
            let why = format!("{} says {}, {size} are there", later.by, many(later.size, "entry"));
            return Err(found(DamageKind::Rollback, size, "H2", why));
        }
        let chain = self.chain.as_ref();
        let head = HeadRow {
            size,
            hash: chain.and_then(Chain::leaf).unwrap_or_else(|| Digest::of(&[])),
            frontier: self.frontier.to_bytes(),
            checkpoint: note.to_owned(),
        };
        chain.map_or(Ok(()), |chain| {
            chain.finish(&head).map_err(|damage| {
                let signed = chain.epochs().checkpoint(note).is_ok();
                let kind = if signed { DamageKind::Edit } else { DamageKind::Signature };
                found(kind, size, damage.check, damage.why)
            })
        })
    }

    /// One entry bundle and the tile of its leaf hashes.
    async fn group(&mut self, index: u64, roots: Roots<'_>) -> Result<(), ArchiveStop> {
        let place = Place { level: 0, index };
        let (first, width) = (index.saturating_mul(WIDTH), place.width(self.head.size));
        let name = tiles::entries_path(index, width);
        let Some(bytes) = self.store.get(&name).await? else {
            return Err(self.gone(first, &name, index).await?);
        };
        let Some(entries) = tiles::unbundle(&bytes, width) else {
            let why = format!("`{name}` is no bundle of {width} entries");
            return Err(found(DamageKind::Edit, first, "E1", why));
        };
        let tile = self.tile(place, first).await?;
        for ((seq, body), stored) in (first..).zip(entries).zip(&tile) {
            self.entry(seq, body, stored, roots)?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        seq: Seq,
        body: &[u8],
        stored: &Digest,
        roots: Roots<'_>,
    ) -> Result<(), ArchiveStop> {
        let leaf = Entry::leaf(body);
        if leaf != *stored {
            let why = "the entry is not the one of the tile's hash".to_owned();
            return Err(found(DamageKind::Edit, seq, "E2", why));
        }
        let edited = |damage: Damage| {
            let kind = match damage.check {
                "E1" => DamageKind::Edit,
                _ => DamageKind::Rule,
            };
            found(kind, seq, damage.check, damage.why)
        };
        let line = EntryLine::read(body).map_err(edited)?;
        if line.entry.seq != seq {
            let why = format!("entry {} is here", line.entry.seq);
            return Err(found(DamageKind::Reorder, seq, "S2", why));
        }
        let row = EntryRow {
            seq,
            prev: line.entry.prev,
            leaf,
            run: line.entry.run.as_ref().map(|link| link.run),
            call: line.entry.draft.call.clone(),
            kind: line.kind().to_owned(),
            body: body.to_vec(),
        };
        let chain = self.chain.get_or_insert_with(|| {
            Chain::new(line.entry.chain, roots.trusted).revoking(roots.revoked)
        });
        chain.accept(&row).map_err(edited)?;
        let levels = &mut self.levels;
        self.frontier.push_telling(leaf, &mut |node, hash| {
            let level = usize::try_from(node.height / HEIGHT).ok();
            let level = level.filter(|_| node.height.is_multiple_of(HEIGHT));
            if let Some(nodes) = level.and_then(|level| levels.get_mut(level)) {
                nodes.push(hash);
            }
        });
        let (size, root) = (chain.size(), chain.root());
        match self.heads.iter().find(|noted| noted.size == size && noted.root != root) {
            None => Ok(()),
            Some(noted) => {
                let why = format!("{} has another root at size {size}", noted.by);
                Err(found(DamageKind::Fork, seq, "H2", why))
            }
        }
    }

    /// The tiles above the leaf hashes.
    async fn upper(&self) -> Result<(), ArchiveStop> {
        for place in tiles::places(self.head.size).filter(|place| place.level > 0) {
            let first = place.index.saturating_mul(WIDTH);
            let seq = first.checked_shl(place.level.saturating_mul(HEIGHT)).unwrap_or(0);
            let hashes = self.tile(place, seq).await?;
            let level = usize::try_from(place.level).ok().and_then(|level| self.levels.get(level));
            let skip = usize::try_from(first).unwrap_or(usize::MAX);
            let made = level.map(|nodes| nodes.iter().skip(skip).take(hashes.len()));
            if !made.is_some_and(|made| made.eq(&hashes)) {
                let why =
                    format!("`{}` is not of the entries", place.path(place.width(self.head.size)));
                return Err(found(DamageKind::Edit, seq, "E2", why));
            }
        }
        Ok(())
    }

    async fn tile(&self, place: Place, seq: Seq) -> Result<Vec<Digest>, ArchiveStop> {
        let width = place.width(self.head.size);
        let name = place.path(width);
        let Some(bytes) = self.store.get(&name).await? else {
            return Err(found(DamageKind::Deletion, seq, "S2", format!("`{name}` is not there")));
        };
        tiles::tile_hashes(&bytes, width).ok_or_else(|| {
            found(DamageKind::Edit, seq, "E2", format!("`{name}` is no tile of {width} hashes"))
        })
    }

    /// A bundle is missing: the end is cut off, unless a later bundle exists.
    async fn gone(&self, seq: Seq, name: &str, index: u64) -> Result<ArchiveStop, Error> {
        let last = self.head.size.div_ceil(WIDTH);
        let mut kind = DamageKind::Truncation;
        for later in index.saturating_add(1)..last {
            let width = Place { level: 0, index: later }.width(self.head.size);
            if self.store.get(&tiles::entries_path(later, width)).await?.is_some() {
                kind = DamageKind::Deletion;
                break;
            }
        }
        Ok(found(kind, seq, "S2", format!("`{name}` is not there")))
    }
}
