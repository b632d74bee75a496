//! Proofs: ours against those of an implementation nobody here wrote, honest and damaged alike.

use std::collections::BTreeMap;

use ct_merkle::{ConsistencyProof, InclusionProof, RootHash};
use sha2::Sha256;
use wicketgate::crypto::consistency::{consistency_proof, verifies_consistency};
use wicketgate::crypto::merkle::{inclusion_proof, leaf_hash, node_hash, root, verifies_inclusion};
use wicketgate::crypto::range::{HashReader, Node, range_proof, verifies_range};
use wicketgate::domain::digest::Digest;

/// Leaves of the largest tree.
const LEAVES_MAX: usize = 96;

/// An input as small numbers; zeros after its end.
struct Numbers<'a>(&'a [u8]);

impl Numbers<'_> {
    fn next(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() % end.max(1)
    }
}

fn leaf(i: usize) -> [u8; 8] {
    (i as u64).to_be_bytes()
}

fn leaves(n: usize) -> Vec<Digest> {
    (0..n).map(|i| leaf_hash(&leaf(i))).collect()
}

/// Does to a path what the input says: changes, drops, doubles, swaps, appends hashes.
fn damage(numbers: &mut Numbers<'_>, path: &mut Vec<Digest>, others: &[Digest]) {
    for _ in 0..numbers.below(4) {
        let what = numbers.below(5);
        let (a, b) = (numbers.below(path.len()), numbers.below(path.len()));
        let other = others.get(numbers.below(others.len())).copied().unwrap_or(Digest::of(&[]));
        match (what, path.is_empty()) {
            (0, false) => path[a] = other,
            (1, false) => drop(path.remove(a)),
            (2, false) => path.insert(a, path[b]),
            (3, false) => path.swap(a, b),
            _ => path.push(other),
        }
    }
}

fn flat(path: &[Digest]) -> Vec<u8> {
    path.iter().flat_map(|digest| *digest.as_bytes()).collect()
}

fn theirs(root: &Digest, size: usize) -> RootHash<Sha256> {
    RootHash::new((*root.as_bytes()).into(), size as u64)
}

/// A damaged inclusion proof is taken by both implementations or by neither.
pub fn inclusion(bytes: &[u8]) {
    let mut numbers = Numbers(bytes);
    let size = 1 + numbers.below(LEAVES_MAX);
    let index = numbers.below(size);
    let all = leaves(size);
    let mut path = inclusion_proof(&all, index).unwrap();
    let top = root(&all);
    assert!(verifies_inclusion(&all[index], index as u64, size as u64, &path, &top));
    damage(&mut numbers, &mut path, &all);
    let claimed = [index, numbers.below(size)][numbers.below(2)];
    let said = [size, 1 + numbers.below(LEAVES_MAX)][numbers.below(2)];
    let which = [index, numbers.below(size)][numbers.below(2)];
    let ours = verifies_inclusion(&all[which], claimed as u64, said as u64, &path, &top);
    let proof = InclusionProof::<Sha256>::try_from_bytes(flat(&path));
    // Theirs asserts that the index is in the tree; ours refuses.
    let same = claimed < said
        && proof.is_ok_and(|proof| {
            theirs(&top, said).verify_inclusion(&leaf(which), claimed as u64, &proof).is_ok()
        });
    assert_eq!(ours, same, "leaf {which} at {claimed} of {said}, in truth {index} of {size}");
    assert!(!ours || which == claimed, "a leaf in a place it is not in");
}

/// A damaged consistency proof is taken by both implementations or by neither.
pub fn consistency(bytes: &[u8]) {
    let mut numbers = Numbers(bytes);
    let new = 2 + numbers.below(LEAVES_MAX);
    let old = 1 + numbers.below(new - 1);
    let all = leaves(new);
    let mut path = consistency_proof(&all, old).unwrap();
    let (mut before, after) = (root(&all[..old]), root(&all));
    assert!(verifies_consistency(old as u64, new as u64, &before, &after, &path));
    damage(&mut numbers, &mut path, &all);
    if numbers.below(3) == 0 {
        before = all[numbers.below(new)];
    }
    let said = [old, 1 + numbers.below(new - 1)][numbers.below(2)];
    let ours = verifies_consistency(said as u64, new as u64, &before, &after, &path);
    let same = ConsistencyProof::<Sha256>::try_from_bytes(flat(&path)).is_ok_and(|proof| {
        theirs(&after, new).verify_consistency(&theirs(&before, said), &proof).is_ok()
    });
    assert_eq!(ours, same, "{said} of {new}, in truth {old}");
    assert!(!ours || before == root(&all[..said]), "a head that is no beginning");
}

/// The whole tree, read as a proof of a range is made from it.
struct Tree<'a>(&'a [Digest]);

impl HashReader for Tree<'_> {
    fn node(&self, node: Node) -> Option<Digest> {
        let (first, end) = (node.first()?, node.end()?);
        let part = self.0.get(usize::try_from(first).ok()?..usize::try_from(end).ok()?)?;
        Some(root(part))
    }
}

/// A range proof holds for the leaves of its own range and for no others.
pub fn range(bytes: &[u8]) {
    let mut numbers = Numbers(bytes);
    let size = 1 + numbers.below(LEAVES_MAX);
    let from = numbers.below(size + 1);
    let to = from + numbers.below(size - from + 1);
    let all = leaves(size);
    let top = root(&all);
    let (a, b, n) = (from as u64, to as u64, size as u64);
    let honest = range_proof(&Tree(&all), a, b, n).unwrap();
    let part = &all[from..to];
    assert!(verifies_range((a, b, n), part, &honest.left, &honest.right, &top));
    let (mut left, mut right, mut shown) =
        (honest.left.clone(), honest.right.clone(), part.to_vec());
    damage(&mut numbers, &mut left, &all);
    damage(&mut numbers, &mut right, &all);
    damage(&mut numbers, &mut shown, &all);
    let changed = (&left, &right) != (&honest.left, &honest.right) || shown != part;
    let holds = verifies_range((a, b, n), &shown, &left, &right, &top);
    assert_eq!(holds, !changed, "{from}..{to} of {size}");
    let said = (numbers.below(size + 1) as u64, numbers.below(size + 1) as u64, n);
    if verifies_range(said, &shown, &left, &right, &top) {
        let (from, to) = (usize::try_from(said.0).unwrap(), usize::try_from(said.1).unwrap());
        assert_eq!(shown, all[from..to], "leaves in a place they are not in");
    }
    interior(&mut numbers, &all);
}

/// An inner node offered as a leaf is none: the two are hashed apart.
fn interior(numbers: &mut Numbers<'_>, all: &[Digest]) {
    let pairs: BTreeMap<usize, Digest> = all
        .chunks_exact(2)
        .enumerate()
        .map(|(i, pair)| (i, node_hash(&pair[0], &pair[1])))
        .collect();
    let Some(inner) = pairs.get(&numbers.below(pairs.len())) else { return };
    let halves: Vec<Digest> = pairs.values().copied().collect();
    if all.len().is_multiple_of(2) && all.len() > 2 {
        // The tree over the pairs has the same root, and another size.
        let top = root(all);
        assert_eq!(root(&halves), top);
        let size = all.len() as u64;
        for index in 0..size {
            assert!(!verifies_inclusion(
                inner,
                index,
                size,
                &inclusion_proof(all, 0).unwrap(),
                &top
            ));
        }
    }
}
