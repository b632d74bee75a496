//! What is written about calls: from the road's tokens to drafts and payloads, all salts drawn here.

use std::time::Duration;

use super::entry::{Commitment, Draft, Kind};
use super::hold::Hold;
use super::permit::Finished;
use super::store::PayloadRow;
use crate::approval::break_glass::Open;
use crate::approval::proposal::Proposer;
use crate::approval::{Approval, Signed, Word};
use crate::clock::{Entropy, random16, random32};
use crate::domain::call::Auth;
use crate::domain::commitment::commit;
use crate::domain::decision::{Course, LayerDigest, Obligation, Reason};
use crate::domain::digest::{Digest, Salt, call_digest};
use crate::domain::json::Json;
use crate::domain::outcome::{Observed, Outcome, Redaction, Usage};
use crate::domain::prepared::Prepared;
use crate::domain::tier::Tier;
use crate::domain::time::Timestamp;
use crate::policy::{Judged, Resumed, effect_digest, input};

/// Payloads up to this size commit in the same transaction as their entry.
pub const INLINE_MAX: usize = 16 * 1024;
/// Payloads above this size are committed to and not stored.
pub const STORED_MAX: usize = 1024 * 1024;
/// Reasons kept in an entry.
const REASONS_MAX: usize = 16;
/// Relations that an entry names at most.
const TABLES_MAX: usize = 64;

/// A draft with the payloads it commits to.
#[derive(Clone, PartialEq, Debug)]
pub struct Written {
    /// The entry to be.
    pub draft: Draft,
    /// Its payloads, those over the stored limit left out.
    pub payloads: Vec<PayloadRow>,
}

impl Written {
    /// A draft without payloads.
    #[must_use]
    pub const fn bare(draft: Draft) -> Self {
        Self { draft, payloads: Vec::new() }
    }

    /// Commits to a payload of this role; over the stored limit it is committed to and not kept.
    pub fn keep(&mut self, entropy: &dyn Entropy, role: &str, body: &[u8]) {
        self.add(entropy, role, body);
    }

    fn add(&mut self, entropy: &dyn Entropy, role: &str, body: &[u8]) {
        self.commit(&random32(entropy), role, body, body.len() <= STORED_MAX);
    }

    /// A model is sent the arguments as they came, in their order, which canonical JSON has not: those bytes are
    /// committed to beside it.
    fn as_sent(&mut self, entropy: &dyn Entropy, prepared: &Prepared, keep: bool) {
        let call = prepared.call();
        let model = prepared.tool().is_some_and(|tool| tool.kind == "model");
        if model && call.sent() != call.canonical() {
            let keep = keep && call.sent().len() <= STORED_MAX;
            self.commit(&random32(entropy), "raw", call.sent(), keep);
        }
    }

    fn commit(&mut self, salt: &Salt, role: &str, body: &[u8], keep: bool) -> Digest {
        let c = commit(salt, body);
        let len = u64::try_from(body.len()).unwrap_or(u64::MAX);
        self.draft.commit.push(Commitment { c, len, role: role.to_owned() });
        if keep {
            self.payloads.push(PayloadRow {
                commitment: c,
                salt: *salt,
                role: role.to_owned(),
                media_type: "application/json".to_owned(),
                body: body.to_vec(),
            });
        }
        c
    }
}

