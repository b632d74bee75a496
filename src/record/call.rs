//! Entries about calls: the decision about a call, and its outcome.

use std::collections::BTreeSet;
use std::fmt::Debug;

use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize, Serializer};
use serde_with_macros::skip_serializing_none;

use super::approval::KeyKind;
use super::text::{HexDigest, Int, List, Nonce, TaggedDigest, Text, True};
use crate::domain::closed::{closed, members};
use crate::domain::decision::NotifyTarget;
use crate::domain::dialect::{Dialect, Operation};
use crate::domain::digest::Digest;
use crate::domain::guarded::{GuardAction, Withheld};
use crate::domain::id::{CallId, RunId};
use crate::domain::outcome::{Cgroup, Opaque, Sandbox, StreamSeen};
use crate::domain::taint::{Flow, FlowAction, Label};
use crate::domain::tier::{Binding, Tier};
use crate::domain::time::Timestamp;

/// Findings that an entry names at most, of the arguments and of the answer.
pub const NAMED_FINDINGS_MAX: usize = 16;

members! {
    /// How a caller proved who it is.
    #[derive(Default)]
    #[cfg_attr(test, schemars(rename = "auth"))]
    pub struct Auth {
        /// The Kubernetes service account whose token was shown, `NAMESPACE/NAME`.
        pub account: Option<Text<320>>,
        /// Digest of the certificate of its TLS connection.
        pub certificate: Option<TaggedDigest>,
        /// `uds`, `mtls`, `token`, `service_account` or `internal`.
        pub method: Text,
        /// The SPIFFE id in that certificate.
        pub spiffe: Option<Text<2048>>,
        /// Keyed hash of the token that was shown, 16 hex digits.
        pub token: Option<Text>,
        /// The peer's uid on a Unix socket.
        pub uid: Option<Int>,
    }
}

members! {
    /// One layer of the policy bundle that took part in a decision.
    #[cfg_attr(test, schemars(rename = "layer"))]
    pub struct Layer {
        /// SHA-256 of the layer's deterministic tar.
        pub digest: TaggedDigest,
        /// `lib`, `org`, `team`, `agent` or `data`.
        pub layer: Text,
    }

    /// One reason of a decision.
    #[cfg_attr(test, schemars(rename = "reason"))]
    pub struct Reason {
        /// The stable code of the denial: `policy.denied`, …
        pub code: Text,
        /// A finer code below it; may be empty.
        pub detail: Text,
        /// The reason as text; may be empty.
        pub message: Text,
        /// The rule that gave it; empty if no policy rule did.
        pub rule: Text,
    }

    /// A condition of an allow.
    #[derive(Default)]
    #[cfg_attr(test, schemars(rename = "obligation"))]
    pub struct Obligation {
        /// `cap_bytes`: the most bytes that the result may have.
        pub bytes: Option<Int>,
        /// `rate_limit`: the most calls within `seconds`.
        pub calls: Option<Int>,
        /// `enhanced_audit`: how many days the payloads of the call are kept.
        pub days: Option<Int>,
        /// `redact`: the kinds of findings that are masked, sorted.
        pub kinds: Option<List<Text>>,
        /// `redact`: `allow` releases content that cannot be searched.
        pub opaque: Option<Release>,
        /// `rate_limit`: the time in which `calls` are counted.
        pub seconds: Option<Int>,
        /// `notify`: who is told, sorted.
        pub to: Option<List<NotifyTarget>>,
        /// `redact`, `cap_bytes`, `enhanced_audit`, `rate_limit`, `notify` or `justify`.
        pub r#type: Text,
        /// `redact`: `arguments` if those are masked; otherwise the result is.
        pub r#where: Option<RedactedPart>,
    }
}

closed! {
    /// What of a call is masked in place of its result.
    pub enum RedactedPart {
        /// Its arguments.
        Arguments = "arguments",
    }
}

closed! {
    /// How to treat content that cannot be scanned.
    pub enum Release {
        /// It is released.
        Allow = "allow",
    }
}

