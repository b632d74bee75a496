//! P4, for calls under break-glass: enough trusted people signed that this agent may use this tool
//! without an approver at that time.

use super::approvals::{at, known, opened};
use super::case::Case;
use super::flaw::{Bad, Missing, SignatureFlaw};
use crate::approval::approvers::Purpose;
use crate::approval::break_glass::{
    MINUTES_MAX, QUORUM_MIN, SignedBreakGlass, Terms, check as worth,
};
use crate::approvals::{break_glass_list, broken, signed_payload};
use crate::entries::EntryLine;
use crate::policy::input;
use crate::projection::BundleMaterial;

/// Checks the order that one authorisation names against the call, its time and the trusted
/// signers.
pub(super) fn check(
    case: &Case<'_>,
    material: &BundleMaterial<'_>,
    line: &EntryLine,
) -> Result<(), Bad> {
    let order = broken(line).ok_or(SignatureFlaw::Names("order"))?;
    let names = ("statement", "the break-glass statement");
    let body = opened(signed_payload(line, material.payloads), names)?;
    let signed = SignedBreakGlass::parse(body).ok_or(SignatureFlaw::Malformed("payload"))?;
    let digest = break_glass_list(line).ok_or(SignatureFlaw::Names("list of signers"))?;
    let trust = case.trust;
    let list =
        known(case, (Purpose::BreakGlass, &digest), (&trust.break_glass, &trust.break_glass_keys))?;
    let statement = signed.statement().ok_or(SignatureFlaw::Malformed("statement"))?;
    // Entries do not name their tenant as the statement does, so the signed name is used.
    let tenant = statement.tenant;
    let terms = Terms { tenant, quorum: QUORUM_MIN, minutes: MINUTES_MAX };
    let open = worth(&terms, &list, &signed, at(line, order.until))?;
    if input::broken(&open) != order {
        return Err(SignatureFlaw::Differ("nonce, end or signers", "statement").into());
    }
    let opening = material.opening().ok_or(Missing::Opening)?;
    if opening.agent.as_str() != open.statement.agent {
        return Err(SignatureFlaw::GlassAgent.into());
    }
    let covered = line.entry.draft.tool.as_ref().is_some_and(|t| open.statement.tools.contains(t));
    if covered { Ok(()) } else { Err(SignatureFlaw::GlassTools.into()) }
}
