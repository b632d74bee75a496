//! Proofs under one signed head, from stored subtrees where they exist.
//!
//! A proof reads a handful of tiles instead of every leaf. Stored subtrees are derived and prove
//! nothing by themselves: every proof is checked against the checkpoint's root before it is handed
//! out. A proof that fails with stored subtrees is built again from the leaf hashes alone.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;

use super::store::{LedgerReader, StoreError};
use crate::crypto::consistency::verifies_consistency;
use crate::crypto::merkle::{self, Frontier, verifies_inclusion};
use crate::crypto::note::Checkpoint;
use crate::crypto::range::{HashReader as _, Node, RangeProof, range_proof, verifies_range};
use crate::crypto::tiles::{self, HEIGHT, Place, Tiles, WIDTH};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Seq};
use crate::domain::plural::many;
use crate::record::debug_by;

/// Why there is no proof.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The request is not in the tree.
    #[error("the tree of {} has no {what}", many(size, "entry"))]
    Outside {
        /// Entries under the head.
        size: Seq,
        /// What was asked for.
        what: String,
    },
    /// A leaf that the proof needs is missing: pruned or deleted.
    #[error("the leaf hash of entry {0} is not there")]
    Gone(Seq),
    /// The stored leaf hashes do not match the checkpoint.
    #[error("the stored leaf hashes are not those of the checkpoint of size {0}")]
    Damaged(Seq),
}

/// Builds proofs in the tree under one checkpoint.
pub struct Prover<'a> {
    reader: &'a dyn LedgerReader,
    chain: ChainId,
    size: Seq,
    root: Digest,
    tiles: Mutex<Tiles>,
    /// Whether to use stored subtrees; cleared after one was wrong.
    stored: AtomicBool,
}