members! {
    /// The person who proposed the arguments of this call.
    #[cfg_attr(test, schemars(rename = "asked_by"))]
    pub struct Proposer {
        /// Id of the key that signed the proposal.
        pub key: Text,
        /// The kind of that key; absent in entries of gates that knew no passkeys.
        pub key_kind: Option<KeyKind>,
        /// Where a passkey signed what that console showed.
        pub origin: Option<Text>,
        /// Roles of the person in the list of approvers.
        pub roles: List<Text>,
        /// Digest of that list.
        pub signers: Option<TaggedDigest>,
        /// The person's name in that list.
        pub subject: Text,
    }

    /// The break-glass order under which a call ran.
    #[cfg_attr(test, schemars(rename = "break_glass"))]
    pub struct BreakGlass {
        /// Who signed it.
        pub by: List<Text, 16, 2>,
        /// The order's nonce.
        pub nonce: Nonce,
        /// Digest of the list of its signers.
        pub signers: TaggedDigest,
        /// When the order ends.
        pub until: Timestamp,
    }
}

members! {
    /// The form of a request to a model that was made in a dialect.
    #[cfg_attr(test, schemars(rename = "asked_in"))]
    pub struct AskedIn {
        /// Whether the provider's preview API is asked for.
        pub beta: Option<True>,
        /// The protocol.
        pub dialect: Dialect,
        /// Headers of the agent for the provider. Absent in entries of gates that did not bind them.
        pub headers: Option<List<AgentHeader, 8>>,
        /// What is asked for.
        pub operation: Operation,
    }

    /// A header of an agent for the provider of a model.
    #[cfg_attr(test, schemars(rename = "header"))]
    pub struct AgentHeader {
        /// Its name in lower case.
        pub name: Text<64>,
        /// Its value.
        pub value: Text,
    }
}

members! {
    /// One finding of the firewall, without its value.
    #[cfg_attr(test, schemars(rename = "guarded_finding"))]
    pub struct GuardedFinding {
        /// What the gate did about it.
        pub action: GuardAction,
        /// What it is about: `secret`, `personal`, `injection`, `unicode` or `unscanned`.
        pub class: Text,
        /// How sure it is: `high` or `low`.
        pub confidence: Text,
        /// Number of the signed order that let it pass; that order is among `exceptions`.
        pub exception: Option<Int>,
        /// What it is: `github`, `card`, …
        pub kind: Text,
        /// Keyed mark of its value, where the configuration asks for marks: equal values have equal marks.
        pub mark: Option<Nonce>,
        /// JSON pointer of the text with it.
        pub path: Text,
    }
}

members! {
    /// The kinds of findings of which every one in the arguments is masked, sorted. No mask is in the
    /// `obligations`: the policy is asked again about the masked call, where a rule about findings finds none.
    #[cfg_attr(test, schemars(rename = "masked_kinds"))]
    pub struct MaskedKinds {
        /// Those that the configuration wants masked.
        pub configuration: Option<List<Text, 256, 1>>,
        /// Those that the policy wants masked.
        pub policy: Option<List<Text, 256, 1>>,
    }
}

impl MaskedKinds {
    /// These kinds; `None` if there are none.
    #[must_use]
    pub fn some(configuration: &BTreeSet<&str>, policy: &BTreeSet<&str>) -> Option<Self> {
        let list = |kinds: &BTreeSet<&str>| List::some(kinds.iter().map(|kind| Text::from(*kind)));
        let all = Self { configuration: list(configuration), policy: list(policy) };
        (all.configuration.is_some() || all.policy.is_some()).then_some(all)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let all = self.configuration.iter().chain(&self.policy);
        all.flat_map(|list| list.iter()).map(Text::as_str)
    }
}

members! {
    /// The signed order that let one value pass the firewall.
    #[cfg_attr(test, schemars(rename = "used_exception"))]
    pub struct UsedException {
        /// Id of the key that signed it.
        pub key: Text,
        /// The order's number.
        pub order: Int,
        /// The signature of the order, armored.
        pub signature: Text,
        /// Digest of the list of signers that it was checked against.
        pub signers: TaggedDigest,
        /// The statement that was signed.
        pub statement: Text,
        /// The person's name in that list.
        pub subject: Text,
    }
}

