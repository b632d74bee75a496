//! P4: every approval and refusal is its approver's own signature over this very hold, the verifier
//! trusts the approver, and the policy saw the approvals of every released call.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::case::Case;
use super::flaw::{Bad, Missing, SignatureFlaw};
use super::orders::{self, Orders};
use super::report::{Outcome, Report};
use super::{break_glass, lists, proposals};
use crate::approval::approvers::Purpose;
use crate::approval::{
    Approval, ApproverVerdict, Approvers, Hold, PasskeyTerms, SignedApproval, check as worth,
};
use crate::approvals::{
    break_glass_lists, committed, is_verdict, list, list_of, order_lists, signed_files,
};
use crate::bundle::{APPROVERS, APPROVERS_SIG, approvers_files};
use crate::crypto::dsse;
use crate::crypto::keys::PublicKey;
use crate::crypto::sshsig::SshSig;
use crate::domain::digest::Digest;
use crate::domain::id::CallId;
use crate::domain::json::{Json, Limits};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::entries::EntryLine;
use crate::entries::approval::{self, layers};
use crate::entries::approved::{LATE_MILLIS, is_break_glass};
use crate::payloads::Payload;
use crate::policy::input::approval_json;
use crate::projection::{BundleMaterial, decides};
use crate::record::call::CallHeld;
use crate::record::{Kind, Role};

#[derive(Default)]
struct ApprovalCounts {
    granted: usize,
    refused: usize,
    released: usize,
    /// Approvals and refusals whose hold lies before the span.
    cut: usize,
    /// Releases whose policy input is not disclosed.
    undisclosed: usize,
    /// Calls that ran under break-glass.
    broken: usize,
    /// Calls whose arguments an approver wrote.
    proposed: usize,
    subjects: BTreeSet<String>,
    /// Where passkeys signed: an auditor has to trust what these consoles showed.
    origins: BTreeSet<String>,
    missing: Option<Missing>,
}

/// P4.
pub fn check(case: &Case<'_>, report: &mut Report) {
    let (seen, orders) = match judged(case) {
        Ok(judged) => judged,
        Err(flaw) => return report.put("P4", Outcome::invalid(flaw)),
    };
    let ApprovalCounts { granted, refused, released, broken, proposed, subjects, .. } = &seen;
    let at = seen.origins.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    for origin in &seen.origins {
        let shown = format!("that the console at {origin} showed its approvers what they signed");
        report.not_proven.push(shown);
    }
    if seen.cut > 0 {
        let cut = many(seen.cut, "approval");
        report.not_proven.push(format!("what {cut} signed: it was held before the span"));
    }
    if seen.undisclosed > 0 {
        report.not_proven.push(format!(
            "that the policy saw exactly these approvers (input of {} not disclosed)",
            many(seen.undisclosed, "call")
        ));
    }
    report.put(
        "P4",
        match seen.missing.clone().or_else(|| orders.missing.clone()) {
            Some(missing) => Outcome::Unverifiable(missing.to_string()),
            None if granted + refused + broken + proposed == 0 => {
                Outcome::Valid(format!("no approval was required{orders}"))
            }
            None => {
                let details = match broken {
                    0 => String::new(),
                    n => {
                        format!("; {} ran under BREAK-GLASS, without an approver", many(n, "call"))
                    }
                };
                let details = match proposed {
                    0 => details,
                    n => {
                        let n = many(n, "call");
                        format!("{details}; {n} repeated with arguments that an approver wrote")
                    }
                };
                let details = match at.as_str() {
                    "" => details,
                    at => format!("{details}; some signed at {at}, shown by that console"),
                };
                Outcome::Valid(format!(
                    "{} and {} by {}; {} released{details}{orders}",
                    many(granted, "approval"),
                    many(refused, "refusal"),
                    many(subjects.len(), "person"),
                    many(released, "call")
                ))
            }
        },
    );
}