/// The decision about a call, as it will stand on the books.
#[must_use]
pub fn decided(
    entropy: &dyn Entropy,
    judged: &Judged,
    (mark, expires): (Option<Digest>, Timestamp),
) -> Written {
    let (prepared, decision) = (judged.prepared(), judged.decision());
    let call = prepared.call();
    let kind = match decision.course() {
        Course::Run => Kind::CallAuthorized,
        Course::Refuse => Kind::CallDenied,
        Course::Wait => Kind::CallHeld,
    };
    let alarming = decision.alarm.map(|alarm| alarm.recorded(&decision.reasons));
    let recorded = alarming.as_deref().unwrap_or(&decision.reasons);
    let mut written = Written::bare(Draft {
        run: Some(*call.run()),
        call: Some(call.id().clone()),
        tool: Some(call.tool().clone()),
        verdict: Some(decision.verdict),
        rule: rule(recorded).or_else(|| decision.ground.as_deref().map(ground)),
        policy: Some(decision.policy),
        ..Draft::of(kind, Json::Null)
    });
    // Arguments that hold a credential are committed to and never stored (I9): the gate says so, and no policy can.
    let keep = decision.alarm.is_none() && call.canonical().len() <= STORED_MAX;
    // A call that was held keeps its salt, and with it the digest its approvers signed; its arguments
    // have been stored then.
    let resumed = judged.resumed();
    let salt = resumed.map_or_else(|| random32(entropy), |resumed| resumed.salt);
    let keep = keep && resumed.is_none();
    let args = written.commit(&salt, "args", call.canonical(), keep);
    if let Some(input) = &decision.input {
        written.add(entropy, "policy_input", input);
    }
    if kind != Kind::CallDenied && resumed.is_none() {
        written.as_sent(entropy, prepared, keep);
    }
    if let Some(pre_image) = prepared.pre_image().filter(|_| kind == Kind::CallAuthorized) {
        written.add(entropy, "pre_image", pre_image);
    }
    let digest = call_digest(call.run(), call.id(), call.tool(), &args);
    let tier = prepared.tool().map_or(Tier::T3, |tool| tool.tier);
    let mut data = vec![
        ("call_digest", Json::from(digest.hex())),
        ("tier", Json::from(tier.as_str())),
        ("reasons", reasons(recorded)),
        ("obligations", obligations(&decision.obligations)),
        ("layers", layers(&decision.layers)),
        ("enforced", Json::from(decision.enforced)),
        ("binding", Json::from(judged.binding())),
        ("executor", Json::from("sidecar")),
        ("after", Json::from(call.after())),
        ("engine", Json::from(decision.engine.as_str())),
        ("auth", auth(call.auth())),
    ];
    data.extend(decision.alarm.map(|alarm| ("args_withheld", Json::from(alarm.as_str()))));
    data.extend(mark.map(|mark| ("mark", Json::from(mark.hex()))));
    data.extend(prepared.tool().map(|t| ("definition", Json::from(t.definition.prefixed()))));
    if prepared.is_ready() {
        data.push(("effect", Json::from(effect_digest(&salt, prepared))));
    }
    data.extend(call.traceparent().map(|t| ("traceparent", Json::from(t))));
    if kind == Kind::CallHeld {
        data.push(("expires", Json::from(expires.to_string())));
        data.push(("nonce", Json::from(hex::encode(random16(entropy)))));
    }
    data.extend(resumed.filter(|_| kind == Kind::CallAuthorized).and_then(approvals));
    data.extend(signed_for(entropy, judged, &mut written));
    written.draft.data = Json::object(data);
    written
}

/// What people signed about a call, besides its approvals: members of its entry, and payloads.
fn signed_for(
    entropy: &dyn Entropy,
    judged: &Judged,
    written: &mut Written,
) -> Vec<(&'static str, Json)> {
    let mut data = Vec::new();
    if let Some(by) = judged.asked_by() {
        data.push(("asked_by", asked_by(by)));
        // With the first decision about it; later ones name it.
        if let Some(signed) = by.signed.as_ref().filter(|_| judged.resumed().is_none()) {
            written.add(entropy, "approval", &signed.bytes());
        }
    }
    if let Some(open) = judged.break_glass() {
        data.push(("break_glass", broken(open)));
        written.add(entropy, "approval", &open.signed.bytes());
    }
    data
}

/// The approver who wrote a call's arguments, as its entries show it.
fn asked_by(by: &Proposer) -> Json {
    let Proposer { approval: Approval { subject, roles, key }, signers, .. } = by;
    let roles = roles.iter().map(|role| Json::from(role.as_str())).collect::<Vec<_>>();
    let mut members = vec![
        ("subject", Json::from(clip(subject, 256))),
        ("roles", roles.into()),
        ("key", Json::from(key.as_str())),
    ];
    members.extend(signers.map(|list| ("signers", Json::from(list.prefixed()))));
    Json::object(members)
}

