//! Proofs in a bundle: numbered paths, and spans.

use crate::bundle::Files;
use crate::check::log::{self, ProofError};
use crate::check::range::{self, Proof};
use crate::contents::Paths;
use crate::crypto::note::Checkpoint;
use crate::crypto::range::{RangeProof, verifies_range};
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::entries::EntryLine;
use crate::scope::Span;

/// Reads a file of paths; no paths if the file does not exist. Strict, no number twice.
pub(super) fn paths(
    files: &Files,
    name: &str,
    version: &str,
    key: &str,
) -> Result<Paths, ProofError> {
    log::proofs(files, name, version, key).map(Option::unwrap_or_default)
}

/// The span of `[from, to)` that a range proof shows to be complete, if these lines are in it.
pub(super) fn span(
    files: &Files,
    name: &str,
    lines: &[EntryLine],
    checkpoint: &Checkpoint,
) -> Result<Option<(Seq, Seq)>, ProofError> {
    let Some(read) = range::read(files, name) else { return Ok(None) };
    let Proof { span: Span { from, to }, size, proof: RangeProof { left, right } } = read?;
    let inside = lines.iter().filter(|line| (from..to).contains(&line.entry.seq));
    let leaves: Vec<Digest> = inside.map(|line| line.leaf).collect();
    let of_head = size == checkpoint.size;
    if of_head && verifies_range((from, to, size), &leaves, &left, &right, &checkpoint.root) {
        Ok(Some((from, to)))
    } else {
        Err(ProofError::Span { name: name.to_owned(), from, to })
    }
}