members! {
    /// A label of a run, with the first call that brought it.
    #[cfg_attr(test, schemars(rename = "taint_label"))]
    pub struct TaintLabel {
        /// The call.
        pub call: CallId,
        /// The label.
        pub label: Label,
        /// The run of that call, if it is another one.
        pub run: Option<RunId>,
    }

    /// A passage of a call that is a copy of what an earlier answer released.
    #[cfg_attr(test, schemars(rename = "taint_span"))]
    pub struct CopiedSpan {
        /// The call with that answer.
        pub call: CallId,
        /// Where the passage ends in the text: bytes of UTF-8.
        pub end: Int,
        /// What the answer brought.
        pub label: Label,
        /// JSON pointer of the text, below the arguments.
        pub path: Text,
        /// The run of that call, if it is another one.
        pub run: Option<RunId>,
        /// Where the passage begins in the text.
        pub start: Int,
    }

    /// What a run had read when a call of it was decided.
    #[cfg_attr(test, schemars(rename = "taint"))]
    pub struct Taint {
        /// What the gate does about it.
        pub action: Option<FlowAction>,
        /// Why.
        pub flow: Option<Flow>,
        /// The labels whose content is in the call, or may be.
        pub influenced: Option<List<Label, 4, 1>>,
        /// The labels of the run.
        pub labels: List<TaintLabel, 4, 1>,
        /// The passages that are copies.
        pub spans: Option<List<CopiedSpan, 16, 1>>,
        /// How many more there are.
        pub spans_more: Option<Int>,
        /// There may be copies that were not found: the gate was restarted since.
        pub unknown: Option<True>,
    }
}

closed! {
    /// Component that runs the tool.
    pub enum Executor {
        /// The gate itself.
        Sidecar = "sidecar",
        /// The agent: the gate hands it a tool call of a model's answer.
        Agent = "agent",
    }
}

/// The members that only one kind of decision has.
pub trait Sort: Clone + PartialEq + Debug {
    /// Holds whose approvals released the call.
    type Approvals: Member;
    /// The form of a request to a model.
    type AskedIn: Member;
    /// The break-glass order.
    type BreakGlass: Member;
    /// The nonce of the hold, which approvals sign.
    type Nonce: Member;
}

/// A member of some kinds of decisions.
pub trait Member:
    Clone + PartialEq + Debug + Default + Serialize + DeserializeOwned + Schema
{
    /// Whether it is left out.
    fn is_absent(&self) -> bool;
}

#[cfg(not(test))]
mod bound {
    /// What a member needs for the schema, which only tests emit.
    pub trait Schema {}
    impl<T> Schema for T {}
}
#[cfg(test)]
mod bound {
    /// What a member needs for the schema, which only tests emit.
    pub use schemars::JsonSchema as Schema;
}
use bound::Schema;

impl<T: Clone + PartialEq + Debug + Serialize + DeserializeOwned + Schema> Member for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

/// A member that a kind of decision must not have: its only value is absence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Absent;

impl Member for Absent {
    fn is_absent(&self) -> bool {
        true
    }
}

impl Serialize for Absent {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Absent {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(D::Error::custom("no member of this kind of entry"))
    }
}

#[cfg(test)]
impl schemars::JsonSchema for Absent {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Absent".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        false.into()
    }
}