/// The hold that approvals released, if any did.
fn approvals(resumed: &Resumed) -> Option<(&'static str, Json)> {
    let nonce = Json::from(resumed.nonce.as_str());
    (!resumed.approvals.is_empty()).then(|| ("approvals", Json::from(vec![nonce])))
}

/// The break-glass order under which a call runs, as its entry shows it.
fn broken(open: &Open) -> Json {
    let input::Broken { nonce, until, by } = input::broken(open);
    Json::object([
        ("nonce", Json::from(nonce)),
        ("until", Json::from(until.to_string())),
        ("by", by.into_iter().map(|one| Json::from(clip(&one, 256))).collect::<Vec<_>>().into()),
        ("signers", Json::from(open.signers.prefixed())),
    ])
}

/// The outcome of a permitted call, as it will stand on the books.
#[must_use]
pub fn ended(entropy: &dyn Entropy, finished: &Finished) -> Written {
    let ended = finished.ended();
    let us = ("us", Json::from(micros(ended.took)));
    let attempts = ("attempts", Json::from(u64::from(ended.attempts)));
    let (kind, mut data) = match &ended.outcome {
        Outcome::Completed { status, .. } => {
            let status = ("status", Json::from(clip(status, 64)));
            (Kind::CallCompleted, vec![us, attempts, status])
        }
        Outcome::Failed { class, started, message } => {
            let class = ("class", Json::from(class.as_str()));
            let started = ("started", Json::from(*started));
            let message = ("message", Json::from(clip(message, 256)));
            (Kind::CallFailed, vec![us, attempts, class, started, message])
        }
        Outcome::Unknown { cause } => {
            (Kind::CallUnknown, vec![("cause", Json::from(clip(cause, 256)))])
        }
        Outcome::Cancelled { reason } => {
            (Kind::CallCancelled, vec![("reason", Json::from(clip(reason, 256)))])
        }
    };
    if !finished.observed().is_empty() {
        data.push(("observed", observed(finished.observed())));
    }
    let mut written = Written::bare(Draft {
        run: Some(*finished.run()),
        call: Some(finished.call().clone()),
        tool: Some(finished.tool().clone()),
        ..Draft::of(kind, Json::object(data))
    });
    if let Outcome::Completed { result, .. } = &ended.outcome {
        written.add(entropy, "result", result);
    }
    written
}

/// What an executor saw, as entries show it: nothing that it did not see.
fn observed(seen: &Observed) -> Json {
    let mut members = Vec::new();
    members.extend(seen.sandbox.as_ref().map(|level| ("sandbox", Json::from(level.as_str()))));
    members.extend(seen.cgroup.as_ref().map(|held| ("cgroup", Json::from(held.as_str()))));
    if !seen.tables_queried.is_empty() {
        let tables = seen.tables_queried.iter().take(TABLES_MAX);
        let tables = tables.map(|table| Json::from(clip(table, 256))).collect::<Vec<_>>();
        members.push(("tables_queried", tables.into()));
    }
    members.extend(seen.usage.as_ref().map(|usage| ("usage", used(usage))));
    members.extend(seen.redaction.as_ref().map(|done| ("redaction", redaction(done))));
    Json::object(members)
}

fn redaction(done: &Redaction) -> Json {
    let mut members = vec![("masked", Json::from(done.masked))];
    members.extend(done.unscanned.map(|why| ("unscanned", Json::from(why.as_str()))));
    Json::object(members)
}

fn used(usage: &Usage) -> Json {
    let mut members = vec![
        ("upstream", Json::from(clip(&usage.upstream, 256))),
        ("input_tokens", Json::from(usage.input_tokens)),
        ("output_tokens", Json::from(usage.output_tokens)),
    ];
    members.extend(usage.cost_micro_usd.map(|cost| ("cost_micro_usd", Json::from(cost))));
    members.extend(usage.estimated.then(|| ("estimated", Json::from(true))));
    Json::object(members)
}

