//! Trees in tiles of 256 hashes (c2sp.org/tlog-tiles), and proofs that read few of them.
//!
//! The tile of level `L` and index `N` holds the nodes of height `8·L` from place `256·N` on; level
//! 0 has the leaf hashes. Entry bundles hold the entries themselves in the same groups. Every proof
//! of RFC 6962 is a list of subtrees, and every subtree is made of nodes in a handful of tiles:
//! building one reads O(256·levels) hashes, however large the tree is.

use std::collections::{BTreeMap, BTreeSet};

use super::merkle::{self, node_hash};
use super::range::{HashReader, Node, cover};
use crate::domain::digest::Digest;

/// Hashes of a full tile.
pub const WIDTH: u64 = 256;
/// Levels of the tree between two levels of tiles.
pub const HEIGHT: u32 = 8;
/// Levels of tiles: trees of more than 2^40 entries are not written.
pub const LEVELS: u32 = 5;
/// The most bytes of one entry in a bundle: its length has two bytes.
pub const ENTRY_MAX: usize = 65_535;

/// The place of a tile.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// 0 for leaf hashes.
    pub level: u32,
    /// Its place among the tiles of the level.
    pub index: u64,
}

impl Place {
    /// The tile with the hashes from which a node is computed.
    pub const fn of(node: Node) -> Self {
        let level = node.height / HEIGHT;
        Self { level, index: (node.index << (node.height % HEIGHT)) / WIDTH }
    }

    /// How many hashes the tile has in a tree of this size, 0 to 256.
    pub fn width(self, size: u64) -> u64 {
        let nodes = size.checked_shr(self.level.saturating_mul(HEIGHT)).unwrap_or(0);
        nodes.saturating_sub(self.index.saturating_mul(WIDTH)).min(WIDTH)
    }

    /// `tile/<L>/<N>`, with `.p/<W>` if it is not full.
    pub fn path(self, width: u64) -> String {
        format!("tile/{}/{}", self.level, number(self.index, width))
    }
}

/// `tile/entries/<N>`, with `.p/<W>` if it is not full.
pub fn entries_path(index: u64, width: u64) -> String {
    format!("tile/entries/{}", number(index, width))
}

/// Three digits a path element, all but the last after an `x`.
fn number(index: u64, width: u64) -> String {
    let mut text = format!("{:03}", index % 1000);
    let mut rest = index / 1000;
    while rest > 0 {
        text = format!("x{:03}/{text}", rest % 1000);
        rest /= 1000;
    }
    if width < WIDTH { format!("{text}.p/{width}") } else { text }
}

/// Every tile of a tree of this size, lowest level first.
pub fn places(size: u64) -> impl Iterator<Item = Place> {
    (0..LEVELS).flat_map(move |level| {
        let nodes = size.checked_shr(level.saturating_mul(HEIGHT)).unwrap_or(0);
        (0..nodes.div_ceil(WIDTH)).map(move |index| Place { level, index })
    })
}

/// Some tiles of a tree, as far as they were read.
#[derive(Clone, Debug, Default)]
pub struct Tiles(BTreeMap<Place, Vec<Digest>>);

impl Tiles {
    /// Whether the tile was read.
    #[must_use]
    pub fn has(&self, place: Place) -> bool {
        self.0.contains_key(&place)
    }

    /// The hashes of a tile.
    pub fn get(&self, place: Place) -> Option<&[Digest]> {
        self.0.get(&place).map(Vec::as_slice)
    }

    /// Adds a tile.
    pub fn put(&mut self, place: Place, hashes: Vec<Digest>) {
        self.0.insert(place, hashes);
    }
}

impl HashReader for Tiles {
    fn node(&self, node: Node) -> Option<Digest> {
        let place = Place::of(node);
        let within = node.height % HEIGHT;
        let first = (node.index << within).checked_sub(place.index.checked_mul(WIDTH)?)?;
        let (first, count) = (usize::try_from(first).ok()?, 1_usize.checked_shl(within)?);
        let hashes = self.0.get(&place)?.get(first..first.checked_add(count)?)?;
        Some(merkle::root(hashes))
    }
}

/// A proof as a list of subtrees, each from its first leaf up to the second number.
pub type Spans = Vec<(u64, u64)>;

/// The subtrees of an audit path, lowest first; `None` if there is no such leaf.
pub fn inclusion_spans(index: u64, size: u64) -> Option<Spans> {
    if index >= size {
        return None;
    }
    let (mut from, mut to) = (0, size);
    let mut spans = Vec::new();
    while let Some(middle) = middle(from, to) {
        if index < middle {
            spans.push((middle, to));
            to = middle;
        } else {
            spans.push((from, middle));
            from = middle;
        }
    }
    spans.reverse();
    Some(spans)
}

