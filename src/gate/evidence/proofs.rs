//! The proofs for the entries of one chain: inclusion, the whole span, older heads.

use std::collections::BTreeSet;

use super::Error;
use super::bundle::{Files, LINES, NOTE, OLDER, PATHS, RANGE_PROOF, alone_file};
use super::contents::{self, Paths, hexes};
use super::scope::{ChainSlice, Span};
use super::verify::RANGE_VERSION;
use crate::crypto::tlog_proof::TlogProof;
use crate::domain::canonical;
use crate::domain::id::Seq;
use crate::domain::json::Json;
use crate::ledger::proofs::{self, Prover};
use crate::ledger::store::{ChainRow, LedgerReader};
use crate::ledger::verify::Damage;

/// Adds entries, checkpoint note and every proof of one chain to the files. `since` are sizes of
/// older heads; returns the proofs from those.
///
/// # Errors
/// The ledger cannot be read, or its content does not match the checkpoint.
pub async fn put(
    reader: &dyn LedgerReader,
    (slice, row): (&ChainSlice, &ChainRow),
    since: &BTreeSet<Seq>,
    files: &mut Files,
) -> Result<Paths, Error> {
    let Some(checkpoint) = &slice.checkpoint else { return Ok(Paths::new()) };
    let folder = &slice.folder;
    let mut jsonl = Vec::new();
    for line in &slice.lines {
        jsonl.extend_from_slice(&line.bytes);
        jsonl.push(b'\n');
    }
    files.put(format!("{folder}/{LINES}"), jsonl);
    files.put(format!("{folder}/{NOTE}"), row.head.checkpoint.as_bytes());
    let prover = Prover::for_head(reader, &row.chain, checkpoint).await.map_err(error)?;
    if let Some(span) = slice.span {
        files.put(format!("{folder}/{RANGE_PROOF}"), range(&prover, span).await?);
    }
    files.put(format!("{folder}/{PATHS}"), inclusion(&prover, slice).await?);
    for seq in slice.alone() {
        let path = prover.inclusion(seq).await.map_err(error)?;
        let note = row.head.checkpoint.clone();
        let proof = TlogProof { extra: None, index: seq, path, note };
        files.put(alone_file(folder, seq), proof.to_text());
    }
    let mut paths = Paths::new();
    // The head's own size needs no proof, and sizes beyond it have none.
    for old in since.iter().filter(|old| (1..checkpoint.size).contains(*old)) {
        paths.insert(*old, prover.consistency(*old).await.map_err(error)?);
    }
    if !since.is_empty() {
        files.put(format!("{folder}/{OLDER}"), contents::consistency(&paths));
    }
    Ok(paths)
}

/// A path for every entry that no span proves.
async fn inclusion(prover: &Prover<'_>, slice: &ChainSlice) -> Result<Vec<u8>, Error> {
    let mut paths = Paths::new();
    for line in slice.lines.iter().filter(|line| slice.span.is_none() || !slice.selects(line)) {
        let seq = line.entry.seq;
        paths.insert(seq, prover.inclusion(seq).await.map_err(error)?);
    }
    Ok(contents::inclusion(slice, (prover.size(), prover.root()), &paths))
}

async fn range(prover: &Prover<'_>, span: Span) -> Result<Vec<u8>, Error> {
    let proof = prover.range(span.from, span.to).await.map_err(error)?;
    Ok(canonical::bytes(&Json::object([
        ("v", Json::from(RANGE_VERSION)),
        ("from", Json::from(span.from)),
        ("to", Json::from(span.to)),
        ("size", Json::from(prover.size())),
        ("left", hexes(&proof.left)),
        ("right", hexes(&proof.right)),
    ])))
}

fn error(error: proofs::Error) -> Error {
    let why = error.to_string();
    match error {
        proofs::Error::Store(error) => Error::Store(error),
        proofs::Error::Gone(seq) | proofs::Error::Damaged(seq) => {
            Error::Ledger { seq, damage: Damage::new("D2", why) }
        }
        proofs::Error::Outside { size, .. } => {
            Error::Ledger { seq: size, damage: Damage::new("D2", why) }
        }
    }
}
