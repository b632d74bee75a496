//! Makes drafts and payloads about calls from the gate's tokens, and draws all salts.

use std::time::Duration;

use super::findings;
use super::hold::HeldCall;
use super::labels;
use super::permit::Finished;
use super::store::PayloadRow;
use crate::approval::break_glass::Open;
use crate::approval::proposal::Proposer;
use crate::approval::{Approval, ApproverVerdict, SignedApproval};
use crate::clock::{Entropy, random16, random32};
use crate::domain::commitment::{commit, derived};
use crate::domain::decision::{Course, LayerReason, PolicyObligation};
use crate::domain::digest::{Digest, Salt, call_digest, commitment};
use crate::domain::effect::ToolKind;
use crate::domain::guarded::Withheld;
use crate::domain::outcome::{Observed, Outcome, Usage};
use crate::domain::tier::Tier;
use crate::domain::time::Timestamp;
use crate::judge::conversation::{ArgParts, PartPayload, StoredArgs};
use crate::judge::guarding;
use crate::judge::prepared::Prepared;
use crate::judge::{Judged, Resumed, effect_digest};
use crate::policy::input;
use crate::record::approval::{ApprovalGranted, ApprovalRefused};
use crate::record::call::{
    Absent, Allowed, AskedIn, BreakGlass, CallCancelled, CallCompleted, CallFailed, CallUnknown,
    Decided, Executor, Refused, Sort, Waiting,
};
use crate::record::decided::{ground, layers, obligations, reasons, rule};
use crate::record::{
    self, Body, Commitment, Draft, HexDigest, Int, List, Nonce, Role, TaggedDigest, Text, True,
};

/// Payloads up to this size commit in the same transaction as their entry.
pub const INLINE_MAX: usize = 16 * 1024;
/// Payloads above this size are not stored; the entry commits to them.
pub const STORED_MAX: usize = 1024 * 1024;
/// Bytes of the events of a streamed answer that are kept for a replay, in payloads of [`STORED_MAX`].
pub const STREAM_MAX: usize = 8 * STORED_MAX;
/// The most relations that an entry names.
const TABLES_MAX: usize = 64;

/// A draft with the payloads it commits to.
#[derive(Clone, PartialEq, Debug)]
pub struct DraftWithPayloads {
    /// The entry to be.
    pub draft: Draft,
    /// Its payloads without those over the stored limit.
    pub payloads: Vec<PayloadRow>,
    /// The policy has its payloads kept, even if the run is incognito.
    pub is_audited: bool,
}

impl DraftWithPayloads {
    /// A draft without payloads.
    pub const fn bare(draft: Draft) -> Self {
        Self { draft, payloads: Vec::new(), is_audited: false }
    }

    /// Commits to a payload of this role, and keeps it up to the stored limit.
    pub fn keep(&mut self, entropy: &dyn Entropy, role: Role, body: &[u8]) {
        self.bind(entropy, (role, body), true);
    }

    /// Commits to a payload of this role, and keeps it if it may be and is within the stored limit.
    fn bind(&mut self, entropy: &dyn Entropy, (role, body): (Role, &[u8]), keep: bool) {
        let mut more = Payloads::default();
        let keep = keep && body.len() <= STORED_MAX;
        more.commit(&random32(entropy), role, body, keep);
        self.draft.commit.append(&mut more.commit);
        self.payloads.append(&mut more.rows);
    }
}

/// Commitments of one entry, and the payloads that are kept.
#[derive(Default)]
struct Payloads {
    commit: Vec<Commitment>,
    rows: Vec<PayloadRow>,
}

impl Payloads {
    fn add(&mut self, entropy: &dyn Entropy, role: Role, body: &[u8]) {
        self.commit(&random32(entropy), role, body, body.len() <= STORED_MAX);
    }

