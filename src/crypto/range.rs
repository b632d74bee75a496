//! Contiguous range proofs: these leaves are all the leaves between two places of a tree.
//!
//! The proof of `[from, to)` in a tree of `size` leaves is the roots of the perfect subtrees on its
//! left (`left`, the peaks of the tree of `from` leaves, largest first) and of the maximal aligned
//! perfect subtrees that cover `[to, size)` (`right`, ascending). With the leaves of the range in
//! between they make the root, so that no leaf of the range can be missing, added or moved.

use super::merkle::Frontier;
use crate::domain::digest::Digest;

/// One perfect subtree: the node of this height at this place among the nodes of that height.
///
/// It covers the leaves `index << height .. (index + 1) << height`; height 0 is a leaf.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Node {
    /// Levels above the leaves.
    pub height: u32,
    /// Place among the nodes of this height.
    pub index: u64,
}

impl Node {
    /// The first leaf below the node; `None` if it lies beyond what a `u64` counts.
    pub fn first(self) -> Option<u64> {
        let first = self.index.checked_shl(self.height)?;
        (first.checked_shr(self.height)? == self.index).then_some(first)
    }

    /// The leaf after the last one below the node; `None` as for [`Node::first`].
    pub fn end(self) -> Option<u64> {
        self.first()?.checked_add(1_u64.checked_shl(self.height)?)
    }
}

/// The source of the hashes of completed nodes.
pub trait HashReader {
    /// The hash of a perfect subtree; `None` if the reader does not know it.
    fn node(&self, node: Node) -> Option<Digest>;
}

/// The leaf hashes of a whole tree: reads every node by hashing what is below it.
impl HashReader for [Digest] {
    fn node(&self, node: Node) -> Option<Digest> {
        let first = usize::try_from(node.first()?).ok()?;
        let end = usize::try_from(node.end()?).ok()?;
        Some(super::merkle::root(self.get(first..end)?))
    }
}

/// The maximal aligned perfect subtrees that cover the leaves `[from, to)`, ascending.
///
/// At most 2·log2(to) of them; from 0 they are the peaks of the tree of `to` leaves.
pub fn cover(from: u64, to: u64) -> Vec<Node> {
    let mut nodes = Vec::new();
    let mut at = from;
    while let Some(left) = to.checked_sub(at).filter(|left| *left > 0) {
        let fits = left.ilog2();
        let height = if at == 0 { fits } else { fits.min(at.trailing_zeros()) };
        nodes.push(Node { height, index: at >> height });
        at = at.saturating_add(1 << height);
    }
    nodes
}

/// A proof that the leaves `[from, to)` are exactly those of a tree at these places.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RangeProof {
    /// Peaks of the tree of `from` leaves, largest first.
    pub left: Vec<Digest>,
    /// Roots of the subtrees that cover `[to, size)`, ascending.
    pub right: Vec<Digest>,
}

/// The range proof of `[from, to)` in the tree of `size` leaves.
///
/// `None` unless `from <= to <= size` and the reader knows every node needed.
pub fn range_proof<R: HashReader + ?Sized>(
    reader: &R,
    from: u64,
    to: u64,
    size: u64,
) -> Option<RangeProof> {
    if from > to || to > size {
        return None;
    }
    let read = |nodes: Vec<Node>| -> Option<Vec<Digest>> {
        nodes.into_iter().map(|node| reader.node(node)).collect()
    };
    Some(RangeProof { left: read(cover(0, from))?, right: read(cover(to, size))? })
}

