//! One call as a step: its payloads with their commitments, its decision, and its outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::str::Utf8Error;

use super::parts::{EarlierMessages, StepParts, in_parts};
use crate::approval::Approval;
use crate::domain::digest::{Digest, Salt};
use crate::domain::id::RunId;
use crate::domain::json::{self, Json, Limits};
use crate::domain::time::Timestamp;
use crate::evidence::payloads::{self, Payload, Payloads, WithheldReason};
use crate::evidence::projection::decides;
use crate::ledger::verify::EntryLine;
use crate::policy::input::{Document, approval_json};
use crate::record::call::{
    BreakGlass, CallAuthorized, CallCancelled, CallCompleted, CallExpired, CallFailed, CallHeld,
    CallProgress, CallUnknown,
};
use crate::record::{Body, Commitment, Kind, Role, Text};
use crate::replay::flaw::{Absence, StepGap};
use crate::verify::entries::approval;

/// What the agent was shown, as far as its steps are compared with it.
#[derive(Default)]
pub(super) struct ShownTools {
    /// The definition of each tool.
    pub definitions: BTreeMap<String, Digest>,
    /// The tools that may be asked in dialects.
    pub models: BTreeSet<String>,
}

impl ShownTools {
    /// The definition of the tool is the one that the agent was shown.
    fn fit(&self, tool: &str, definition: Option<Digest>) -> Result<(), StepGap> {
        let shown = self.definitions.get(tool);
        if definition.is_some_and(|digest| shown.is_some_and(|shown| *shown != digest)) {
            return Err(StepGap::Changed(tool.to_owned()));
        }
        Ok(())
    }

    /// The list says how a tool may be asked in dialects, if a policy saw that it was.
    fn take(&self, tool: &str, input: Option<&Json>) -> Result<(), StepGap> {
        let dialect = input.and_then(|input| input.get("effect")?.get("dialect"));
        if dialect.is_some() && !self.models.contains(tool) {
            return Err(StepGap::Dialect(tool.to_owned()));
        }
        Ok(())
    }
}

/// A payload of a line, with the commitment that binds it.
pub(super) struct Bound {
    /// The commitment of the line.
    pub c: Digest,
    /// What opens it; `None` if part of the payload is redacted.
    pub salt: Option<Salt>,
    /// The payload; `None` if part of it is redacted.
    pub body: Option<Vec<u8>>,
    /// What binds it, as a step records it.
    pub commitment: Json,
}

/// One payload of a line, or why it is unavailable.
pub(super) fn bound(payloads: &Payloads, line: &EntryLine, role: Role) -> Result<Bound, Absence> {
    bound_to(payloads, line.entry.draft.committed(role).ok_or(Absence::Never)?)
}

/// Why a payload is not there.
pub(super) fn absence(payload: Option<&Payload>, bytes: u64) -> Absence {
    match payload {
        Some(Payload::Erased { log, seq }) => Absence::Erased { seq: *seq, log: log.clone() },
        Some(Payload::Withheld(WithheldReason::Encrypted)) => Absence::Encrypted,
        Some(Payload::Withheld(WithheldReason::Damaged)) => Absence::Damaged,
        Some(Payload::Withheld(_) | Payload::Opened { .. } | Payload::Redacted { .. }) | None => {
            Absence::NotStored(bytes)
        }
    }
}

pub(super) fn bound_to(payloads: &Payloads, committed: &Commitment) -> Result<Bound, Absence> {
    let role = committed.role;
    let commitment = |name, opener| {
        let c = Json::from(committed.c.hex());
        Json::object([("role", Json::from(role.as_str())), ("c", c), (name, opener)])
    };
    match payloads.0.get(&committed.c.0) {
        Some(Payload::Opened { salt, body, .. }) => {
            let commitment = commitment("salt", Json::from(hex::encode(salt)));
            Ok(Bound { c: committed.c.0, salt: Some(*salt), body: Some(body.clone()), commitment })
        }
        Some(Payload::Redacted { parts, .. }) => {
            let commitment = commitment("parts", payloads::redacted(role.as_str(), parts));
            Ok(Bound { c: committed.c.0, salt: None, body: None, commitment })
        }
        other @ (Some(Payload::Erased { .. } | Payload::Withheld(_)) | None) => {
            Err(absence(other, committed.len.get()))
        }
    }
}