fn judged(case: &Case<'_>) -> Result<(ApprovalCounts, Orders), SignatureFlaw> {
    stray(case)?;
    lists::check(case)?;
    let (orders, mut seen) = (orders::check(case)?, ApprovalCounts::default());
    for material in case.materials() {
        run(case, &material, &mut seen)?;
    }
    Ok((seen, orders))
}

/// Every file in `approvals/` follows from the entries, or is a list that one of them names.
fn stray(case: &Case<'_>) -> Result<(), SignatureFlaw> {
    let Some(payloads) = &case.payloads else { return Ok(()) };
    let files = signed_files(&case.slices, payloads);
    for (name, bytes) in &files {
        if case.files.get(name) != Some(bytes) {
            return Err(SignatureFlaw::File(name.clone()));
        }
    }
    let mut lists: BTreeSet<String> = BTreeSet::new();
    for line in case.slices.iter().flat_map(|s| s.selected()) {
        if let Some(digest) = list_of(line) {
            let (text, signature) = approvers_files(&digest);
            lists.extend([text, signature]);
            if case.files.get(APPROVERS).is_some_and(|text| Digest::of(&[text]) == digest) {
                lists.extend([APPROVERS.to_owned(), APPROVERS_SIG.to_owned()]);
            }
        }
    }
    let of_orders = order_lists(&case.slices, case.fleet.as_ref());
    for digest in break_glass_lists(&case.slices).into_iter().chain(of_orders) {
        let (text, signature) = approvers_files(&digest);
        lists.extend([text, signature]);
    }
    let mut there = case.files.0.keys().filter(|name| name.starts_with("approvals/"));
    let stray = there.find(|name| !files.contains_key(*name) && !lists.contains(*name));
    stray.map_or(Ok(()), |name| Err(SignatureFlaw::StrayFile(name.clone())))
}

/// One held call, and the approvals read so far.
struct OpenCall<'a> {
    held: &'a EntryLine,
    given: Vec<Approval>,
}

fn run(
    case: &Case<'_>,
    material: &BundleMaterial<'_>,
    seen: &mut ApprovalCounts,
) -> Result<(), SignatureFlaw> {
    let manifest = material.opening().map(|opened| opened.manifest.0);
    let mut open: BTreeMap<&CallId, OpenCall<'_>> = BTreeMap::new();
    let mut unread: BTreeSet<&CallId> = BTreeSet::new();
    for line in material.of_run() {
        let Some(call) = &line.entry.draft.call else { continue };
        let seq = line.entry.seq;
        let at = |flaw: SignatureFlaw| flaw.at(seq);
        if line.unknown.is_some() {
            // An entry of an unknown kind may have changed the hold, so the hold cannot be checked
            // further.
            if open.remove(call).is_some() {
                seen.missing = Some(Missing::Kind(line.kind().to_owned()).at(seq));
            }
            unread.insert(call);
        } else if line.is(Kind::CallHeld) {
            check_policy_view(material, line, &[], false).map_err(at)?;
            seen.proposed(proposals::check(case, material, (line, manifest))).map_err(at)?;
            open.insert(call, OpenCall { held: line, given: Vec::new() });
        } else if is_verdict(line) {
            let Some(open) = open.get_mut(call) else {
                seen.cut = seen.cut.saturating_add(1);
                continue;
            };
            let checked = check_statement(case, material, (open, manifest), line);
            if let Some((approval, verdict)) = seen.known(checked.map_err(|flaw| flaw.at(seq)))? {
                seen.count(open, approval, verdict);
            }
        } else if decides(line) {
            if !open.contains_key(call) {
                seen.proposed(proposals::check(case, material, (line, manifest))).map_err(at)?;
            }
            if is_break_glass(line) {
                let checked = break_glass::check(case, material, line).map_err(|flaw| flaw.at(seq));
                let valid = usize::from(seen.known(checked)?.is_some());
                seen.broken = seen.broken.saturating_add(valid);
            }
            let known = open.get(call);
            let released = known.is_some() && line.is(Kind::CallAuthorized);
            // A call that began before the span, or that cannot be checked, ends here.
            let unchecked = match known {
                Some(_) => seen.missing.is_some(),
                None => material.cut.begin || unread.contains(call),
            };
            let given = known.map_or(&[][..], |open| &open.given);
            let opened =
                !unchecked && check_policy_view(material, line, given, released).map_err(at)?;
            seen.released = seen.released.saturating_add(usize::from(released));
            seen.undisclosed = seen.undisclosed.saturating_add(usize::from(released && !opened));
        }
    }
    Ok(())
}

