//! B2, once the entries are read: every file belongs to a bundle of these entries, in the one form
//! that the exporter writes. An owner of the evidence key can sign any list of files, but must not
//! choose what is on it.

use super::anchors;
use super::case::Case;
use super::log;
use super::report::{Outcome, Report};
use crate::bundle::{FLEET, OLDER, PATHS};
use crate::contents::{self, approvers, manifests, names};
use crate::crypto::dsse;
use crate::domain::digest::Digest;
use crate::scope::ChainSlice;

/// Suffix of a consistency proof beside a head of the fleet log.
const BESIDE: &str = ".consistency.json";

/// What a bundle of these entries must not have.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the file `{0}` does not belong in a bundle of these entries")]
    Stray(String),
    #[error("{}", .0.detail())]
    Fleet(Outcome),
    #[error(transparent)]
    Proof(#[from] log::ProofError),
    #[error("`{0}` is not in canonical form")]
    Form(String),
    #[error("`{envelope}` is not the envelope of `{name}`, {digest}")]
    Envelope { envelope: String, name: String, digest: String },
}

/// B2; reports nothing if it holds, because `files::check` did.
pub fn check(case: &Case<'_>, report: &mut Report) {
    let held = matches!(report.outcome("B2"), Some(Outcome::Valid(_)));
    if let Err(why) = strays(case).and_then(|()| forms(case)).and_then(|()| envelopes(case))
        && held
    {
        report.set("B2", Outcome::invalid(why));
    }
}

fn strays(case: &Case<'_>) -> Result<(), Error> {
    let Some(payloads) = &case.payloads else { return Ok(()) };
    let slices = (case.slices.as_slice(), case.fleet.as_ref());
    let names = names(case.scope, slices, payloads, case.files);
    match case.files.0.keys().find(|name| !names.contains(*name)) {
        None => Ok(()),
        Some(stray) => Err(Error::Stray(stray.clone())),
    }
}

/// Other checks verify proofs; this one rejects content beside the proof.
fn forms(case: &Case<'_>) -> Result<(), Error> {
    if case.fleet.is_some() {
        anchors::whole(case.files).map_err(Error::Fleet)?;
    }
    for slice in case.slices.iter().chain(&case.fleet) {
        included(case, slice)?;
    }
    let older = |name: &&String| name.rsplit('/').next() == Some(OLDER) || name.ends_with(BESIDE);
    for name in case.files.0.keys().filter(older) {
        let paths = log::proofs(case.files, name, "wicketgate/consistency/1", "old")?;
        let made = contents::consistency(&paths.unwrap_or_default());
        same(case, name, &made)?;
    }
    Ok(())
}

fn included(case: &Case<'_>, slice: &ChainSlice) -> Result<(), Error> {
    // F1 checks the fleet log's proof, which the trust file may not ask for.
    let Some(checkpoint) = slice.checkpoint.as_ref().filter(|_| slice.folder != FLEET) else {
        return Ok(());
    };
    let name = format!("{}/{PATHS}", slice.folder);
    let paths = log::proofs(case.files, &name, "wicketgate/inclusion/1", "seq")?;
    let head = (checkpoint.size, &checkpoint.root);
    same(case, &name, &contents::inclusion(slice, head, &paths.unwrap_or_default()))
}

fn same(case: &Case<'_>, name: &str, made: &[u8]) -> Result<(), Error> {
    if case.files.get(name) == Some(made) { Ok(()) } else { Err(Error::Form(name.to_owned())) }
}

/// The file beside a manifest or a list of approvers is an envelope of that very file, even if the
/// trust file names no key for it.
fn envelopes(case: &Case<'_>) -> Result<(), Error> {
    let pairs =
        manifests(&case.slices).into_iter().chain(approvers(&case.slices, case.fleet.as_ref()));
    for ((name, envelope), _) in pairs {
        match (case.files.get(&name), case.files.get(&envelope)) {
            (None, None) => {}
            (Some(text), Some(envelope)) if dsse::wraps(envelope, text) => {}
            _ => {
                let digest = case.files.get(&name).map(|text| Digest::of(&[text]).prefixed());
                let digest = digest.unwrap_or_else(|| "a file that is missing".to_owned());
                return Err(Error::Envelope { envelope, name, digest });
            }
        }
    }
    Ok(())
}
