//! R1: the entries of a span are complete.

use super::log::ProofError;
use super::report::Outcome;
use crate::bundle::Files;
use crate::contents::RangeForm;
use crate::crypto::merkle;
use crate::crypto::note::Checkpoint;
use crate::crypto::range::{RangeProof, verifies_range};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::{Json, Limits};
use crate::domain::plural::many;
use crate::entries::EntryLine;
use crate::record::HexDigest;
use crate::scope::{ChainSlice, Span};

/// `v` of a range proof.
pub const VERSION: &str = "wicketgate/range/1";
/// Hashes on one side of a proof in a tree of at most 2^64 leaves.
const SIDE_MAX: usize = 128;

/// A range proof from a bundle.
#[derive(Debug)]
pub struct Proof {
    /// The span it covers.
    pub span: Span,
    /// Entries in the tree.
    pub size: Seq,
    /// The hashes beside the span.
    pub proof: RangeProof,
}

/// Reads a range proof, if the bundle has one of this name.
pub(crate) fn read(files: &Files, name: &str) -> Option<Result<Proof, ProofError>> {
    files.get(name).map(|text| parse(name, text))
}

fn parse(name: &str, text: &[u8]) -> Result<Proof, ProofError> {
    let file = || name.to_owned();
    let json = Json::parse(text, &Limits::FILE).map_err(|e| ProofError::Json(file(), e))?;
    let malformed = || ProofError::Malformed(file());
    let form: RangeForm = json.read().map_err(|_| malformed())?;
    if form.v != VERSION {
        return Err(malformed());
    }
    let side = |hashes: Vec<HexDigest>| {
        if hashes.len() > SIDE_MAX {
            return Err(ProofError::Long(file(), hashes.len()));
        }
        Ok(hashes.into_iter().map(|hash| hash.0).collect())
    };
    Ok(Proof {
        span: Span { from: form.from, to: form.to },
        size: form.size,
        proof: RangeProof { left: side(form.left)?, right: side(form.right)? },
    })
}

/// The root of the log when it had this many entries, if these lines are complete from the first
/// one. Other checks prove that they are in the log.
pub(super) fn beginning(lines: &[EntryLine], size: Seq) -> Option<Digest> {
    let there = lines.iter().zip(0..size).take_while(|(line, seq)| line.entry.seq == *seq);
    let leaves: Vec<Digest> = there.map(|(line, _)| line.leaf).collect();
    let all = u64::try_from(leaves.len()).is_ok_and(|count| count == size);
    all.then(|| merkle::root(&leaves))
}

/// R1 of one chain.
pub fn check(proof: &Proof, slice: &ChainSlice, checkpoint: &Checkpoint) -> Outcome {
    let Span { from, to } = proof.span;
    if proof.size != checkpoint.size {
        let why =
            format!("about {}, the checkpoint has {}", many(proof.size, "entry"), checkpoint.size);
        return Outcome::Invalid(why);
    }
    let lines: Vec<_> = slice.lines.iter().filter(|l| proof.span.has(l.entry.seq)).collect();
    let missing = (from..to).zip(lines.iter().map(|line| Some(line.entry.seq)).chain(
        // One place more than there are entries, so that a missing last entry is named too.
        std::iter::once(None),
    ));
    if let Some((seq, _)) = missing.into_iter().find(|(seq, there)| Some(*seq) != *there) {
        return Outcome::Invalid(format!("seq {seq} of {from}..{to} is missing"));
    }
    let leaves: Vec<Digest> = lines.iter().map(|line| line.leaf).collect();
    let RangeProof { left, right } = &proof.proof;
    if verifies_range((from, to, proof.size), &leaves, left, right, &checkpoint.root) {
        let entries = many(leaves.len(), "entry");
        Outcome::Valid(format!("{from}..{to} of {}: {entries}", checkpoint.origin))
    } else {
        Outcome::Invalid(format!("{from}..{to} is not proven to be complete"))
    }
}
