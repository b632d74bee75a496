//! Part of E2: stand-alone proofs (c2sp.org/tlog-proof), for verifiers that use third-party tools.
//! Each is of one entry of the bundle, under the bundle's checkpoint.

use crate::bundle::{ALONE, Files, NOTE, alone_file};
use crate::crypto::note;
use crate::crypto::tlog_proof::TlogProof;
use crate::domain::id::Seq;
use crate::entries::EntryLine;
use crate::scope::ChainSlice;

/// What is wrong with these proofs.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("`{0}` is a proof of an entry that must have none")]
    Stray(String),
    #[error("`{0}` is missing")]
    Absent(String),
    #[error("`{0}` is a proof of an entry that the bundle does not include")]
    NoEntry(String),
    #[error("`{0}`: {1}")]
    File(String, #[source] EntryFlaw),
}

/// What is wrong with one of them.
#[derive(Debug, thiserror::Error)]
pub(super) enum EntryFlaw {
    #[error(transparent)]
    Utf8(#[from] std::str::Utf8Error),
    #[error(transparent)]
    Proof(#[from] note::Error),
    #[error("it has extra data, which no signature covers")]
    Extra,
    #[error("its checkpoint is not the one in `{NOTE}`")]
    Note,
    #[error("it does not prove that seq {0} is in the log")]
    Entry(Seq),
    #[error("not in canonical form")]
    Form,
}

/// The number of proofs, if exactly the entries that need one have one.
pub(super) fn check(files: &Files, slice: &ChainSlice) -> Result<usize, Error> {
    let wanted = slice.alone();
    let names: Vec<String> = wanted.iter().map(|seq| alone_file(&slice.folder, *seq)).collect();
    let own = format!("{}/", slice.folder);
    let here = |name: &&String| name.starts_with(&own) && name.ends_with(ALONE);
    if let Some(other) = files.0.keys().filter(here).find(|name| !names.contains(name)) {
        return Err(Error::Stray(other.clone()));
    }
    let note = files.get(&format!("{own}{NOTE}")).unwrap_or_default();
    for (seq, name) in wanted.iter().zip(&names) {
        let text = files.get(name).ok_or_else(|| Error::Absent(name.clone()))?;
        let line = slice.lines.iter().find(|line| line.entry.seq == *seq);
        let line = line.ok_or_else(|| Error::NoEntry(name.clone()))?;
        one(text, (*seq, line), note).map_err(|flaw| Error::File(name.clone(), flaw))?;
    }
    Ok(wanted.len())
}

fn one(text: &[u8], (seq, line): (Seq, &EntryLine), note: &[u8]) -> Result<(), EntryFlaw> {
    let text = std::str::from_utf8(text)?;
    let proof = TlogProof::parse(text)?;
    if proof.extra.is_some() {
        return Err(EntryFlaw::Extra);
    }
    if proof.note.as_bytes() != note {
        return Err(EntryFlaw::Note);
    }
    if proof.index != seq || !proof.includes(&line.leaf) {
        return Err(EntryFlaw::Entry(seq));
    }
    // A proof has exactly one text form.
    if proof.to_text() == text { Ok(()) } else { Err(EntryFlaw::Form) }
}
