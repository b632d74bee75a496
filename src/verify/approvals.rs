//! Puts what approvers signed into a bundle, so that stock OpenSSH can check it: `approvals/`.

use std::collections::BTreeMap;

use super::bundle::{
    APPROVERS, APPROVERS_SIG, Files, approvers_files, break_glass_files, statement_files,
};
use super::payloads::{Payload, Payloads};
use super::scope::ChainSlice;
use crate::approval::proposal::Proposer;
use crate::approval::{SignedApproval, break_glass::SignedBreakGlass};
use crate::domain::digest::Digest;
use crate::entries::EntryLine;
use crate::entries::approval;
use crate::entries::approved::is_break_glass;
use crate::policy::input::Broken;
use crate::record::approval::{ApprovalGranted, ApprovalRefused};
use crate::record::call::{
    BreakGlass, CallAuthorized, CallCancelled, CallCompleted, CallFailed, CallUnknown,
    GuardedFinding, UsedException,
};
use crate::record::control::ControlApplied;
use crate::record::payload::{HoldLifted, PayloadErased};
use crate::record::{Kind, Role};

/// The role of the payload of an approval or a refusal.
pub const ROLE: Role = Role::Approval;

/// Whether this line is an approver's approval or refusal.
#[must_use]
pub fn is_verdict(line: &EntryLine) -> bool {
    line.is(Kind::ApprovalGranted) || line.is(Kind::ApprovalRefused)
}

/// The payload of an approval or refusal, if the line commits to exactly one.
#[must_use]
pub fn committed<'a>(line: &EntryLine, payloads: &'a Payloads) -> Option<&'a Payload> {
    match line.entry.draft.commit.as_slice() {
        [one] if one.role == ROLE => payloads.0.get(&one.c.0),
        _ => None,
    }
}

/// The signed payload of an authorisation under break-glass or of a proposal of other arguments, if
/// the line commits to exactly one.
#[must_use]
pub fn signed_payload<'a>(line: &EntryLine, payloads: &'a Payloads) -> Option<&'a Payload> {
    let mut all = line.entry.draft.commit.iter().filter(|one| one.role == ROLE);
    let (one, more) = (all.next()?, all.next());
    payloads.0.get(&one.c.0).filter(|_| more.is_none())
}

/// The approver who wrote the arguments of the call, if this is the first decision about it.
#[must_use]
pub fn proposer(line: &EntryLine) -> Option<Proposer> {
    let first = line.is(Kind::CallHeld) || line.is(Kind::CallDenied) && proposes(line);
    line.decision()?.asked_by.map(approval::proposer).filter(|_| first)
}

fn proposes(line: &EntryLine) -> bool {
    line.entry.draft.commit.iter().any(|one| one.role == ROLE)
}

fn break_glass(line: &EntryLine) -> Option<&BreakGlass> {
    line.get::<CallAuthorized>()?.break_glass.as_ref()
}

/// The list of keys against which the order of a break-glass authorisation was checked.
#[must_use]
pub fn break_glass_list(line: &EntryLine) -> Option<Digest> {
    break_glass(line).map(|order| order.signers.0)
}

/// The break-glass order that the entry records for its call, if any.
#[must_use]
pub fn broken(line: &EntryLine) -> Option<Broken> {
    break_glass(line).map(|order| Broken {
        nonce: order.nonce.to_string(),
        until: order.until,
        by: order.by.iter().map(ToString::to_string).collect(),
    })
}

/// The list of approvers against which an approval, refusal or proposal was checked.
#[must_use]
pub fn list_of(line: &EntryLine) -> Option<Digest> {
    if is_verdict(line) {
        let granted = line.get::<ApprovalGranted>().map(|decision| decision.signers);
        let signers =
            granted.or_else(|| line.get::<ApprovalRefused>().map(|decision| decision.signers));
        return signers.flatten().map(|digest| digest.0);
    }
    proposer(line)?.signers
}

/// Statements and signatures from opened payloads, by file name.
pub fn signed_files(slices: &[ChainSlice], payloads: &Payloads) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let lines = slices.iter().flat_map(|slice| slice.selected().map(move |line| (slice, line)));
    for (ChainSlice { folder, .. }, line) in lines {
        let is_verdict_entry = is_verdict(line);
        let payload = match is_verdict_entry {
            true => committed(line, payloads),
            false => signed_payload(line, payloads),
        };
        let Some(Payload::Opened { body, .. }) = payload else { continue };
        if is_verdict_entry || proposer(line).is_some() {
            let Some(signed) = SignedApproval::parse(body) else { continue };
            let (statement, signature) = statement_files(folder, line.entry.seq);
            files.insert(statement, signed.statement.into_bytes());
            files.insert(signature, signed.signature.into_bytes());
        } else if is_break_glass(line) {
            let Some(signed) = SignedBreakGlass::parse(body) else { continue };
            let count = signed.signatures.len();
            let (statement, signatures) = break_glass_files(folder, line.entry.seq, count);
            files.insert(statement, signed.statement.into_bytes());
            let armored = signed.signatures.into_iter().map(String::into_bytes);
            files.extend(signatures.into_iter().zip(armored));
        } else if let Some(signed) = SignedApproval::parse(body) {
            let (statement, signature) = statement_files(folder, line.entry.seq);
            files.insert(statement, signed.statement.into_bytes());
            files.insert(signature, signed.signature.into_bytes());
        }
    }
    files
}