/// Whether these leaf hashes are all the leaves `[from, to)` of the tree of this size and root.
#[must_use]
pub fn verifies_range(
    (from, to, size): (u64, u64, u64),
    leaves: &[Digest],
    left: &[Digest],
    right: &[Digest],
    root: &Digest,
) -> bool {
    if from > to || to > size || u64::try_from(leaves.len()).ok() != to.checked_sub(from) {
        return false;
    }
    let Some(mut frontier) = Frontier::from_peaks(from, left.to_vec()) else { return false };
    for leaf in leaves {
        frontier.push(*leaf);
    }
    let nodes = cover(to, size);
    nodes.len() == right.len()
        && nodes.iter().zip(right).all(|(node, hash)| frontier.push_subtree(node.height, *hash))
        && frontier.size() == size
        && frontier.root() == *root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merkle::{leaf_hash, root};
    use proptest::prelude::*;

    fn leaves(n: u64) -> Vec<Digest> {
        (0..n).map(|i| leaf_hash(&i.to_be_bytes())).collect()
    }

    fn slice(all: &[Digest], from: u64, to: u64) -> &[Digest] {
        &all[usize::try_from(from).unwrap()..usize::try_from(to).unwrap()]
    }

    #[test]
    fn every_range_of_every_small_tree_is_proven_with_few_hashes() {
        for size in 0..36_u64 {
            let all = leaves(size);
            let top = root(&all);
            for from in 0..=size {
                for to in from..=size {
                    let proof = range_proof(all.as_slice(), from, to, size).unwrap();
                    let hashes = proof.left.len() + proof.right.len();
                    let bound = 2 * size.max(2).next_power_of_two().ilog2() as usize;
                    assert!(hashes <= bound, "{hashes} hashes for {from}..{to} of {size}");
                    let part = slice(&all, from, to);
                    let place = (from, to, size);
                    assert!(verifies_range(place, part, &proof.left, &proof.right, &top));
                }
            }
        }
    }

    #[test]
    fn a_range_beyond_the_tree_or_backwards_has_no_proof() {
        let all = leaves(9);
        assert!(range_proof(all.as_slice(), 3, 10, 9).is_none());
        assert!(range_proof(all.as_slice(), 5, 4, 9).is_none());
        assert!(range_proof(all.as_slice(), 0, 9, 12).is_none());
    }

    #[test]
    fn nodes_beyond_what_a_number_counts_are_none() {
        assert_eq!(Node { height: 64, index: 0 }.first(), None);
        assert_eq!(Node { height: 8, index: u64::MAX }.first(), None);
        assert_eq!(Node { height: 63, index: 1 }.end(), None);
        assert_eq!(cover(0, u64::MAX).len(), 64);
        assert_eq!(cover(1, u64::MAX).len(), 126);
    }

    proptest! {
        #[test]
        fn a_proof_holds_for_its_own_range_size_and_leaves_only(
            size in 1..600_u64, a in 0..600_u64, b in 0..600_u64, pick in any::<prop::sample::Index>(),
        ) {
            let (from, to) = (a.min(b).min(size), a.max(b).min(size));
            let all = leaves(size);
            let top = root(&all);
            let RangeProof { left, right } = range_proof(all.as_slice(), from, to, size).unwrap();
            let part = slice(&all, from, to).to_vec();
            prop_assert!(verifies_range((from, to, size), &part, &left, &right, &top));
            // The tree of one leaf more, and the next range of this one. A root alone does not show
            // its size; the checkpoint's signature binds the two.
            let larger = root(&leaves(size + 1));
            prop_assert!(!verifies_range((from, to, size + 1), &part, &left, &right, &larger));
            prop_assert!(!verifies_range((from, to, size), &part, &left, &right, &larger));
            if to < size && !part.is_empty() {
                prop_assert!(!verifies_range((from + 1, to + 1, size), &part, &left, &right, &top));
            }
            // another leaf, one fewer, two swapped
            if !part.is_empty() {
                let at = pick.index(part.len());
                let mut edited = part.clone();
                edited[at] = leaf_hash(b"edited");
                prop_assert!(!verifies_range((from, to, size), &edited, &left, &right, &top));
                let mut shorter = part.clone();
                shorter.remove(at);
                prop_assert!(!verifies_range((from, to, size), &shorter, &left, &right, &top));
                prop_assert!(!verifies_range((from, to - 1, size), &shorter, &left, &right, &top));
                let mut swapped = part.clone();
                swapped.swap(0, at);
                prop_assert_eq!(
                    verifies_range((from, to, size), &swapped, &left, &right, &top), at == 0
                );
            }
            // a damaged, shorter or longer proof
            for at_left in [true, false] {
                let mut longer = (left.clone(), right.clone());
                let mut shorter = longer.clone();
                (if at_left { &mut longer.0 } else { &mut longer.1 }).push(top);
                let gone = (if at_left { &mut shorter.0 } else { &mut shorter.1 }).pop();
                let place = (from, to, size);
                prop_assert!(!verifies_range(place, &part, &longer.0, &longer.1, &top));
                let holds = verifies_range(place, &part, &shorter.0, &shorter.1, &top);
                prop_assert_eq!(holds, gone.is_none());
            }
        }
    }
}