    /// A model receives the arguments in their original order, which canonical JSON loses. The
    /// entry commits to those bytes too.
    fn as_sent(&mut self, entropy: &dyn Entropy, prepared: &Prepared, keep: bool) {
        let call = prepared.call();
        let model = prepared.tool().is_some_and(|tool| tool.kind == ToolKind::Model.as_str());
        if model && call.sent() != call.canonical() {
            let keep = keep && call.sent().len() <= STORED_MAX;
            self.commit(&random32(entropy), Role::Raw, call.sent(), keep);
        }
    }

    /// Signed statements about a call other than its approvals.
    fn signed_for(&mut self, entropy: &dyn Entropy, judged: &Judged) {
        // Only the first decision about the call has it; later ones name it.
        let first = judged.asked_by().filter(|_| judged.resumed().is_none());
        if let Some(signed) = first.and_then(|by| by.signed.as_ref()) {
            self.add(entropy, Role::Approval, &signed.bytes());
        }
        if let Some(open) = judged.break_glass() {
            self.add(entropy, Role::Approval, &open.signed.bytes());
        }
    }

    fn commit(&mut self, salt: &Salt, role: Role, body: &[u8], keep: bool) -> Digest {
        let c = commit(salt, body);
        self.bind((c, salt), role, body, keep);
        c
    }

    fn bind(&mut self, (c, salt): (Digest, &Salt), role: Role, body: &[u8], keep: bool) {
        self.commit.push(Commitment { c: HexDigest(c), len: body.len().into(), role });
        if keep {
            self.rows.push(PayloadRow {
                commitment: c,
                salt: *salt,
                role: role.as_str().to_owned(),
                media_type: media_type(role).to_owned(),
                body: body.to_vec(),
            });
        }
    }

    /// The arguments of a call to a model, in parts. What the run stored before is named and not
    /// stored again.
    fn in_parts(&mut self, salt: &Salt, prepared: &Prepared, parts: &ArgParts) -> Digest {
        let args = self.commit(salt, Role::Args, &parts.args, true);
        let mut part = |role, part: &PartPayload| {
            self.bind((part.c, &part.salt), role, &part.body, true);
        };
        part(Role::Conversation, &parts.conversation);
        parts.apart.iter().for_each(|apart| part(apart.role, &apart.payload));
        parts.messages.iter().for_each(|(_, message)| part(Role::Message, message));
        // An owner of the request as it was sent can prove it: its salt follows from that of the
        // arguments.
        let call = prepared.call();
        if call.sent() != call.canonical() {
            let salt = derived(salt, &[b"raw"]);
            let raw = commitment(&salt, call.sent());
            self.bind((raw, &salt), Role::Raw, call.sent(), false);
        }
        args
    }
}

/// What the bytes of a payload are. Every role but one is JSON.
fn media_type(role: Role) -> &'static str {
    if role == Role::Stream { "text/event-stream" } else { "application/json" }
}