impl ApprovalCounts {
    /// Counts the approver who wrote the arguments of a call.
    fn proposed(&mut self, checked: Result<Option<Approval>, Bad>) -> Result<(), SignatureFlaw> {
        if let Some(by) = self.known(checked)?.flatten() {
            self.proposed = self.proposed.saturating_add(1);
            self.origins.extend(by.origin);
            self.subjects.insert(by.subject);
        }
        Ok(())
    }

    /// What was checked; `None`, with a note of what is missing, if it cannot be checked.
    fn known<T>(&mut self, checked: Result<T, Bad>) -> Result<Option<T>, SignatureFlaw> {
        match checked {
            Ok(found) => Ok(Some(found)),
            Err(Bad::Invalid(why)) => Err(why),
            Err(Bad::Unverifiable(missing)) => {
                self.missing = Some(missing);
                Ok(None)
            }
        }
    }

    fn count(&mut self, open: &mut OpenCall<'_>, approval: Approval, verdict: ApproverVerdict) {
        self.subjects.insert(approval.subject.clone());
        self.origins.extend(approval.origin.clone());
        match verdict {
            ApproverVerdict::Approve => {
                self.granted = self.granted.saturating_add(1);
                approval.count(&mut open.given);
            }
            ApproverVerdict::Refuse => self.refused = self.refused.saturating_add(1),
        }
    }
}

/// Checks one approval or refusal against its hold and the list of approvers.
fn check_statement(
    case: &Case<'_>,
    material: &BundleMaterial<'_>,
    (open, manifest): (&OpenCall<'_>, Option<Digest>),
    line: &EntryLine,
) -> Result<(Approval, ApproverVerdict), Bad> {
    let names = ("statement", "what was signed");
    let body = opened(committed(line, material.payloads), names)?;
    let signed = SignedApproval::parse(body).ok_or(SignatureFlaw::Malformed("payload"))?;
    let armored = SshSig::parse(&signed.signature).map(|signature| signature.armored());
    if armored.as_deref() != Ok(signed.signature.as_str()) {
        return Err(SignatureFlaw::Armor.into());
    }
    let approvers = trusted(case, line)?;
    let hold = hold(material, open, manifest).ok_or(SignatureFlaw::Malformed("hold"))?;
    let at = at(line, hold.expires);
    let counted = worth(&hold, &approvers, signed.statement.as_bytes(), &signed.signature, at)?;
    let (approval, verdict) = (counted.by, counted.statement.verdict);
    let expected = if line.is(Kind::ApprovalGranted) {
        ApproverVerdict::Approve
    } else {
        ApproverVerdict::Refuse
    };
    if verdict != expected {
        return Err(SignatureFlaw::Verdict(line.kind().to_owned(), verdict.as_str()).into());
    }
    let recorded = approval::granted(&line.entry).or_else(|| approval::refused(&line.entry));
    match recorded.filter(|recorded| approval.is_recorded_as(recorded)) {
        Some(recorded) => Ok((recorded, verdict)),
        None => Err(SignatureFlaw::Differ("subject, roles or key", "signature").into()),
    }
}

/// The signed payload. `names`: what the entry has to commit to, and what is not opened otherwise.
pub(super) fn opened<'a>(
    payload: Option<&'a Payload>,
    names: (&'static str, &'static str),
) -> Result<&'a [u8], Bad> {
    let Payload::Opened { body, .. } = payload.ok_or(SignatureFlaw::NoPayload(names.0))? else {
        return Err(Missing::Payload(names.1).into());
    };
    Ok(body)
}

