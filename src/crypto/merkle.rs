//! RFC 6962 Merkle trees: leaf and node hashes, a frontier that grows, inclusion proofs.

use super::range::Node;
use super::tiles;
use crate::domain::digest::Digest;

/// Hash of a leaf: SHA-256(0x00 || bytes).
pub fn leaf_hash(bytes: &[u8]) -> Digest {
    Digest::of(&[&[0x00], bytes])
}

/// Hash of an inner node: SHA-256(0x01 || left || right).
pub fn node_hash(left: &Digest, right: &Digest) -> Digest {
    Digest::of(&[&[0x01], left.as_bytes(), right.as_bytes()])
}

/// Root of the empty tree: SHA-256 of nothing.
pub fn empty_root() -> Digest {
    Digest::of(&[])
}

/// The roots of the perfect subtrees of a growing tree, largest first: all that appending needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Frontier {
    size: u64,
    peaks: Vec<Digest>,
}

impl Frontier {
    /// The frontier stored as `size` and the concatenated 32-byte peaks.
    pub fn from_bytes(size: u64, bytes: &[u8]) -> Option<Self> {
        let peaks: Vec<Digest> = bytes
            .chunks(32)
            .map(|chunk| <[u8; 32]>::try_from(chunk).map(Digest::from_bytes))
            .collect::<Result<_, _>>()
            .ok()?;
        Self::from_peaks(size, peaks)
    }

    /// The frontier of `size` leaves with these peaks, largest first; `None` if their number is
    /// wrong.
    pub fn from_peaks(size: u64, peaks: Vec<Digest>) -> Option<Self> {
        (u32::try_from(peaks.len()).ok()? == size.count_ones()).then_some(Self { size, peaks })
    }

    /// The peaks, concatenated.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.peaks.iter().flat_map(|p| *p.as_bytes()).collect()
    }

    /// Leaves so far.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Adds one leaf hash.
    pub fn push(&mut self, leaf: Digest) {
        self.push_telling(leaf, &mut |_, _| ());
    }

    /// Adds one leaf hash, and reports every inner node that it completes, lowest first.
    pub fn push_telling(&mut self, leaf: Digest, completed: &mut dyn FnMut(Node, Digest)) {
        let mut node = leaf;
        // Each trailing one-bit of the old size is a perfect subtree that the new leaf completes.
        for height in 1..=self.size.trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = node_hash(&left, &node);
                completed(Node { height, index: self.size >> height }, node);
            }
        }
        self.peaks.push(node);
        self.size = self.size.saturating_add(1);
    }

    /// Adds a perfect subtree of this height by its root. Returns `false` and adds nothing unless
    /// such a subtree may begin at the end of the frontier.
    #[must_use]
    pub fn push_subtree(&mut self, height: u32, root: Digest) -> bool {
        let Some(leaves) = 1_u64.checked_shl(height) else { return false };
        let Some(size) = self.size.checked_add(leaves) else { return false };
        if self.size & leaves.wrapping_sub(1) != 0 {
            return false;
        }
        let mut node = root;
        for _ in 0..(self.size >> height).trailing_ones() {
            if let Some(left) = self.peaks.pop() {
                node = node_hash(&left, &node);
            }
        }
        self.peaks.push(node);
        self.size = size;
        true
    }

    /// The root over all leaves.
    pub fn root(&self) -> Digest {
        let mut peaks = self.peaks.iter().rev();
        peaks.next().map_or_else(empty_root, |last| {
            peaks.fold(*last, |right, left| node_hash(left, &right))
        })
    }
}

/// The largest power of two below `n` (n ≥ 2).
/// Root over these leaf hashes.
pub fn root(leaves: &[Digest]) -> Digest {
    let mut frontier = Frontier::default();
    for leaf in leaves {
        frontier.push(*leaf);
    }
    frontier.root()
}

/// The audit path of one leaf (RFC 6962 §2.1.1), lowest sibling first; `None` if the leaf does not
/// exist.
pub fn inclusion_proof(leaves: &[Digest], index: usize) -> Option<Vec<Digest>> {
    let (index, size) = (u64::try_from(index).ok()?, u64::try_from(leaves.len()).ok()?);
    tiles::prove(leaves, &tiles::inclusion_spans(index, size)?)
}

/// Audit paths of several leaves of one tree, each subtree hashed once.
#[derive(Debug)]
pub struct Prover {
    levels: Vec<Vec<Digest>>,
}

