//! What approvers signed, put into a bundle so that stock OpenSSH can check it: `approvals/`.

use std::collections::BTreeMap;

#[cfg(feature = "gate")]
use super::Error;
#[cfg(feature = "gate")]
use super::artifacts::Artifacts;
use super::bundle::{APPROVERS, APPROVERS_SIG, Files, approvers_files, word_files};
use super::payloads::{Payload, Payloads};
use super::scope::Strand;
use crate::approval::Signed;
use crate::domain::digest::Digest;
use crate::ledger::entry::Kind;
use crate::ledger::verify::Line;

/// The role of the payload of a word.
pub const ROLE: &str = "approval";

/// Whether this line is an approver's word.
#[must_use]
pub fn is_word(line: &Line) -> bool {
    line.is(Kind::ApprovalGranted) || line.is(Kind::ApprovalRefused)
}

/// What an approver's word commits to, if exactly one payload is it.
#[must_use]
pub fn committed<'a>(line: &Line, payloads: &'a Payloads) -> Option<&'a Payload> {
    match line.entry.draft.commit.as_slice() {
        [one] if one.role == ROLE => payloads.0.get(&one.c),
        _ => None,
    }
}

/// The list of approvers that a word was held against.
#[must_use]
pub fn list_of(line: &Line) -> Option<Digest> {
    line.text("signers").and_then(Digest::parse)
}

/// Statements and signatures that follow from opened payloads, by file name.
#[must_use]
pub fn words(strands: &[Strand], payloads: &Payloads) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for strand in strands {
        for line in strand.asked().filter(|line| is_word(line)) {
            let Some(Payload::Opened { body, .. }) = committed(line, payloads) else { continue };
            let Some(signed) = Signed::parse(body) else { continue };
            let (statement, signature) = word_files(&strand.folder, line.entry.seq);
            files.insert(statement, signed.statement.into_bytes());
            files.insert(signature, signed.signature.into_bytes());
        }
    }
    files
}

/// The lists that words name, the last first.
#[must_use]
pub fn lists(strands: &[Strand]) -> Vec<Digest> {
    let mut lists: Vec<Digest> = Vec::new();
    for line in strands.iter().flat_map(Strand::asked).filter(|line| is_word(line)) {
        if let Some(list) = list_of(line) {
            lists.retain(|seen| *seen != list);
            lists.insert(0, list);
        }
    }
    lists
}

/// The list of this digest and its signature.
#[must_use]
pub fn list<'a>(files: &'a Files, digest: &Digest) -> Option<(&'a [u8], &'a [u8])> {
    let other = approvers_files(digest);
    let places = [(APPROVERS.to_owned(), APPROVERS_SIG.to_owned()), other];
    places.iter().find_map(|(list, signature)| {
        let text = files.get(list).filter(|text| Digest::of(&[text]) == *digest)?;
        Some((text, files.get(signature)?))
    })
}

/// Adds `approvals/`; the lists that were not kept are named.
///
/// # Errors
/// An artefact cannot be read.
#[cfg(feature = "gate")]
pub fn put(
    artifacts: &Artifacts,
    strands: &[Strand],
    payloads: &Payloads,
    files: &mut Files,
) -> Result<Vec<Digest>, Error> {
    for (name, bytes) in words(strands, payloads) {
        files.put(name, bytes);
    }
    let mut missing = Vec::new();
    for (place, digest) in lists(strands).iter().enumerate() {
        let first = (APPROVERS.to_owned(), APPROVERS_SIG.to_owned());
        let (list, signature) = if place == 0 { first } else { approvers_files(digest) };
        match artifacts.approvers(digest)? {
            Some((text, envelope)) => {
                files.put(list, text);
                files.put(signature, envelope);
            }
            None => missing.push(*digest),
        }
    }
    Ok(missing)
}
