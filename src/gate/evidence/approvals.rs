//! Adds what people signed to a bundle.

use super::Error;
use super::artifacts::Artifacts;
use super::bundle::Files;
use super::contents;
use super::payloads::Payloads;
use super::scope::ChainSlice;
use crate::domain::digest::Digest;

pub use crate::verify::approvals::*;

/// Adds `approvals/`; returns the lists that were not kept.
///
/// # Errors
/// An artefact cannot be read.
pub fn put(
    artifacts: &Artifacts,
    (slices, fleet): (&[ChainSlice], Option<&ChainSlice>),
    payloads: &Payloads,
    files: &mut Files,
) -> Result<Vec<Digest>, Error> {
    for (name, bytes) in signed_files(slices, payloads) {
        files.put(name, bytes);
    }
    let mut missing = Vec::new();
    for ((list, signature), digest) in contents::approvers(slices, fleet) {
        match artifacts.approvers(&digest)? {
            Some((text, envelope)) => {
                files.put(list, text);
                files.put(signature, envelope);
            }
            None => missing.push(digest),
        }
    }
    Ok(missing)
}