/// A decision about one call. The optional members depend on the verdict: for example, only a held
/// call has `nonce`, and only an allowed call has `approvals`.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(test, schemars(bound = ""))]
#[serde(deny_unknown_fields, bound = "")]
pub struct Decided<S: Sort> {
    /// The highest `run_seq` among the answers that the agent had received when it made the call.
    pub after: Int,
    /// Nonces of the holds that approvers released so that the call could run.
    #[serde(default, skip_serializing_if = "Member::is_absent")]
    pub approvals: S::Approvals,
    /// Size of the canonical arguments in bytes, if they are stored in parts: `args` then has neither
    /// messages nor tools.
    pub args_bytes: Option<Int>,
    /// Why the arguments are committed to but not stored.
    pub args_withheld: Option<Withheld>,
    /// The person who proposed the arguments.
    pub asked_by: Option<Proposer>,
    /// The form of a held request to a model in a dialect: it is judged again in the same form.
    #[serde(default, skip_serializing_if = "Member::is_absent")]
    pub asked_in: S::AskedIn,
    /// How the caller proved who it is.
    pub auth: Auth,
    /// How the gate knows the agent's model and instructions.
    pub binding: Binding,
    /// The break-glass order that replaced the approvals.
    #[serde(default, skip_serializing_if = "Member::is_absent")]
    pub break_glass: S::BreakGlass,
    /// Digest over the run, the call, the tool and the commitment to the arguments. Approvers sign
    /// it.
    pub call_digest: Option<HexDigest>,
    /// Digest of the tool's definition.
    pub definition: Option<TaggedDigest>,
    /// Keyed digest of what the call would do.
    pub effect: Option<HexDigest>,
    /// Whether the verdict is enforced; `false` in observe mode, where it is only recorded.
    pub enforced: bool,
    /// Policy engine and version.
    pub engine: Text,
    /// The signed orders that let findings in the arguments pass.
    pub exceptions: Option<List<UsedException, 16, 1>>,
    /// Component that runs the tool.
    pub executor: Executor,
    /// When a hold expires.
    pub expires: Option<Timestamp>,
    /// What the firewall found in the arguments, as far as the configuration looks for it.
    pub findings: Option<List<GuardedFinding, NAMED_FINDINGS_MAX, 1>>,
    /// How many more it found.
    pub findings_more: Option<Int>,
    /// Digest of the rules that the firewall searched with.
    pub firewall: Option<TaggedDigest>,
    /// The call of the run that this one checks or takes back: the gate made it, not the agent.
    pub gate_of: Option<CallId>,
    /// The hosts that the call reaches, as the configuration of its tool names them. A fetch below a domain has the
    /// pattern: which name it is, the agent chose.
    pub hosts: Option<List<Text<256>, 16, 1>>,
    /// Why the agent makes the call, in its own words: a claim.
    pub justification: Option<Text<512>>,
    /// Layers of the policy bundle that decided.
    pub layers: List<Layer>,
    /// Keyed mark of a call in an incognito run.
    pub mark: Option<HexDigest>,
    /// What is masked in the arguments.
    pub masked: Option<MaskedKinds>,
    /// The nonce of the hold, which approvals sign.
    #[serde(default, skip_serializing_if = "Member::is_absent")]
    pub nonce: S::Nonce,
    /// Conditions of an allow, such as masking the result.
    pub obligations: List<Obligation>,
    /// The request of the agent that the gate made this call for, as a step of its managed loop.
    pub parent: Option<CallId>,
    /// The call of a model whose answer asks for exactly this call.
    pub proposed_by: Option<Text>,
    /// Why the call was denied or held; in observe mode, why an allowed call would have been denied.
    pub reasons: List<Reason>,
    /// What the run had read, and what of that is in the call.
    pub taint: Option<Taint>,
    /// The tier of the tool.
    pub tier: Option<Tier>,
    /// Digest of the instructions by which the gate offers its tools to a model without tool calls. The
    /// gate added them to the request.
    pub tools_text: Option<TaggedDigest>,
    /// W3C trace context of the caller.
    pub traceparent: Option<Text>,
}

/// The members that every decision has.
#[derive(Clone, Copy, Debug)]
pub struct Decision<'a> {
    /// As [`Decided::after`].
    pub after: u64,
    /// As [`Decided::args_bytes`].
    pub args_bytes: Option<u64>,
    /// As [`Decided::args_withheld`].
    pub args_withheld: Option<Withheld>,
    /// As [`Decided::asked_by`].
    pub asked_by: Option<&'a Proposer>,
    /// As [`Decided::auth`].
    pub auth: &'a Auth,
    /// As [`Decided::binding`].
    pub binding: Binding,
    /// As [`Decided::call_digest`].
    pub call_digest: Option<Digest>,
    /// As [`Decided::definition`].
    pub definition: Option<Digest>,
    /// As [`Decided::effect`].
    pub effect: Option<Digest>,
    /// As [`Decided::enforced`].
    pub enforced: bool,
    /// As [`Decided::engine`].
    pub engine: &'a str,
    /// As [`Decided::exceptions`].
    pub exceptions: &'a [UsedException],
    /// As [`Decided::findings`].
    pub findings: &'a [GuardedFinding],
    /// As [`Decided::firewall`].
    pub firewall: Option<Digest>,
    /// As [`Decided::gate_of`].
    pub gate_of: Option<&'a CallId>,
    /// As [`Decided::hosts`].
    pub hosts: &'a [Text<256>],
    /// As [`Decided::justification`].
    pub justification: Option<&'a str>,
    /// As [`Decided::layers`].
    pub layers: &'a [Layer],
    /// As [`Decided::mark`].
    pub mark: Option<Digest>,
    /// As [`Decided::masked`].
    pub masked: Option<&'a MaskedKinds>,
    /// As [`Decided::obligations`].
    pub obligations: &'a [Obligation],
    /// As [`Decided::parent`].
    pub parent: Option<&'a CallId>,
    /// As [`Decided::proposed_by`].
    pub proposed_by: Option<&'a str>,
    /// As [`Decided::reasons`].
    pub reasons: &'a [Reason],
    /// As [`Decided::taint`].
    pub taint: Option<&'a Taint>,
    /// As [`Decided::tier`].
    pub tier: Option<Tier>,
    /// As [`Decided::tools_text`].
    pub tools_text: Option<Digest>,
    /// As [`Decided::traceparent`].
    pub traceparent: Option<&'a str>,
}