/// The entry for the decision about a call.
pub fn decided(
    entropy: &dyn Entropy,
    judged: &Judged,
    (mark, expires): (Option<Digest>, Timestamp),
) -> DraftWithPayloads {
    let (prepared, decision) = (judged.prepared(), judged.decision());
    let call = prepared.call();
    let course = decision.course();
    let alarming = decision.alarm.map(|alarm| alarm.recorded(&decision.reasons));
    let recorded = alarming.as_deref().unwrap_or(&decision.reasons);
    // Arguments with a credential of this gate, with a secret or with what the call is refused for are
    // committed to and never stored (I9). The gate decides that, whatever the decision is and whoever made
    // it; no policy can change it.
    // In parts each payload has a size of its own.
    let in_parts = prepared.model().is_some_and(|model| model.parts.is_some());
    let stored = in_parts || call.canonical().len() <= STORED_MAX;
    let keep = withheld(judged).is_none() && stored;
    // A call that was held keeps its salt, and so the digest that its approvers signed. Its
    // arguments were stored when it was held.
    let resumed = judged.resumed();
    let salt = resumed.map_or_else(|| random32(entropy), |resumed| resumed.salt);
    let keep = keep && resumed.is_none();
    let mut payloads = Payloads::default();
    let model = prepared.model().filter(|_| keep);
    // A held call is stored whole: its approvers read it, and it runs after a restart too. No other
    // call continues it, because it is decided later.
    let parts = model.and_then(|model| model.parts.as_ref()).filter(|_| course != Course::Wait);
    let args = match parts {
        Some(parts) => payloads.in_parts(&salt, prepared, parts),
        None => payloads.commit(&salt, Role::Args, call.canonical(), keep),
    };
    if let Some(model) = model.filter(|_| course != Course::Wait) {
        let stored = parts.map_or(StoredArgs::Whole(args), |_| StoredArgs::Parts);
        // The first draft of a call is the one that is written.
        model.stored.get_or_init(|| stored);
    }
    if let Some(input) = &decision.input {
        payloads.add(entropy, Role::PolicyInput, input);
    }
    if course != Course::Refuse && resumed.is_none() && parts.is_none() {
        payloads.as_sent(entropy, prepared, keep);
    }
    if let Some(pre_image) = prepared.pre_image().filter(|_| course == Course::Run) {
        payloads.add(entropy, Role::PreImage, pre_image);
    }
    let digest = call_digest(call.run(), call.id(), call.tool(), &args);
    let effect = prepared.is_ready().then(|| HexDigest(effect_digest(&salt, prepared)));
    let args_bytes = parts.map(|_| call.canonical().len().into());
    let common = DecisionFacts { judged, recorded, mark, digest, effect, args_bytes };
    let nonce = (course == Course::Wait).then(|| Nonce(random16(entropy)));
    payloads.signed_for(entropy, judged);
    let nothing = (Absent, Absent);
    let body = match course {
        Course::Run => {
            let open = judged.break_glass().and_then(broken);
            let released = (resumed.and_then(approvals), open);
            common.body::<Allowed>(released, nothing, None).into()
        }
        Course::Refuse => common.body::<Refused>(nothing, nothing, None).into(),
        Course::Wait => {
            let held = (call.dialect().map(AskedIn::from), nonce);
            common.body::<Waiting>(nothing, held, Some(expires)).into()
        }
    };
    let draft = Draft {
        run: Some(*call.run()),
        call: Some(call.id().clone()),
        tool: Some(call.tool().clone()),
        verdict: Some(decision.verdict),
        rule: rule(recorded).or_else(|| decision.ground.as_deref().map(ground)),
        policy: Some(decision.policy),
        commit: payloads.commit,
        body,
    };
    let is_audited = decision.obligations.iter().any(PolicyObligation::is_audit);
    DraftWithPayloads { draft, payloads: payloads.rows, is_audited }
}

/// The members that every kind of decision has.
struct DecisionFacts<'a> {
    judged: &'a Judged,
    recorded: &'a [LayerReason],
    mark: Option<Digest>,
    digest: Digest,
    effect: Option<HexDigest>,
    args_bytes: Option<Int>,
}

impl DecisionFacts<'_> {
    fn body<S: Sort>(
        self,
        (approvals, break_glass): (S::Approvals, S::BreakGlass),
        (asked_in, nonce): (S::AskedIn, S::Nonce),
        expires: Option<Timestamp>,
    ) -> Decided<S> {
        let (prepared, decision) = (self.judged.prepared(), self.judged.decision());
        let call = prepared.call();
        let tool = prepared.tool();
        Decided {
            after: call.after().into(),
            approvals,
            args_bytes: self.args_bytes,
            args_withheld: withheld(self.judged),
            asked_by: self.judged.asked_by().map(asked_by),
            asked_in,
            auth: call.auth().into(),
            binding: self.judged.binding(),
            break_glass,
            call_digest: Some(HexDigest(self.digest)),
            definition: tool.map(|tool| TaggedDigest(tool.definition)),
            effect: self.effect,
            enforced: decision.enforced,
            engine: decision.engine.as_str().into(),
            exceptions: findings::exceptions(&prepared.screening().signed()),
            executor: match tool.is_some_and(|tool| tool.kind == ToolKind::Client.as_str()) {
                true => Executor::Agent,
                false => Executor::Sidecar,
            },
            expires,
            findings: findings::named(&prepared.screening().findings),
            findings_more: findings::more(&prepared.screening().findings),
            firewall: Some(TaggedDigest(guarding::rules())),
            gate_of: call.gate_of().cloned(),
            hosts: List::some(prepared.hosts().iter().map(|host| Text::clip(host, 256))),
            justification: call.justification().map(|text| Text::clip(text, 512 * 4)),
            layers: layers(&decision.layers),
            mark: self.mark.map(HexDigest),
            masked: prepared.screening().masks.clone(),
            nonce,
            obligations: obligations(&decision.obligations),
            parent: call.step().map(|step| step.parent.clone()),
            proposed_by: self.judged.proposed_by().map(|call| call.as_str().into()),
            reasons: reasons(self.recorded),
            taint: labels::taint(self.judged),
            tier: Some(tool.map_or(Tier::T3, |tool| tool.tier)),
            tools_text: call.step().and_then(|step| step.tools_text).map(TaggedDigest),
            traceparent: call.traceparent().map(Text::from),
        }
    }
}