debug_by!(Prover<'_>: chain, size);

impl<'a> Prover<'a> {
    /// A prover of this chain under this checkpoint, whose signature the caller has checked.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the stored tree does not have the checkpoint's root.
    pub async fn for_head(
        reader: &'a dyn LedgerReader,
        chain: &ChainId,
        checkpoint: &Checkpoint,
    ) -> Result<Prover<'a>, Error> {
        let prover = Prover {
            reader,
            chain: *chain,
            size: checkpoint.size,
            root: checkpoint.root,
            tiles: Mutex::new(Tiles::default()),
            stored: AtomicBool::new(true),
        };
        let whole = async || -> Result<bool, Error> {
            Ok(prover.root_of((0, prover.size)).await? == prover.root)
        };
        let sound = whole().await? || (prover.distrust() && whole().await?);
        if sound { Ok(prover) } else { Err(Error::Damaged(checkpoint.size)) }
    }

    /// Entries under the head.
    pub const fn size(&self) -> Seq {
        self.size
    }

    /// Root over them.
    pub const fn root(&self) -> &Digest {
        &self.root
    }

    /// The stored leaf hash of an entry.
    ///
    /// # Errors
    /// It is missing, or the entry is not in the tree.
    pub async fn leaf(&self, seq: Seq) -> Result<Digest, Error> {
        self.outside(seq < self.size, || format!("entry {seq}"))?;
        self.root_of((seq, seq.saturating_add(1))).await
    }

    /// The audit path of one entry, lowest sibling first.
    ///
    /// # Errors
    /// The entry is not in the tree, or a required hash is missing or wrong.
    pub async fn inclusion(&self, seq: Seq) -> Result<Vec<Digest>, Error> {
        let spans = tiles::inclusion_spans(seq, self.size);
        let spans = spans.ok_or_else(|| self.no(format!("entry {seq}")))?;
        // WHY no closure: the future of an operator's request moves between threads, as in `consistency`.
        loop {
            let (leaf, path) = (self.leaf(seq).await?, self.roots(&spans).await?);
            if verifies_inclusion(&leaf, seq, self.size, &path, &self.root) {
                return Ok(path);
            }
            if !self.distrust() {
                return Err(Error::Damaged(self.size));
            }
        }
    }

    /// The proof that the first `old` entries are the whole older tree.
    ///
    /// # Errors
    /// `old` is 0 or beyond the head, or a required hash is missing or wrong.
    pub async fn consistency(&self, old: Seq) -> Result<Vec<Digest>, Error> {
        let spans = tiles::consistency_spans(old, self.size);
        let spans = spans.ok_or_else(|| self.no(older(old)))?;
        // WHY no closure as elsewhere: a witness calls this from a future that moves between
        // threads, and the future of an async closure cannot.
        loop {
            let (before, path) = (self.root_at(old).await?, self.roots(&spans).await?);
            if verifies_consistency(old, self.size, &before, &self.root, &path) {
                return Ok(path);
            }
            if !self.distrust() {
                return Err(Error::Damaged(self.size));
            }
        }
    }

    /// The proof that the entries `from .. to` are complete.
    ///
    /// # Errors
    /// The range is not in the tree, or a required hash is missing or wrong.
    pub async fn range(&self, from: Seq, to: Seq) -> Result<RangeProof, Error> {
        self.outside(from <= to && to <= self.size, || format!("range {from}..{to}"))?;
        let prove = async || -> Result<Option<RangeProof>, Error> {
            self.load(&[(0, from), (to, self.size)]).await?;
            let proof = {
                let tiles = self.tiles.lock();
                range_proof(&*tiles, from, to, self.size)
            };
            let proof = proof.ok_or(Error::Damaged(self.size))?;
            let leaves = self.leaves(from, to).await?;
            let place = (from, to, self.size);
            let holds = verifies_range(place, &leaves, &proof.left, &proof.right, &self.root);
            Ok(holds.then_some(proof))
        };
        self.twice(prove).await
    }

    /// The root over the first `size` entries.
    ///
    /// # Errors
    /// There are fewer, or a required hash is missing.
    pub async fn root_at(&self, size: Seq) -> Result<Digest, Error> {
        self.outside(size <= self.size, || older(size))?;
        self.root_of((0, size)).await
    }

    /// The root over the first `old` entries, checked by adding all later leaves up to the head:
    /// reads the new leaves and a handful of subtrees.
    ///
    /// # Errors
    /// [`Error::Damaged`] if the stored leaves do not lead to this head, [`Error::Gone`] if one of
    /// them is missing.
    pub async fn grown_from(&self, old: Seq) -> Result<Digest, Error> {
        self.outside(old <= self.size, || older(old))?;
        let new = self.leaves(old, self.size).await?;
        loop {
            let mut frontier = self.frontier(old).await?;
            let before = frontier.root();
            new.iter().for_each(|leaf| frontier.push(*leaf));
            if frontier.root() == self.root {
                return Ok(before);
            }
            if !self.distrust() {
                return Err(Error::Damaged(self.size));
            }
        }
    }

    /// The perfect subtrees of the first `size` entries.
    async fn frontier(&self, size: Seq) -> Result<Frontier, Error> {
        let (mut peaks, mut first) = (Vec::new(), 0_u64);
        for height in (0..u64::BITS).rev().filter(|height| (size >> height) & 1 == 1) {
            let node = Node { height, index: first >> height };
            first = node.end().ok_or(Error::Damaged(self.size))?;
            peaks.push(self.node(node).await?);
        }
        Frontier::from_peaks(size, peaks).ok_or(Error::Damaged(self.size))
    }

    /// The hashes of one tile under this head, in order; fewer than 256 at the right edge.
    ///
    /// # Errors
    /// A hash is missing.
    pub async fn tile(&self, place: Place) -> Result<Vec<Digest>, Error> {
        self.read(place).await
    }

    /// Stored leaf hashes of a range.
    async fn leaves(&self, from: Seq, to: Seq) -> Result<Vec<Digest>, Error> {
        let found = self.reader.leaves(&self.chain, from, to).await?;
        let mut leaves = Vec::with_capacity(found.len());
        for (expected, (seq, leaf)) in (from..to).zip(&found) {
            if expected != *seq {
                return Err(Error::Gone(expected));
            }
            leaves.push(*leaf);
        }
        match u64::try_from(leaves.len()) {
            Ok(count) if from.saturating_add(count) == to => Ok(leaves),
            Ok(count) => Err(Error::Gone(from.saturating_add(count))),
            Err(_) => Err(Error::Gone(from)),
        }
    }

    /// Tries with stored subtrees, then without.
    async fn twice<T>(
        &self,
        prove: impl AsyncFn() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        if let Some(proof) = prove().await? {
            return Ok(proof);
        }
        if self.distrust()
            && let Some(proof) = prove().await?
        {
            return Ok(proof);
        }
        Err(Error::Damaged(self.size))
    }

    /// From now on only leaf hashes count. Returns `false` if that was already so.
    fn distrust(&self) -> bool {
        *self.tiles.lock() = Tiles::default();
        self.stored.swap(false, Ordering::Relaxed)
    }

    async fn roots(&self, spans: &[(Seq, Seq)]) -> Result<Vec<Digest>, Error> {
        self.load(spans).await?;
        tiles::prove(&*self.tiles.lock(), spans).ok_or(Error::Damaged(self.size))
    }

    async fn root_of(&self, span: (Seq, Seq)) -> Result<Digest, Error> {
        if span.0 == span.1 {
            return Ok(merkle::empty_root());
        }
        self.load(&[span]).await?;
        tiles::span_root(&*self.tiles.lock(), span).ok_or(Error::Damaged(self.size))
    }

    async fn load(&self, spans: &[(Seq, Seq)]) -> Result<(), Error> {
        let places: BTreeSet<Place> = tiles::tiles_of(spans);
        for place in places {
            let missing = !self.tiles.lock().has(place);
            if missing {
                let hashes = self.read(place).await?;
                self.tiles.lock().put(place, hashes);
            }
        }
        Ok(())
    }

    /// Reads one tile, and computes missing hashes from the level below.
    fn read(&self, place: Place) -> BoxFuture<'_, Result<Vec<Digest>, Error>> {
        Box::pin(async move {
            let from = place.index.saturating_mul(WIDTH);
            let to = from.saturating_add(place.width(self.size));
            let height = place.level.saturating_mul(HEIGHT);
            let mut known: Vec<(u64, Digest)> = Vec::new();
            if place.level == 0 {
                known = self.reader.leaves(&self.chain, from, to).await?;
            }
            let short =
                known.len() < usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX);
            // Leaf hashes outlive pruned entries as subtrees of height 0.
            if short && (place.level == 0 || self.stored.load(Ordering::Relaxed)) {
                let stored = self.reader.subtrees(&self.chain, height, from, to).await?;
                known.extend(stored.into_iter().map(|s| (s.node.index, s.hash)));
                known.sort_by_key(|(index, _)| *index);
                known.dedup_by_key(|(index, _)| *index);
            }
            let mut hashes = Vec::with_capacity(known.len());
            let mut known = known.into_iter().peekable();
            for index in from..to {
                match known.next_if(|(at, _)| *at == index) {
                    Some((_, hash)) => hashes.push(hash),
                    None if place.level == 0 => return Err(Error::Gone(index)),
                    None => {
                        let level = place.level.saturating_sub(1);
                        hashes.push(merkle::root(&self.read(Place { level, index }).await?));
                    }
                }
            }
            Ok(hashes)
        })
    }

    fn outside(&self, inside: bool, what: impl Fn() -> String) -> Result<(), Error> {
        if inside { Ok(()) } else { Err(self.no(what())) }
    }

    fn no(&self, what: String) -> Error {
        Error::Outside { size: self.size, what }
    }

    /// The root of one perfect subtree.
    ///
    /// # Errors
    /// It is not complete under this head, or a hash is missing.
    pub async fn node(&self, node: Node) -> Result<Digest, Error> {
        let (Some(from), Some(to)) = (node.first(), node.end()) else {
            return Err(self.no("such subtree".into()));
        };
        self.outside(to <= self.size, || format!("subtree {from}..{to}"))?;
        self.load(&[(from, to)]).await?;
        self.tiles.lock().node(node).ok_or(Error::Damaged(self.size))
    }
}

fn older(size: Seq) -> String {
    format!("older tree of {}", many(size, "entry"))
}