/// An approver's word about a held call, as it will stand on the books: what was signed is its payload.
#[must_use]
pub fn word(
    entropy: &dyn Entropy,
    hold: &Hold,
    (approval, word, signers): (&Approval, Word, Option<Digest>),
    signed: &Signed,
) -> Written {
    let mut data = vec![
        ("call_digest", Json::from(hold.call_digest.hex())),
        ("nonce", Json::from(hold.nonce.as_str())),
        ("subject", Json::from(clip(&approval.subject, 256))),
        ("roles", approval.roles.iter().map(|r| Json::from(r.as_str())).collect::<Vec<_>>().into()),
        ("key", Json::from(approval.key.as_str())),
    ];
    data.extend(signers.map(|list| ("signers", Json::from(list.prefixed()))));
    let kind = match word {
        Word::Approve => {
            data.push(("expires", Json::from(hold.expires.to_string())));
            Kind::ApprovalGranted
        }
        Word::Refuse => Kind::ApprovalRefused,
    };
    let mut written = Written::bare(Draft {
        run: Some(hold.run),
        call: Some(hold.call.clone()),
        tool: Some(hold.tool.clone()),
        ..Draft::of(kind, Json::object(data))
    });
    written.add(entropy, "approval", &signed.bytes());
    written
}

/// How a caller proved who it is, as entries show it.
#[must_use]
pub fn auth(auth: &Auth) -> Json {
    let mut members = vec![("method", Json::from(auth.method.as_str()))];
    members.extend(auth.uid.map(|uid| ("uid", Json::from(u64::from(uid)))));
    let texts =
        [("token", &auth.token), ("certificate", &auth.certificate), ("spiffe", &auth.spiffe)];
    for (name, text) in texts {
        members.extend(text.as_ref().map(|text| (name, Json::from(text.as_str()))));
    }
    Json::object(members)
}

/// The rule an entry names: that of the first reason.
#[must_use]
pub fn rule(reasons: &[Reason]) -> Option<String> {
    reasons.first().map(|reason| clip(&reason.rule, 200))
}

/// The rule an entry names of an allow, which has no reasons.
#[must_use]
pub fn ground(rule: &str) -> String {
    clip(rule, 200)
}

/// The reasons of a decision, as entries show them.
#[must_use]
pub fn reasons(list: &[Reason]) -> Json {
    list.iter().take(REASONS_MAX).map(reason).collect::<Vec<_>>().into()
}

/// The obligations of a decision, as entries show them.
#[must_use]
pub fn obligations(list: &[Obligation]) -> Json {
    list.iter().map(obligation).collect::<Vec<_>>().into()
}

/// The layers of a policy bundle, as entries show them.
#[must_use]
pub fn layers(list: &[LayerDigest]) -> Json {
    list.iter().map(layer).collect::<Vec<_>>().into()
}

fn reason(reason: &Reason) -> Json {
    Json::object([
        ("code", Json::from(reason.code.as_str())),
        ("detail", Json::from(clip(&reason.detail, 128))),
        ("message", Json::from(clip(&reason.message, 512))),
        ("rule", Json::from(clip(&reason.rule, 200))),
    ])
}

fn obligation(obligation: &Obligation) -> Json {
    match obligation {
        Obligation::Redact { kinds, opaque } => {
            let kinds = kinds.iter().map(|k| Json::from(k.as_str())).collect::<Vec<_>>();
            let mut members =
                vec![("type", Json::from(obligation.name())), ("kinds", kinds.into())];
            members.extend(opaque.then(|| ("opaque", Json::from("allow"))));
            Json::object(members)
        }
        Obligation::CapBytes { bytes } => {
            Json::object([("type", Json::from(obligation.name())), ("bytes", Json::from(*bytes))])
        }
    }
}

fn layer(layer: &LayerDigest) -> Json {
    Json::object([
        ("layer", Json::from(layer.layer.as_str())),
        ("digest", Json::from(layer.digest.prefixed())),
    ])
}

/// The first `most` bytes, cut at a character.
#[must_use]
pub fn clip(text: &str, most: usize) -> String {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    text.get(..end).unwrap_or_default().to_owned()
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