/// When the approver answered, or the call was decided. The entry may stand a moment after the end of
/// the hold or the order: see [`LATE_MILLIS`].
pub(super) fn at(line: &EntryLine, expires: Timestamp) -> Timestamp {
    let (ts, end) = (line.entry.ts.millis(), expires.millis());
    let is_late = ts >= end && ts < end.saturating_add(LATE_MILLIS);
    Timestamp::from_millis(if is_late { end.saturating_sub(1) } else { ts })
}

/// The hold as the entries record it. They do not identify the caller of the run in the terms of
/// the list.
fn hold(
    material: &BundleMaterial<'_>,
    open: &OpenCall<'_>,
    manifest: Option<Digest>,
) -> Option<Hold> {
    let given = open.given.clone();
    held(material, open.held, manifest).map(|hold| Hold { given, ..hold })
}

/// A hold before its first approval or refusal.
pub(super) fn held(
    material: &BundleMaterial<'_>,
    line: &EntryLine,
    manifest: Option<Digest>,
) -> Option<Hold> {
    let held = line.get::<CallHeld>()?;
    Some(Hold {
        call_digest: held.call_digest?.0,
        definition: held.definition.map(|digest| digest.0),
        layers: layers(&held.layers),
        manifest: manifest?,
        run: *material.run,
        expires: held.expires?,
        nonce: held.nonce?.to_string(),
        excluded: held.asked_by.iter().map(|by| by.subject.to_string()).collect(),
        given: Vec::new(),
    })
}

/// The list against which the answer was checked, if the verifier trusts it.
pub(super) fn trusted(case: &Case<'_>, line: &EntryLine) -> Result<Approvers, Bad> {
    let digest = list_of(line).ok_or(Missing::NoList)?;
    let trust = case.trust;
    known(case, (Purpose::Approval, &digest), (&trust.approvers, &trust.approver_keys))
}

/// The list of this digest for this purpose, if the verifier trusts it or a key that signed it.
pub(super) fn known(
    case: &Case<'_>,
    (purpose, digest): (Purpose, &Digest),
    (lists, keys): (&[Digest], &[PublicKey]),
) -> Result<Approvers, Bad> {
    let whose = purpose.list();
    if lists.is_empty() && keys.is_empty() {
        return Err(Missing::Trust(whose).into());
    }
    let (text, envelope) = list(case.files, digest).ok_or(Missing::List(whose))?;
    if !lists.contains(digest) {
        let opened = dsse::open(envelope, purpose.payload_type(), keys, 1);
        let opened = opened.map_err(|e| SignatureFlaw::Envelope(whose, e))?;
        if opened.payload != text {
            return Err(SignatureFlaw::OtherList(whose).into());
        }
    }
    Ok(Approvers::parse_for(purpose, text)?.admitting(PasskeyTerms::Audit))
}

/// The approvals that the policy saw.
#[derive(Deserialize)]
struct ApprovalsInput {
    #[serde(default)]
    approvals: Vec<Approval>,
}

/// Checks the approvals that the policy saw against the recorded ones; returns whether its input is
/// disclosed. `released`: a call that runs after a hold needs an approval in the input.
fn check_policy_view(
    material: &BundleMaterial<'_>,
    line: &EntryLine,
    given: &[Approval],
    released: bool,
) -> Result<bool, SignatureFlaw> {
    let input = line.entry.draft.committed(Role::PolicyInput);
    let payload = input.and_then(|input| material.payloads.0.get(&input.c.0));
    let Some(Payload::Opened { body, .. }) = payload else { return Ok(false) };
    let list = Json::parse(body, &Limits::FILE)?.read::<ApprovalsInput>();
    // Approvals in another form were never given.
    let list = list.map_err(|_| SignatureFlaw::Ungiven)?.approvals;
    let given: Vec<Json> = given.iter().map(approval_json).collect();
    if !list.iter().map(approval_json).all(|approval| given.contains(&approval)) {
        return Err(SignatureFlaw::Ungiven);
    }
    if list.is_empty() && released && !is_break_glass(line) {
        return Err(SignatureFlaw::Unapproved);
    }
    Ok(true)
}