/// Why the arguments of this call are not stored.
fn withheld(judged: &Judged) -> Option<Withheld> {
    let alarm = judged.decision().alarm.map(Withheld::from);
    alarm.or(judged.prepared().screening().withheld)
}

/// The approver who wrote a call's arguments.
fn asked_by(by: &Proposer) -> record::call::Proposer {
    let Proposer { approval: Approval { subject, roles, key, key_kind, origin }, signers, .. } = by;
    record::call::Proposer {
        key: key.as_str().into(),
        key_kind: *key_kind,
        origin: origin.as_deref().map(Text::from),
        roles: roles.iter().map(|role| role.as_str().into()).collect(),
        signers: signers.map(TaggedDigest),
        subject: Text::clip(subject, 256),
    }
}

/// The hold whose approvals released the call, if any.
fn approvals(resumed: &Resumed) -> Option<List<Nonce, 16, 1>> {
    List::some((!resumed.approvals.is_empty()).then_some(resumed.nonce))
}

/// The break-glass order under which a call runs.
fn broken(open: &Open) -> Option<BreakGlass> {
    let input::Broken { nonce, until, by } = input::broken(open);
    Some(BreakGlass {
        by: List::some(by.into_iter().map(|one| Text::clip(&one, 256)))?,
        nonce: Nonce::parse(&nonce)?,
        signers: TaggedDigest(open.signers),
        until,
    })
}

/// The entry for the outcome of a permitted call.
pub fn ended(entropy: &dyn Entropy, finished: &Finished) -> DraftWithPayloads {
    let ended = finished.ended();
    let us = micros(ended.took).into();
    let attempts = ended.attempts.into();
    let seen = finished.observed();
    let observed = (!seen.is_empty()).then(|| observed(seen));
    let body: Body = match &ended.outcome {
        Outcome::Completed { status, .. } => {
            CallCompleted { attempts, observed, status: Text::clip(status, 64), us }.into()
        }
        Outcome::Failed { class, started, message } => CallFailed {
            attempts,
            class: class.as_str().into(),
            message: Text::clip(message, 256),
            observed,
            started: *started,
            us,
        }
        .into(),
        Outcome::Unknown { cause } => {
            CallUnknown { cause: Text::clip(cause, 256), covered_bytes: None, observed }.into()
        }
        Outcome::Cancelled { reason } => {
            CallCancelled { observed, reason: Text::clip(reason, 256) }.into()
        }
    };
    let mut written = DraftWithPayloads::bare(Draft {
        run: Some(*finished.run()),
        call: Some(finished.call().clone()),
        tool: Some(finished.tool().clone()),
        ..Draft::of(body)
    });
    written.is_audited = finished.is_audited();
    if let Outcome::Completed { result, .. } = &ended.outcome {
        written.bind(entropy, (Role::Result, result), !finished.withholds());
    }
    if let Some(stream) = finished.stream() {
        for part in stream_parts(stream) {
            written.bind(entropy, (Role::Stream, part), !finished.withholds());
        }
    }
    written
}