/// When the rules decided. An input of an earlier version may have other members; its time is in the
/// same place.
fn decided_at(input: &Json) -> Option<Timestamp> {
    input.read::<Document>().ok()?.time.rfc3339
}

/// The members of one step. `child`: its run, if that is a child.
pub(super) fn step(
    (number, child): (u64, Option<&RunId>),
    lines: &[&EntryLine],
    (payloads, said): (&Payloads, &EarlierMessages<'_>),
    shown: &ShownTools,
) -> Result<Vec<(&'static str, Json)>, StepGap> {
    let decisions: Vec<&EntryLine> = lines.iter().copied().filter(|line| decides(line)).collect();
    let (Some(first), Some(main), Some(last)) = (decisions.first(), decisions.last(), lines.last())
    else {
        return Err(StepGap::Undecided);
    };
    let draft = &main.entry.draft;
    let tool = draft.tool.as_ref().map(ToString::to_string).unwrap_or_default();
    if main.is(Kind::CallAuthorized) && (decides(last) || last.is(Kind::CallProgress)) {
        return Err(StepGap::Open(tool));
    }
    let decided = main.decision().ok_or(StepGap::Undecided)?;
    shown.fit(&tool, decided.definition)?;
    let (mut commitments, mut left_out) = (Vec::new(), Vec::new());
    let mut take = |line: &EntryLine, role: Role| -> Result<Bound, StepGap> {
        let taken = bound(payloads, line, role);
        let taken = taken.map_err(|why| StepGap::Payload { role, tool: tool.clone(), why })?;
        commitments.push(taken.commitment.clone());
        left_out.extend(taken.body.is_none().then(|| Json::from(role.as_str())));
        Ok(taken)
    };
    let json = |body: Vec<u8>| Json::parse(&body, &Limits::FILE);
    let args = take(main, Role::Args)?;
    let (salt, mut args) = (args.salt, args.body.map(json).transpose()?);
    let asked = draft.committed(Role::PolicyInput).is_some();
    let input = if asked { take(main, Role::PolicyInput)?.body } else { None };
    let input = input.map(json).transpose()?;
    let break_glass = main.get::<CallAuthorized>().and_then(|call| call.break_glass.as_ref());
    let signed = |order| Ok::<_, StepGap>((order, take(main, Role::Approval)?.body));
    let break_glass = break_glass.map(signed).transpose()?;
    let break_glass =
        break_glass.and_then(|(order, signed)| Some(broken(order, &signed?))).transpose()?;
    let parts = in_parts(main, (payloads, said), args.as_ref());
    let parts = parts.map_err(|(role, why)| StepGap::Payload { role, tool: tool.clone(), why })?;
    let answer = AnswerParts::of(lines, payloads);
    let answer = answer.map_err(|(role, why)| why.gap(role, &tool))?;
    commitments.extend(answer.commitments);
    left_out.extend(answer.redacted.then(|| Json::from(Role::Result.as_str())));
    shown.take(&tool, input.as_ref())?;
    let at = input.as_ref().and_then(decided_at).unwrap_or(main.entry.ts);
    let run_seq = last.entry.run.as_ref().map_or(0, |link| link.seq);
    let mut members = vec![
        ("t", Json::from("step")),
        ("n", Json::from(number)),
        ("call", Json::from(draft.call.as_ref().map(ToString::to_string).unwrap_or_default())),
        ("tool", Json::from(tool.as_str())),
        ("at", Json::from(at.to_string())),
        ("after", Json::from(first.decision().map_or(0, |decision| decision.after))),
        ("end", Json::from(run_seq)),
        ("decision", decision(main)),
        ("ended", ended(first, last)),
        ("entries", lines.iter().map(|line| place(line)).collect::<Vec<_>>().into()),
    ];
    members.extend(child.map(|child| ("run", Json::from(child.to_string()))));
    // A redacted call is never answered, so a replay does not need its approvers.
    let whole = left_out.is_empty();
    let held = whole && first.is(Kind::CallHeld) && main.is(Kind::CallAuthorized);
    members.extend((!whole).then(|| ("redacted", Json::from(left_out))));
    if let Some(StepParts { whole, stored, bound }) = parts {
        args = Some(whole);
        commitments.extend(bound);
        members.push(("stored", stored));
    }
    members.extend(args.map(|args| ("args", args)));
    members.extend(held.then(|| ("approved", approved(first, lines, salt))));
    members.extend(break_glass.map(|break_glass| ("break_glass", break_glass)));
    members.extend(input.map(|input| ("input", input)));
    members.extend(answer.members);
    members.push(("payloads", commitments.into()));
    Ok(members)
}

/// How many bytes of an answer left while the call ran, if any did.
fn streamed(lines: &[&EntryLine]) -> Option<u64> {
    let observed = lines.last().and_then(|last| last.entry.draft.body.observed());
    let stream =
        observed.and_then(|observed| observed.stream.as_ref()).map(|left| left.bytes.get());
    let progress =
        || lines.iter().rev().find_map(|line| Some(line.get::<CallProgress>()?.bytes.get()));
    stream.or_else(progress)
}

/// What the agent was given.
#[derive(Default)]
struct AnswerParts {
    members: Vec<(&'static str, Json)>,
    commitments: Vec<Json>,
    /// Part of the result is redacted.
    redacted: bool,
}

/// Why the answer is not there.
enum AnswerGap {
    Payload(Absence),
    Text(Utf8Error),
}

impl AnswerGap {
    fn gap(self, role: Role, tool: &str) -> StepGap {
        match self {
            Self::Payload(why) => StepGap::Payload { role, tool: tool.to_owned(), why },
            Self::Text(error) => error.into(),
        }
    }
}

impl AnswerParts {
    /// The result and the events that left, as far as the call has them.
    fn of(lines: &[&EntryLine], payloads: &Payloads) -> Result<Self, (Role, AnswerGap)> {
        let mut parts = Self::default();
        let Some(last) = lines.last() else { return Ok(parts) };
        if last.is(Kind::CallCompleted) {
            parts.take(last, payloads, Role::Result)?;
        }
        // A redacted answer is never played.
        if let Some(bytes) = streamed(lines).filter(|_| !parts.redacted) {
            if last.entry.draft.committed(Role::Stream).is_none() {
                return Err((Role::Stream, AnswerGap::Payload(Absence::NotStored(bytes))));
            }
            // A long one is stored in several payloads.
            parts.take(last, payloads, Role::Stream)?;
        }
        parts.members.extend(answered(last).map(|answered| ("answered", answered)));
        Ok(parts)
    }

    fn take(
        &mut self,
        last: &EntryLine,
        payloads: &Payloads,
        role: Role,
    ) -> Result<(), (Role, AnswerGap)> {
        let committed: Vec<&Commitment> =
            last.entry.draft.commit.iter().filter(|commitment| commitment.role == role).collect();
        if committed.is_empty() {
            return Err((role, AnswerGap::Payload(Absence::Never)));
        }
        let mut whole = Vec::new();
        for commitment in committed {
            let taken = bound_to(payloads, commitment);
            let taken = taken.map_err(|why| (role, AnswerGap::Payload(why)))?;
            self.commitments.push(taken.commitment);
            let Some(body) = taken.body else {
                self.redacted = true;
                continue;
            };
            whole.extend(body);
        }
        if self.redacted {
            return Ok(());
        }
        let text = String::from_utf8(whole);
        let text = text.map_err(|error| (role, AnswerGap::Text(error.utf8_error())))?;
        self.members.push((role.as_str(), Json::from(text)));
        Ok(())
    }
}

/// What the gate saw of a model that answered in a dialect.
fn answered(last: &EntryLine) -> Option<Json> {
    let observed = last.entry.draft.body.observed()?;
    let attempt = observed.attempts.as_ref()?.iter().next_back()?;
    let mut members = vec![("status", Json::from(attempt.status.as_str()))];
    members.extend(observed.model.as_ref().map(|model| ("model", Json::from(model.as_str()))));
    let upstream = observed.usage.as_ref().map(|usage| usage.upstream.as_str());
    members.extend(upstream.map(|upstream| ("upstream", Json::from(upstream))));
    Some(Json::object(members))
}

/// The break-glass order under which a call ran: the signed bytes, and what the entry records of
/// it.
fn broken(order: &BreakGlass, signed: &[u8]) -> Result<Json, json::Error> {
    let signed = Json::parse(signed, &Limits::FILE)?;
    let (by, signers) = (Json::of(&order.by), Json::of(&order.signers));
    Ok(Json::object([("signed", signed), ("by", by), ("signers", signers)]))
}

fn place(line: &EntryLine) -> Json {
    Json::object([
        ("kind", Json::from(line.kind())),
        ("seq", Json::from(line.entry.seq)),
        ("leaf", Json::from(line.leaf.hex())),
    ])
}

fn decision(line: &EntryLine) -> Json {
    let draft = &line.entry.draft;
    let mut members = Vec::new();
    members.extend(draft.verdict.map(|verdict| ("verdict", Json::from(verdict.as_str()))));
    members.extend(draft.policy.map(|policy| ("policy", Json::from(policy.prefixed()))));
    if let Some(decision) = line.decision() {
        members.push(("enforced", Json::from(decision.enforced)));
        members.push(("reasons", Json::of(&decision.reasons)));
        members.push(("obligations", Json::of(&decision.obligations)));
    }
    Json::object(members)
}

/// How a call ended, as its last entry records it.
fn how(body: &Body) -> Vec<(&'static str, Json)> {
    let text = |name, text: &Text| vec![(name, Json::from(text.as_str()))];
    if let Some(failed) = body.get::<CallFailed>() {
        return vec![
            ("class", Json::from(&*failed.class)),
            ("started", Json::from(failed.started)),
            ("message", Json::from(&*failed.message)),
        ];
    }
    let completed = body.get::<CallCompleted>().map(|call| text("status", &call.status));
    completed
        .or_else(|| Some(text("cause", &body.get::<CallUnknown>()?.cause)))
        .or_else(|| Some(text("reason", &body.get::<CallCancelled>()?.reason)))
        .or_else(|| Some(text("reason", &body.get::<CallExpired>()?.reason)))
        .unwrap_or_default()
}

/// How the call ended, in the terms of its last entry.
fn ended(first: &EntryLine, last: &EntryLine) -> Json {
    let mut members = vec![("kind", Json::from(last.kind()))];
    members.extend(how(&last.entry.draft.body));
    let labels = last.entry.draft.body.observed().and_then(|observed| observed.labels.as_ref());
    members.extend(labels.map(|labels| ("labels", Json::of(labels))));
    let lapsed =
        first.is(Kind::CallHeld) && (last.is(Kind::CallDenied) || last.is(Kind::CallExpired));
    members.extend(lapsed.then(|| ("lapsed", Json::from(true))));
    Json::object(members)
}

/// Who approved a held call.
fn approved(held: &EntryLine, lines: &[&EntryLine], salt: Option<Salt>) -> Json {
    let held = held.get::<CallHeld>();
    let by = lines.iter().filter_map(|line| approval::granted(&line.entry));
    let by = Approval::counted(by);
    let mut members = vec![
        ("by", by.iter().map(approval_json).collect::<Vec<_>>().into()),
        ("nonce", Json::of(&held.and_then(|held| held.nonce))),
        ("salt", salt.map_or(Json::Null, |salt| Json::from(hex::encode(salt)))),
    ];
    members.extend(held.and_then(|held| held.effect).map(|effect| ("effect", Json::of(&effect))));
    Json::object(members)
}
