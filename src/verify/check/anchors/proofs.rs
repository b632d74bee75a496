//! Proofs as a bundle carries them: paths by a number, and spans.

use crate::bundle::Files;
use crate::check::log::{self, ProofError};
use crate::contents::Paths;
use crate::crypto::note::Checkpoint;
use crate::crypto::range::verifies_range;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::{Json, Limits};
use crate::entries::Line;

/// Reads a file of paths; none if there is no such file. Strict, no number twice.
pub(super) fn paths(
    files: &Files,
    name: &str,
    version: &str,
    key: &str,
) -> Result<Paths, ProofError> {
    log::proofs(files, name, version, key).map(Option::unwrap_or_default)
}

fn hashes(json: &Json, name: &str) -> Option<Vec<Digest>> {
    let list = json.get(name)?.as_array()?;
    list.iter().map(|hash| hash.as_str().and_then(Digest::parse)).collect()
}

/// The span that a range proof shows to be all there is of `[from, to)`, if these lines are in it.
pub(super) fn span(
    files: &Files,
    name: &str,
    lines: &[Line],
    checkpoint: &Checkpoint,
) -> Result<Option<(Seq, Seq)>, ProofError> {
    let Some(text) = files.get(name) else { return Ok(None) };
    let bad = || ProofError::Malformed(name.to_owned());
    let json =
        Json::parse(text, &Limits::FILE).map_err(|e| ProofError::Json(name.to_owned(), e))?;
    if json.get("v").and_then(Json::as_str) != Some("wicketgate/range/1") {
        return Err(bad());
    }
    let number = |member| json.get(member).and_then(Json::as_u64).ok_or_else(bad);
    let (from, to, size) = (number("from")?, number("to")?, number("size")?);
    let (left, right) =
        (hashes(&json, "left").ok_or_else(bad)?, hashes(&json, "right").ok_or_else(bad)?);
    let inside = lines.iter().filter(|line| (from..to).contains(&line.entry.seq));
    let leaves: Vec<Digest> = inside.map(|line| line.leaf).collect();
    let of_head = size == checkpoint.size;
    if of_head && verifies_range((from, to, size), &leaves, &left, &right, &checkpoint.root) {
        Ok(Some((from, to)))
    } else {
        Err(ProofError::Span { name: name.to_owned(), from, to })
    }
}
