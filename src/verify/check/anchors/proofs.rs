//! Proofs as a bundle carries them: paths by a number, and spans.

use std::collections::BTreeMap;

use crate::bundle::Files;
use crate::crypto::note::Checkpoint;
use crate::crypto::range::verifies_range;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::{Json, Limits};
use crate::entries::Line;

/// Hashes of a path in a tree of at most 2^64 leaves.
const PATH_MAX: usize = 64;

/// Paths by the seq or size they are about.
pub(super) type Paths = BTreeMap<Seq, Vec<Digest>>;

/// Reads a file of paths; none if there is no such file. Strict, no number twice.
pub(super) fn paths(files: &Files, name: &str, version: &str, key: &str) -> Result<Paths, String> {
    let Some(text) = files.get(name) else { return Ok(Paths::new()) };
    let bad = || format!("`{name}` is malformed");
    let json = Json::parse(text, &Limits::FILE).map_err(|e| format!("`{name}`: {e}"))?;
    if json.get("v").and_then(Json::as_str) != Some(version) {
        return Err(bad());
    }
    let mut all = Paths::new();
    for proof in json.get("proofs").and_then(Json::as_array).ok_or_else(bad)? {
        let number = proof.get(key).and_then(Json::as_u64).ok_or_else(bad)?;
        let path = hashes(proof, "path").ok_or_else(bad)?;
        if path.len() > PATH_MAX || all.insert(number, path).is_some() {
            return Err(bad());
        }
    }
    Ok(all)
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
) -> Result<Option<(Seq, Seq)>, String> {
    let Some(text) = files.get(name) else { return Ok(None) };
    let bad = || format!("`{name}` is malformed");
    let json = Json::parse(text, &Limits::FILE).map_err(|e| format!("`{name}`: {e}"))?;
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
        Err(format!("`{name}`: the entries from {from} to {to} are not all there are"))
    }
}
