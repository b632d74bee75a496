//! P4, for calls whose arguments an approver wrote: the approver signed these arguments, for a call
//! that was held then.

use super::approvals::{at, held, opened as signed_body, trusted};
use super::case::Case;
use super::flaw::{Bad, Missing, SignatureFlaw};
use crate::approval::{Approval, Hold, SignedApproval, Statement as _, proposal};
use crate::approvals::{proposer, signed_payload};
use crate::domain::digest::{Digest, Salt};
use crate::entries::EntryLine;
use crate::entries::approval;
use crate::payloads::Payload;
use crate::projection::BundleMaterial;
use crate::record::call::CallHeld;
use crate::record::{Kind, Nonce, Role};

fn opened<'a>(material: &'a BundleMaterial<'_>, line: &EntryLine) -> Option<(&'a Salt, &'a [u8])> {
    let args = line.entry.draft.committed(Role::Args)?;
    match material.payloads.0.get(&args.c.0) {
        Some(Payload::Opened { salt, body, .. }) => Some((salt, body)),
        Some(_) | None => None,
    }
}

/// Checks the first decision about a call against the proposal of its arguments; returns the
/// approver who made it, if any.
pub(super) fn check(
    case: &Case<'_>,
    material: &BundleMaterial<'_>,
    (line, manifest): (&EntryLine, Option<Digest>),
) -> Result<Option<Approval>, Bad> {
    let named = line.decision().and_then(|decision| decision.asked_by);
    let Some(named) = named else { return Ok(None) };
    if proposer(line).is_none() {
        return Err(SignatureFlaw::NoProposal.into());
    }
    let unknown = |missing: Missing| Bad::from(missing.at(line.entry.seq));
    let names = ("proposal", "what was signed");
    let body = signed_body(signed_payload(line, material.payloads), names);
    let body = body.map_err(|flaw| match flaw {
        Bad::Unverifiable(missing) => unknown(missing),
        Bad::Invalid(_) => flaw,
    })?;
    let signed = SignedApproval::parse(body).ok_or(SignatureFlaw::Malformed("proposal"))?;
    let proposal = proposal::Proposal::parse(signed.statement.as_bytes())?;
    let before = material.of_run().filter(|one| one.is(Kind::CallHeld));
    let mut before = before.filter(|one| one.entry.seq < line.entry.seq);
    let nonce = Nonce::parse(proposal.nonce());
    let about = |one: &&EntryLine| one.get::<CallHeld>().is_some_and(|held| held.nonce == nonce);
    let Some(old) = before.find(about).filter(|_| nonce.is_some()) else {
        return Err(match material.cut.begin {
            true => unknown(Missing::Hold),
            false => SignatureFlaw::NoHold.into(),
        });
    };
    let hold = held(material, old, manifest).ok_or(SignatureFlaw::Malformed("hold"))?;
    // The author of the arguments may change them again.
    let hold = Hold { excluded: Vec::new(), ..hold };
    let list = trusted(case, line)?;
    let statement = (signed.statement.as_bytes(), signed.signature.as_str());
    let counted = proposal::check(&hold, &list, statement, at(line, hold.expires))?;
    let (proposal, by) = (counted.statement, counted.by);
    if !by.is_recorded_as(&approval::proposer(named).approval) {
        return Err(SignatureFlaw::Proposer.into());
    }
    if old.entry.draft.tool != line.entry.draft.tool {
        return Err(SignatureFlaw::Tool.into());
    }
    match (opened(material, old), opened(material, line)) {
        (Some((salt, _)), Some((_, arguments))) if proposal.names(salt, arguments) => Ok(Some(by)),
        (Some(_), Some(_)) => Err(SignatureFlaw::Arguments.into()),
        (None, _) | (_, None) => Err(unknown(Missing::Arguments)),
    }
}