/// The subtrees of a consistency proof; `None` unless `0 < old <= new`.
pub fn consistency_spans(old: u64, new: u64) -> Option<Spans> {
    if old == 0 || old > new {
        return None;
    }
    let (mut from, mut to) = (0, new);
    let mut spans = Vec::new();
    while old < to {
        let Some(middle) = middle(from, to) else { break };
        if old <= middle {
            spans.push((middle, to));
            to = middle;
        } else {
            spans.push((from, middle));
            from = middle;
        }
    }
    if from > 0 {
        spans.push((from, to));
    }
    spans.reverse();
    Some(spans)
}

/// The split of a subtree of two leaves or more: after the largest power of two below its size.
fn middle(from: u64, to: u64) -> Option<u64> {
    let leaves = to.checked_sub(from).filter(|leaves| *leaves > 1)?;
    from.checked_add(1 << leaves.checked_sub(1)?.checked_ilog2()?)
}

/// The tiles from which these subtrees are computed.
pub fn tiles_of(spans: &[(u64, u64)]) -> BTreeSet<Place> {
    spans.iter().flat_map(|(from, to)| cover(*from, *to)).map(Place::of).collect()
}

/// The root of one subtree.
pub fn span_root<R: HashReader + ?Sized>(reader: &R, (from, to): (u64, u64)) -> Option<Digest> {
    let nodes: Option<Vec<Digest>> =
        cover(from, to).into_iter().map(|node| reader.node(node)).collect();
    let mut nodes = nodes?.into_iter().rev();
    let last = nodes.next()?;
    Some(nodes.fold(last, |right, left| node_hash(&left, &right)))
}

/// The roots of these subtrees, in order: a proof.
pub fn prove<R: HashReader + ?Sized>(reader: &R, spans: &[(u64, u64)]) -> Option<Vec<Digest>> {
    spans.iter().map(|span| span_root(reader, *span)).collect()
}

/// The bytes of a tile.
pub fn tile_bytes(hashes: &[Digest]) -> Vec<u8> {
    hashes.iter().flat_map(|hash| *hash.as_bytes()).collect()
}

/// The hashes of a tile of this width; `None` if the bytes have another length.
pub fn tile_hashes(bytes: &[u8], width: u64) -> Option<Vec<Digest>> {
    let expected = usize::try_from(width.checked_mul(32)?).ok()?;
    if bytes.len() != expected {
        return None;
    }
    bytes.chunks(32).map(|chunk| Some(Digest::from_bytes(chunk.try_into().ok()?))).collect()
}

/// The bytes of an entry bundle: each entry after its length in two bytes, big-endian; `None` if an
/// entry is longer than [`ENTRY_MAX`].
pub fn bundle<'a>(entries: impl IntoIterator<Item = &'a [u8]>) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for entry in entries {
        bytes.extend_from_slice(&u16::try_from(entry.len()).ok()?.to_be_bytes());
        bytes.extend_from_slice(entry);
    }
    Some(bytes)
}