impl Prover {
    /// Hashes the whole tree over these leaves, level by level.
    pub fn new(leaves: Vec<Digest>) -> Self {
        let mut levels = vec![leaves];
        while let Some(last) = levels.last().filter(|level| level.len() > 1) {
            let next = last
                .chunks(2)
                .map(|pair| match pair {
                    [left, right] => node_hash(left, right),
                    // An odd node moves up unchanged: the same tree as RFC 6962's.
                    [only, ..] => *only,
                    [] => empty_root(),
                })
                .collect();
            levels.push(next);
        }
        Self { levels }
    }

    /// Root over all leaves.
    pub fn root(&self) -> Digest {
        self.levels.last().and_then(|top| top.first()).copied().unwrap_or_else(empty_root)
    }

    /// The audit path of one leaf, lowest sibling first.
    pub fn inclusion_proof(&self, index: usize) -> Option<Vec<Digest>> {
        self.levels.first()?.get(index)?;
        let mut path = Vec::new();
        let mut index = index;
        for level in &self.levels {
            if let Some(sibling) = level.get(index ^ 1) {
                path.push(*sibling);
            }
            index >>= 1;
        }
        Some(path)
    }
}

/// Whether this leaf hash is at this index of the tree of this size and root (RFC 9162 §2.1.3.2).
#[must_use]
pub fn verifies_inclusion(
    leaf: &Digest,
    index: u64,
    size: u64,
    path: &[Digest],
    root: &Digest,
) -> bool {
    if index >= size {
        return false;
    }
    let mut node_index = index;
    let Some(mut last) = size.checked_sub(1) else { return false };
    let mut node = *leaf;
    for sibling in path {
        if last == 0 {
            return false;
        }
        if node_index & 1 == 1 || node_index == last {
            node = node_hash(sibling, &node);
            while node_index & 1 == 0 && node_index != 0 {
                node_index >>= 1;
                last >>= 1;
            }
        } else {
            node = node_hash(&node, sibling);
        }
        node_index >>= 1;
        last >>= 1;
    }
    last == 0 && node == *root
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(n: usize) -> Vec<Digest> {
        (0..n).map(|i| leaf_hash(&i.to_be_bytes())).collect()
    }

    #[test]
    fn roots_and_proofs_agree_with_an_independent_implementation() {
        use ct_merkle::mem_backed_tree::MemoryBackedTree;
        for n in 1..70_usize {
            let mut theirs = MemoryBackedTree::<sha2::Sha256, [u8; 8]>::new();
            for i in 0..n {
                theirs.push(i.to_be_bytes());
            }
            let ours = leaves(n);
            assert_eq!(theirs.root().as_bytes().as_slice(), root(&ours).as_bytes());
            let prover = Prover::new(ours.clone());
            for i in 0..n {
                let flat: Vec<u8> =
                    inclusion_proof(&ours, i).unwrap().iter().flat_map(|d| *d.as_bytes()).collect();
                assert_eq!(theirs.prove_inclusion(i).as_bytes(), flat.as_slice());
                assert_eq!(prover.inclusion_proof(i), inclusion_proof(&ours, i));
            }
        }
    }

    #[test]
    fn a_proof_holds_for_its_own_leaf_index_and_size_only() {
        for n in 1..40_usize {
            let all = leaves(n);
            let top = root(&all);
            for i in 0..n {
                let path = inclusion_proof(&all, i).unwrap();
                let (index, size) = (i as u64, n as u64);
                assert!(verifies_inclusion(&all[i], index, size, &path, &top));
                assert!(!verifies_inclusion(&leaf_hash(b"other"), index, size, &path, &top));
                for other in (0..n).filter(|j| *j != i) {
                    assert!(!verifies_inclusion(&all[i], other as u64, size, &path, &top));
                }
                let mut longer = path.clone();
                longer.push(top);
                assert!(!verifies_inclusion(&all[i], index, size, &longer, &top));
            }
        }
    }

    #[test]
    fn a_frontier_read_back_grows_into_the_same_tree() {
        let all = leaves(33);
        let mut frontier = Frontier::default();
        for (i, leaf) in all.iter().enumerate() {
            frontier = Frontier::from_bytes(frontier.size(), &frontier.to_bytes()).unwrap();
            frontier.push(*leaf);
            assert_eq!(frontier.root(), root(&all[..=i]));
        }
        assert!(Frontier::from_bytes(3, &[0; 32]).is_none());
    }
}