impl<S: Sort> Decided<S> {
    /// The members that every decision has.
    pub fn common(&self) -> Decision<'_> {
        Decision {
            after: self.after.get(),
            args_bytes: self.args_bytes.map(Int::get),
            args_withheld: self.args_withheld,
            asked_by: self.asked_by.as_ref(),
            auth: &self.auth,
            binding: self.binding,
            call_digest: self.call_digest.map(|digest| digest.0),
            definition: self.definition.map(|digest| digest.0),
            effect: self.effect.map(|digest| digest.0),
            enforced: self.enforced,
            engine: &self.engine,
            exceptions: self.exceptions.as_deref().unwrap_or_default(),
            findings: self.findings.as_deref().unwrap_or_default(),
            firewall: self.firewall.map(|digest| digest.0),
            gate_of: self.gate_of.as_ref(),
            hosts: self.hosts.as_deref().unwrap_or_default(),
            justification: self.justification.as_ref().map(Text::as_str),
            layers: &self.layers,
            mark: self.mark.map(|digest| digest.0),
            masked: self.masked.as_ref(),
            obligations: &self.obligations,
            parent: self.parent.as_ref(),
            proposed_by: self.proposed_by.as_deref(),
            reasons: &self.reasons,
            taint: self.taint.as_ref(),
            tier: self.tier,
            tools_text: self.tools_text.map(|digest| digest.0),
            traceparent: self.traceparent.as_deref(),
        }
    }
}

/// Marks the decision to run a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowed;

impl Sort for Allowed {
    type Approvals = Option<List<Nonce, 16, 1>>;
    type AskedIn = Absent;
    type BreakGlass = Option<BreakGlass>;
    type Nonce = Absent;
}

/// Marks the decision to wait for approval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Waiting;

impl Sort for Waiting {
    type Approvals = Absent;
    type AskedIn = Option<AskedIn>;
    type BreakGlass = Absent;
    type Nonce = Option<Nonce>;
}

/// Marks the decision to refuse a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

impl Sort for Refused {
    type Approvals = Absent;
    type AskedIn = Absent;
    type BreakGlass = Absent;
    type Nonce = Absent;
}

/// `call.authorized`: the call may run.
pub type CallAuthorized = Decided<Allowed>;
/// `call.held`: the call waits for approval.
pub type CallHeld = Decided<Waiting>;
/// `call.denied`: the call does not run.
pub type CallDenied = Decided<Refused>;

