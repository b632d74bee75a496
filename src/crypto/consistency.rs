//! RFC 6962 consistency proofs: an older tree is the beginning of a newer one.

use super::merkle::node_hash;
use super::tiles;
use crate::domain::digest::Digest;

/// The proof that the first `old` of these leaves are the whole older tree (RFC 6962 §2.1.2).
///
/// `None` unless `0 < old <= leaves.len()`. Empty when the trees are equal.
pub fn consistency_proof(leaves: &[Digest], old: usize) -> Option<Vec<Digest>> {
    let (old, new) = (u64::try_from(old).ok()?, u64::try_from(leaves.len()).ok()?);
    tiles::prove(leaves, &tiles::consistency_spans(old, new)?)
}

/// Whether the tree of `old` leaves and `old_root` is the beginning of the one of `new` leaves and
/// `new_root` (RFC 9162 §2.1.4.2).
#[must_use]
pub fn verifies_consistency(
    old: u64,
    new: u64,
    old_root: &Digest,
    new_root: &Digest,
    path: &[Digest],
) -> bool {
    if old == 0 || old > new {
        return false;
    }
    if old == new {
        return path.is_empty() && old_root == new_root;
    }
    let first = if old.is_power_of_two() { Some(old_root) } else { None };
    let mut path = first.into_iter().chain(path);
    let Some(seed) = path.next() else { return false };
    let (Some(mut node), Some(mut last)) = (old.checked_sub(1), new.checked_sub(1)) else {
        return false;
    };
    while node & 1 == 1 {
        node >>= 1;
        last >>= 1;
    }
    let (mut older, mut newer) = (*seed, *seed);
    for sibling in path {
        if last == 0 {
            return false;
        }
        if node & 1 == 1 || node == last {
            older = node_hash(sibling, &older);
            newer = node_hash(sibling, &newer);
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            newer = node_hash(&newer, sibling);
        }
        node >>= 1;
        last >>= 1;
    }
    last == 0 && older == *old_root && newer == *new_root
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merkle::{leaf_hash, root};

    #[test]
    fn consistency_proofs_agree_with_an_independent_implementation() {
        use ct_merkle::mem_backed_tree::MemoryBackedTree;
        let mut theirs = MemoryBackedTree::<sha2::Sha256, [u8; 8]>::new();
        for n in 1..40_usize {
            theirs.push((n - 1).to_be_bytes());
            let all: Vec<Digest> = (0..n).map(|i| leaf_hash(&i.to_be_bytes())).collect();
            for old in 1..n {
                let flat: Vec<u8> = consistency_proof(&all, old)
                    .unwrap()
                    .iter()
                    .flat_map(|d| *d.as_bytes())
                    .collect();
                assert_eq!(theirs.prove_consistency(n - old).as_bytes(), flat.as_slice());
            }
        }
    }

    #[test]
    fn a_proof_holds_for_its_own_two_trees_only() {
        for n in 1..24_usize {
            let all: Vec<Digest> = (0..n).map(|i| leaf_hash(&i.to_be_bytes())).collect();
            let new_root = root(&all);
            for old in 1..=n {
                let old_root = root(&all[..old]);
                let path = consistency_proof(&all, old).unwrap();
                let holds = |a: usize, b: usize, ra: &Digest, rb: &Digest, p: &[Digest]| {
                    verifies_consistency(a as u64, b as u64, ra, rb, p)
                };
                assert!(holds(old, n, &old_root, &new_root, &path));
                let forged = leaf_hash(b"forged");
                assert!(!holds(old, n, &forged, &new_root, &path));
                assert!(!holds(old, n, &old_root, &forged, &path));
                for i in 0..path.len() {
                    let mut damaged = path.clone();
                    damaged[i] = forged;
                    assert!(!holds(old, n, &old_root, &new_root, &damaged));
                    assert!(!holds(old, n, &old_root, &new_root, &path[..i]));
                }
            }
        }
    }
}
