//! The proofs beside the entries of one chain: inclusion, the whole span, older heads.

use std::collections::BTreeSet;

use super::Error;
use super::bundle::{Files, LINES, NOTE, OLDER, PATHS, RANGE_PROOF};
use super::scope::{Span, Strand};
use super::verify::RANGE_VERSION;
use crate::crypto::consistency::consistency_proof;
use crate::crypto::merkle::Prover;
use crate::crypto::note::Checkpoint;
use crate::crypto::range::range_proof;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::domain::json::Json;
use crate::ledger::verify::{Damage, Line};

/// Adds entries, checkpoint note and every proof of one chain to the files.
///
/// `leaves` are the chain's leaf hashes up to its checkpoint, `since` sizes of older heads.
///
/// # Errors
/// The stored leaf hashes are not those of the entries or of the checkpoint.
pub fn put(
    strand: &Strand,
    note: &str,
    leaves: Vec<Digest>,
    since: &BTreeSet<Seq>,
    files: &mut Files,
) -> Result<(), Error> {
    let Some(checkpoint) = &strand.checkpoint else { return Ok(()) };
    let folder = &strand.folder;
    let mut jsonl = Vec::new();
    for line in &strand.lines {
        jsonl.extend_from_slice(&line.bytes);
        jsonl.push(b'\n');
    }
    files.put(format!("{folder}/{LINES}"), jsonl);
    files.put(format!("{folder}/{NOTE}"), note.as_bytes());
    stored(&strand.lines, &leaves)?;
    if !since.is_empty() {
        files.put(format!("{folder}/{OLDER}"), consistency(&leaves, since));
    }
    if let Some(span) = strand.span {
        let proof = range(&leaves, span, checkpoint)?;
        files.put(format!("{folder}/{RANGE_PROOF}"), proof);
    }
    files.put(format!("{folder}/{PATHS}"), inclusion(strand, leaves, checkpoint)?);
    Ok(())
}

fn damaged(seq: Seq, why: &str) -> Error {
    Error::Ledger { seq, damage: Damage::new("D2", why) }
}

fn stored(lines: &[Line], leaves: &[Digest]) -> Result<(), Error> {
    let differs = lines.iter().map(|l| (l.entry.seq, l.leaf)).find(|(seq, leaf)| {
        let stored = usize::try_from(*seq).ok().and_then(|at| leaves.get(at));
        stored != Some(leaf)
    });
    differs.map_or(Ok(()), |(seq, _)| {
        Err(damaged(seq, "the stored leaf hash is not that of the bytes"))
    })
}

/// A path for every entry that no span proves.
fn inclusion(
    strand: &Strand,
    leaves: Vec<Digest>,
    checkpoint: &Checkpoint,
) -> Result<Vec<u8>, Error> {
    let prover = Prover::new(leaves);
    if prover.root() != checkpoint.root {
        return Err(damaged(checkpoint.size, "the checkpoint is not of the stored leaf hashes"));
    }
    let mut proofs = Vec::new();
    for line in strand.lines.iter().filter(|line| strand.span.is_none() || !strand.asks(line)) {
        let path = usize::try_from(line.entry.seq)
            .ok()
            .and_then(|at| prover.inclusion_proof(at))
            .ok_or_else(|| damaged(line.entry.seq, "no such leaf"))?;
        proofs.push(Json::object([
            ("seq", Json::from(line.entry.seq)),
            ("leaf", Json::from(line.leaf.hex())),
            ("path", hexes(&path)),
        ]));
    }
    Ok(canonical::bytes(&Json::object([
        ("v", Json::from("wicketgate/inclusion/1")),
        ("size", Json::from(checkpoint.size)),
        ("root", Json::from(checkpoint.root.hex())),
        ("proofs", proofs.into()),
    ])))
}

fn range(leaves: &[Digest], span: Span, checkpoint: &Checkpoint) -> Result<Vec<u8>, Error> {
    let proof = range_proof(leaves, span.from, span.to, checkpoint.size)
        .ok_or_else(|| damaged(span.to, "no such span"))?;
    Ok(canonical::bytes(&Json::object([
        ("v", Json::from(RANGE_VERSION)),
        ("from", Json::from(span.from)),
        ("to", Json::from(span.to)),
        ("size", Json::from(checkpoint.size)),
        ("left", hexes(&proof.left)),
        ("right", hexes(&proof.right)),
    ])))
}

fn consistency(leaves: &[Digest], since: &BTreeSet<Seq>) -> Vec<u8> {
    let proofs: Vec<Json> = since
        .iter()
        .filter_map(|old| {
            let path = consistency_proof(leaves, usize::try_from(*old).ok()?)?;
            Some(Json::object([("old", Json::from(*old)), ("path", hexes(&path))]))
        })
        .collect();
    canonical::bytes(&Json::object([
        ("v", Json::from("wicketgate/consistency/1")),
        ("proofs", proofs.into()),
    ]))
}

fn hexes(path: &[Digest]) -> Json {
    path.iter().map(|digest| Json::from(digest.hex())).collect::<Vec<_>>().into()
}