members! {
    /// What the gate measured while a call ran.
    #[cfg_attr(test, schemars(rename = "observed"))]
    pub struct Observed {
        /// Upstreams of a model that were asked, in order.
        pub attempts: Option<List<ModelAttempt>>,
        /// Limits that control groups enforced for all processes of the tool together.
        pub cgroup: Option<Cgroup>,
        /// The signed orders that let findings in the answer pass.
        pub exceptions: Option<List<UsedException, 16, 1>>,
        /// What the firewall found in the answer, as far as the configuration looks for it.
        pub findings: Option<List<GuardedFinding, NAMED_FINDINGS_MAX, 1>>,
        /// How many more it found.
        pub findings_more: Option<Int>,
        /// The labels that the answer brought into its run.
        pub labels: Option<List<Label, 4, 1>>,
        /// Id of the model that answered, as it says itself.
        pub model: Option<Text>,
        /// Result of masking.
        pub redaction: Option<Redaction>,
        /// Sandbox level that the tool ran in.
        pub sandbox: Option<Sandbox>,
        /// What left of an answer while the call ran.
        pub stream: Option<Stream>,
        /// Tables and views that an SQL statement used.
        pub tables_queried: Option<List<Text>>,
        /// Tokens of a model call.
        pub usage: Option<Usage>,
    }

    /// One question to one upstream of a model.
    #[cfg_attr(test, schemars(rename = "attempt"))]
    pub struct ModelAttempt {
        /// Milliseconds from the request to that status, or until the gate gave up.
        pub ms: Int,
        /// The HTTP status of its answer. Without one: `connect`, `timeout`, `lost` or `protocol`.
        pub status: Text,
        /// The upstream that was asked.
        pub upstream: Text,
    }

    /// Result of masking what a tool returned.
    #[cfg_attr(test, schemars(rename = "redaction"))]
    pub struct Redaction {
        /// Number of places that were masked.
        pub masked: Int,
        /// Why a part was not searched; absent if all of it was searched.
        pub unscanned: Option<Opaque>,
    }

    /// What left of an answer while its call ran.
    #[cfg_attr(test, schemars(rename = "stream"))]
    pub struct Stream {
        /// Number of bytes.
        pub bytes: Int,
        /// Milliseconds from the permit to the first byte.
        pub first_ms: Option<Int>,
        /// Number of pieces; each holds whole events.
        pub pieces: Int,
        /// SHA-256 of those bytes.
        pub sha256: HexDigest,
    }

    /// Tokens of one model call.
    #[cfg_attr(test, schemars(rename = "usage"))]
    pub struct Usage {
        /// Input tokens that the provider wrote into its cache; among `input_tokens`.
        pub cache_write_tokens: Option<Int>,
        /// Input tokens that the provider had in its cache; among `input_tokens`.
        pub cached_input_tokens: Option<Int>,
        /// What they cost, in millionths of a US dollar, where the binding has prices.
        pub cost_micro_usd: Option<Int>,
        /// The provider reported no numbers: these are upper bounds.
        pub estimated: Option<True>,
        /// Number of input tokens.
        pub input_tokens: Int,
        /// Number of output tokens.
        pub output_tokens: Int,
        /// Output tokens that the agent does not see; among `output_tokens`.
        pub reasoning_tokens: Option<Int>,
        /// The upstream that answered.
        pub upstream: Text,
    }

    /// `call.progress`: what left of an answer so far, while its call runs.
    pub struct CallProgress {
        /// Number of bytes since the permit.
        pub bytes: Int,
        /// Number of pieces since the permit; each holds whole events.
        pub pieces: Int,
        /// SHA-256 of those bytes.
        pub sha256: HexDigest,
    }

    /// `call.completed`: the tool returned a result.
    pub struct CallCompleted {
        /// Number of times that the tool was called.
        pub attempts: Int,
        /// What the gate measured.
        pub observed: Option<Observed>,
        /// How the call ended, as the tool reports it: an HTTP status or an exit code.
        pub status: Text,
        /// Microseconds from the permit to the end of the call.
        pub us: Int,
    }

    /// `call.failed`: the call ended without a result.
    pub struct CallFailed {
        /// Number of times that the tool was called.
        pub attempts: Int,
        /// Kind of the failure: `timeout`, `tool_error`, …
        pub class: Text,
        /// The failure as text.
        pub message: Text,
        /// What the gate measured.
        pub observed: Option<Observed>,
        /// Whether the tool had started.
        pub started: bool,
        /// Microseconds from the permit to the end of the call.
        pub us: Int,
    }

    /// `call.unknown`: the tool may or may not have run.
    pub struct CallUnknown {
        /// Why it is unknown: `writer_lost`, …
        pub cause: Text,
        /// Number of bytes that the last `call.progress` covers. Bytes of the answer that left after it
        /// are not recorded.
        pub covered_bytes: Option<Int>,
        /// What the gate measured.
        pub observed: Option<Observed>,
    }

    /// `call.cancelled`: the call was stopped before it had an effect, or while it ran.
    pub struct CallCancelled {
        /// What the gate measured.
        pub observed: Option<Observed>,
        /// What stopped the call.
        pub reason: Text,
    }

    /// `call.expired`: a held call expired before enough approvers had signed.
    pub struct CallExpired {
        /// Why the call expired.
        pub reason: Text,
    }
}

impl CallProgress {
    /// What left so far.
    pub fn of(seen: &StreamSeen) -> Self {
        let sha256 = HexDigest(seen.sha256);
        Self { bytes: seen.bytes.into(), pieces: seen.pieces.into(), sha256 }
    }
}