/// The lists that approvals and refusals name, the last first.
pub fn lists(slices: &[ChainSlice]) -> Vec<Digest> {
    let mut lists: Vec<Digest> = Vec::new();
    for line in slices.iter().flat_map(ChainSlice::selected) {
        if let Some(list) = list_of(line) {
            lists.retain(|seen| *seen != list);
            lists.insert(0, list);
        }
    }
    lists
}

/// The lists that break-glass orders name; each file is named by its digest.
pub fn break_glass_lists(slices: &[ChainSlice]) -> Vec<Digest> {
    let lines = slices.iter().flat_map(ChainSlice::selected);
    let mut lists: Vec<Digest> = lines.filter_map(break_glass_list).collect();
    lists.sort();
    lists.dedup();
    lists
}

/// An operator's signed order, as an entry names it.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// The signed statement.
    pub statement: &'a str,
    /// The signature, armored.
    pub signature: Option<&'a str>,
    /// The name of the signer.
    pub subject: Option<&'a str>,
    /// Id of the key.
    pub key: Option<&'a str>,
    /// The list of signers that it was checked against.
    pub signers: Option<Digest>,
    /// Version of that list; a gate's own entries do not name it.
    pub version: Option<u64>,
}

/// The operator's order that an entry names: in a gate's chain the end of a stop, in the fleet log
/// an erasure or the end of a hold.
#[must_use]
pub fn order(line: &EntryLine) -> Option<Order<'_>> {
    if let Some(applied) = line.get::<ControlApplied>() {
        return Some(Order {
            statement: applied.statement.as_deref()?,
            signature: applied.signature.as_deref(),
            subject: applied.subject.as_deref(),
            key: applied.key.as_deref(),
            signers: applied.signers.map(|digest| digest.0),
            version: None,
        });
    }
    let lifted = line.get::<HoldLifted>().map(|lifted| &lifted.order);
    let order = lifted.or_else(|| line.get::<PayloadErased>()?.order.as_ref())?;
    Some(Order {
        statement: &order.statement,
        signature: Some(&order.signature),
        subject: Some(&order.subject),
        key: Some(&order.key),
        signers: Some(order.signers.0),
        version: Some(order.version.get()),
    })
}

/// What passed the firewall by signed orders, as a decision or the end of a call names it.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'a> {
    /// Where that can have been.
    pub directions: &'static [&'static str],
    /// The orders.
    pub exceptions: &'a [UsedException],
    /// What was found.
    pub findings: &'a [GuardedFinding],
}

/// What passed the firewall in a call, or in its answer; `None`: the entry is about neither.
#[must_use]
pub fn passed(line: &EntryLine) -> Option<Passed<'_>> {
    if let Some(decision) = line.decision() {
        let (exceptions, findings) = (decision.exceptions, decision.findings);
        return Some(Passed { directions: &["arguments", "prompts"], exceptions, findings });
    }
    let completed = line.get::<CallCompleted>().map(|call| &call.observed);
    let failed = line.get::<CallFailed>().map(|call| &call.observed);
    let unknown = line.get::<CallUnknown>().map(|call| &call.observed);
    let cancelled = line.get::<CallCancelled>().map(|call| &call.observed);
    let observed = completed.or(failed).or(unknown).or(cancelled)?.as_ref()?;
    let exceptions = observed.exceptions.as_deref().unwrap_or_default();
    let findings = observed.findings.as_deref().unwrap_or_default();
    Some(Passed { directions: &["results"], exceptions, findings })
}

/// The lists of approvers by which something passed the firewall.
pub fn exception_lists(line: &EntryLine) -> impl Iterator<Item = Digest> {
    let used = passed(line).map_or(&[][..], |passed| passed.exceptions);
    used.iter().map(|one| one.signers.0)
}

/// The list of approvers against which it was checked.
#[must_use]
pub fn order_list(line: &EntryLine) -> Option<Digest> {
    order(line)?.signers
}

/// The lists that only operators' orders name; each file is named by its digest.
pub fn order_lists(slices: &[ChainSlice], fleet: Option<&ChainSlice>) -> Vec<Digest> {
    let own = slices.iter().flat_map(ChainSlice::selected);
    let fleet = fleet.into_iter().flat_map(|fleet| &fleet.lines);
    let named = |line: &EntryLine| {
        let lists: Vec<Digest> =
            order_list(line).into_iter().chain(exception_lists(line)).collect();
        lists
    };
    let mut all: Vec<Digest> = own.chain(fleet).flat_map(named).collect();
    let cited = lists(slices);
    all.retain(|digest| !cited.contains(digest));
    all.sort();
    all.dedup();
    all
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