/// The payloads that the events of a streamed answer are stored in, in order.
pub fn stream_parts(stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    // An answer without events is one payload, too.
    let none = stream.is_empty().then_some(stream);
    none.into_iter().chain(stream.chunks(STORED_MAX))
}

/// What an executor observed, without members that it did not observe.
fn observed(seen: &Observed) -> record::call::Observed {
    let tables = seen.tables_queried.iter().take(TABLES_MAX).map(|table| Text::clip(table, 256));
    let attempts = seen.attempts.iter().map(|attempt| record::call::ModelAttempt {
        ms: attempt.ms.into(),
        status: Text::clip(&attempt.status, 64),
        upstream: Text::clip(&attempt.upstream, 256),
    });
    record::call::Observed {
        attempts: (!seen.attempts.is_empty()).then(|| attempts.collect()),
        cgroup: seen.cgroup,
        exceptions: findings::exceptions(&seen.exceptions),
        findings: findings::named(&seen.findings),
        findings_more: findings::more(&seen.findings),
        labels: List::some(seen.labels.iter().copied()),
        model: seen.model.as_ref().map(|model| Text::clip(model, 256)),
        stream: seen.stream.as_ref().map(|seen| record::call::Stream {
            bytes: seen.bytes.into(),
            first_ms: seen.first_ms.map(Into::into),
            pieces: seen.pieces.into(),
            sha256: HexDigest(seen.sha256),
        }),
        redaction: seen.redaction.as_ref().map(|done| record::call::Redaction {
            masked: done.masked.into(),
            unscanned: done.unscanned,
        }),
        sandbox: seen.sandbox,
        tables_queried: (!seen.tables_queried.is_empty()).then(|| tables.collect()),
        usage: seen.usage.as_ref().map(used),
    }
}

fn used(usage: &Usage) -> record::call::Usage {
    let some = |tokens: u64| (tokens > 0).then(|| tokens.into());
    record::call::Usage {
        cache_write_tokens: some(usage.cache_write_tokens),
        cached_input_tokens: some(usage.cached_input_tokens),
        cost_micro_usd: usage.cost_micro_usd.map(Into::into),
        estimated: True::when(usage.estimated),
        input_tokens: usage.input_tokens.into(),
        output_tokens: usage.output_tokens.into(),
        reasoning_tokens: some(usage.reasoning_tokens),
        upstream: Text::clip(&usage.upstream, 256),
    }
}

/// The entry for an approver's answer about a held call; the signed statement is its payload.
pub fn approver_decision(
    entropy: &dyn Entropy,
    hold: &HeldCall,
    (approval, verdict, signers): (&Approval, ApproverVerdict, Option<Digest>),
    signed: &SignedApproval,
) -> DraftWithPayloads {
    let call_digest = HexDigest(hold.call_digest);
    let (key, nonce) = (approval.key.as_str().into(), hold.nonce);
    let roles = approval.roles.iter().map(|role| role.as_str().into()).collect();
    let (reason, signers) = (None, signers.map(TaggedDigest));
    let (key_kind, origin) = (approval.key_kind, approval.origin.as_deref().map(Text::from));
    let subject = Text::clip(&approval.subject, 256);
    let body: Body = match verdict {
        ApproverVerdict::Approve => ApprovalGranted {
            call_digest,
            expires: hold.expires,
            key,
            key_kind,
            nonce,
            origin,
            reason,
            roles,
            signers,
            subject,
        }
        .into(),
        ApproverVerdict::Refuse => ApprovalRefused {
            call_digest,
            key,
            key_kind,
            nonce,
            origin,
            reason,
            roles,
            signers,
            subject,
        }
        .into(),
    };
    let mut written = DraftWithPayloads::bare(Draft {
        run: Some(hold.run),
        call: Some(hold.call.clone()),
        tool: Some(hold.tool.clone()),
        ..Draft::of(body)
    });
    written.keep(entropy, Role::Approval, &signed.bytes());
    written
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