/// The entries of a bundle of this width; `None` if it ends early, has more bytes, or holds another
/// number.
pub fn unbundle(mut bytes: &[u8], width: u64) -> Option<Vec<&[u8]>> {
    let mut entries = Vec::new();
    for _ in 0..width {
        let (length, rest) = bytes.split_first_chunk::<2>()?;
        let (entry, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        entries.push(entry);
        bytes = rest;
    }
    bytes.is_empty().then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::consistency::{consistency_proof, verifies_consistency};
    use crate::merkle::{inclusion_proof, leaf_hash, root, verifies_inclusion};
    use proptest::prelude::*;

    fn leaves(n: u64) -> Vec<Digest> {
        (0..n).map(|i| leaf_hash(&i.to_be_bytes())).collect()
    }

    fn at(n: u64) -> usize {
        usize::try_from(n).unwrap()
    }

    /// All tiles of a tree.
    fn tiled(all: &[Digest]) -> Tiles {
        let size = all.len() as u64;
        let mut tiles = Tiles::default();
        for place in places(size) {
            let from = place.index * WIDTH;
            let hashes = (from..from + place.width(size)).map(|index| match place.level {
                0 => all[at(index)],
                level => all.node(Node { height: level * HEIGHT, index }).unwrap(),
            });
            tiles.put(place, hashes.collect());
        }
        tiles
    }

    #[test]
    fn paths_are_those_of_the_specification() {
        let place = |level, index| Place { level, index };
        assert_eq!(place(0, 0).path(256), "tile/0/000");
        assert_eq!(place(1, 1_234_067).path(256), "tile/1/x001/x234/067");
        assert_eq!(place(3, 42).path(7), "tile/3/042.p/7");
        assert_eq!(entries_path(1000, 256), "tile/entries/x001/000");
        assert_eq!(entries_path(0, 112), "tile/entries/000.p/112");
    }

    #[test]
    fn a_tree_of_70000_has_the_tiles_of_the_specification() {
        // The example of the specification.
        let all: Vec<(Place, u64)> = places(70_000).map(|p| (p, p.width(70_000))).collect();
        let of = |level| all.iter().filter(move |(p, _)| p.level == level);
        assert_eq!((of(0).count(), of(0).next_back().unwrap().1), (274, 112));
        assert_eq!((of(1).count(), of(1).next_back().unwrap().1), (2, 17));
        assert_eq!((of(2).count(), of(2).next_back().unwrap().1), (1, 1));
        assert_eq!(all.len(), 277);
    }

    #[test]
    fn bundles_and_tiles_come_back_and_nothing_else_is_read_as_one() {
        let entries: [&[u8]; 3] = [b"one", b"", &[7; 300]];
        let bytes = bundle(entries).unwrap();
        assert_eq!(&bytes[..5], b"\0\x03one");
        assert_eq!(unbundle(&bytes, 3).unwrap(), entries);
        assert!(unbundle(&bytes, 2).is_none() && unbundle(&bytes, 4).is_none());
        assert!(unbundle(&bytes[..bytes.len() - 1], 3).is_none());
        let long = vec![0; ENTRY_MAX + 1];
        assert!(bundle([long.as_slice()]).is_none());
        let all = leaves(5);
        assert_eq!(tile_hashes(&tile_bytes(&all), 5).unwrap(), all);
        assert!(tile_hashes(&tile_bytes(&all), 4).is_none());
    }

    #[test]
    fn proofs_of_small_trees_are_those_of_the_definition() {
        for size in 1..80_u64 {
            let all = leaves(size);
            let tiles = tiled(&all);
            for index in 0..size {
                let spans = inclusion_spans(index, size).unwrap();
                assert_eq!(prove(&tiles, &spans), inclusion_proof(&all, at(index)));
                let spans = consistency_spans(index + 1, size).unwrap();
                assert_eq!(prove(&tiles, &spans), consistency_proof(&all, at(index + 1)));
            }
            assert!(inclusion_spans(size, size).is_none());
            assert!(
                consistency_spans(size + 1, size).is_none() && consistency_spans(0, 1).is_none()
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
        #[test]
        fn proofs_from_tiles_hold_read_few_hashes_and_agree_with_anothers(
            size in 257..70_000_u64, a in any::<prop::sample::Index>(), b in any::<prop::sample::Index>(),
        ) {
            let all = leaves(size);
            let tiles = tiled(&all);
            let top = root(&all);
            let (index, old) = (a.index(at(size)) as u64, b.index(at(size)) as u64 + 1);
            let spans = inclusion_spans(index, size).unwrap();
            let path = prove(&tiles, &spans).unwrap();
            prop_assert!(verifies_inclusion(&all[at(index)], index, size, &path, &top));
            prop_assert!(path.len() as u64 <= u64::from(size.next_power_of_two().ilog2()));
            let read: u64 = tiles_of(&spans).iter().map(|place| place.width(size)).sum();
            // A tile for every level of the leaf, and one for every level of the right edge.
            prop_assert!(read <= 2 * WIDTH * u64::from(LEVELS), "{read} hashes read");
            let spans = consistency_spans(old, size).unwrap();
            let path = prove(&tiles, &spans).unwrap();
            let old_root = root(&all[..at(old)]);
            prop_assert!(verifies_consistency(old, size, &old_root, &top, &path));
            let mut theirs = ct_merkle::mem_backed_tree::MemoryBackedTree::<sha2::Sha256, [u8; 8]>::new();
            (0..size).for_each(|i| theirs.push(i.to_be_bytes()));
            let root_of_theirs = theirs.root();
            prop_assert_eq!(root_of_theirs.as_bytes().as_slice(), top.as_bytes());
            let flat = |path: &[Digest]| -> Vec<u8> { tile_bytes(path) };
            if old < size {
                let proof = theirs.prove_consistency(at(size - old));
                prop_assert_eq!(proof.as_bytes().to_vec(), flat(&path));
            }
            let path = prove(&tiles, &inclusion_spans(index, size).unwrap()).unwrap();
            let proof = theirs.prove_inclusion(at(index));
            prop_assert_eq!(proof.as_bytes().to_vec(), flat(&path));
        }
    }
}
