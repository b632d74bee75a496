//! The stable codes of the error contract, and every sentence that callers read about them.
//!
//! A code is one row of the table below: its statuses, whether a retry is safe, whether the call
//! ran, who reads of it, whether it can be a recorded denial, what happened and what to do next.
//! Every face, the documentation and the commands take these from here. What is added at the place
//! where an error arises is data: the id, the limit, the reasons. `docs/reference/errors.md` is
//! generated from this table and holds it as a golden test.

use super::plural::many;
use super::time::Timestamp;

/// A status of `google.rpc.Code`, with its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum RpcStatus {
    /// The request is wrong whatever the state.
    InvalidArgument = 3,
    /// The time was over.
    DeadlineExceeded = 4,
    /// There is no such thing.
    NotFound = 5,
    /// The id is in use.
    AlreadyExists = 6,
    /// The caller is known and may not.
    PermissionDenied = 7,
    /// A limit is reached.
    ResourceExhausted = 8,
    /// The state does not admit it.
    FailedPrecondition = 9,
    /// It was stopped, or it failed.
    Aborted = 10,
    /// No such method.
    Unimplemented = 12,
    /// Clients retry this status by themselves.
    Unavailable = 14,
    /// The outcome is lost.
    DataLoss = 15,
    /// The caller is not known.
    Unauthenticated = 16,
}

/// The status of a code on each wire.
#[derive(Clone, Copy, Debug)]
pub struct WireStatus {
    /// gRPC status.
    pub grpc: RpcStatus,
    /// HTTP status.
    pub http: u16,
    /// JSON-RPC error code.
    pub rpc: i32,
}

const fn wire(grpc: RpcStatus, http: u16, rpc: i32) -> WireStatus {
    WireStatus { grpc, http, rpc }
}

const INVALID: WireStatus = wire(RpcStatus::InvalidArgument, 400, -32602);
const UNKNOWN_CALLER: WireStatus = wire(RpcStatus::Unauthenticated, 401, -32001);
const FORBIDDEN: WireStatus = wire(RpcStatus::PermissionDenied, 403, -32003);
const WAITING: WireStatus = wire(RpcStatus::FailedPrecondition, 202, -32010);
const EXHAUSTED: WireStatus = wire(RpcStatus::ResourceExhausted, 429, -32029);
const UNAVAILABLE: WireStatus = wire(RpcStatus::Unavailable, 503, -32053);
const FAILED: WireStatus = wire(RpcStatus::Aborted, 502, -32050);
const LOST: WireStatus = wire(RpcStatus::DataLoss, 500, -32052);
const TAKEN: WireStatus = wire(RpcStatus::AlreadyExists, 409, -32009);
const MISSING: WireStatus = wire(RpcStatus::NotFound, 404, -32004);
const ERASED: WireStatus = wire(RpcStatus::NotFound, 410, -32011);
const SEALED: WireStatus = wire(RpcStatus::FailedPrecondition, 409, -32008);
const EXPIRED: WireStatus = wire(RpcStatus::DeadlineExceeded, 410, -32012);
const CANCELLED: WireStatus = wire(RpcStatus::Aborted, 409, -32013);
const UNVIEWABLE: WireStatus = wire(RpcStatus::FailedPrecondition, 409, -32014);
const NO_ROUTE: WireStatus = wire(RpcStatus::Unimplemented, 404, -32601);

/// Whether asking again is safe, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Retry {
    /// Repeating the request gives the same answer.
    No,
    /// Later, when the limit allows it.
    After,
    /// With the same call id: it runs at most once.
    SameId,
    /// As a new call with a new id.
    NewId,
    /// Ask for the same id until it is decided.
    Poll,
}

impl Retry {
    /// The value on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::After => "after",
            Self::SameId => "same_id",
            Self::NewId => "new_id",
            Self::Poll => "poll",
        }
    }

    /// What a model can do now.
    const fn advice(self) -> &'static str {
        match self {
            Self::No => "the same call gets the same answer: change it, or go on without it",
            Self::After => "try again later, or go on without it",
            Self::SameId => "try again in a moment",
            Self::NewId => "ask again if it is still wanted",
            Self::Poll => held::ADVICE,
        }
    }
}

/// Whether the call that the code is about ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Execution {
    /// It did not, or there is no call.
    NotRun,
    /// It did not, and an entry that becomes durable later does not start it either.
    NeverRun,
    /// It was stopped before it took effect.
    Stopped,
    /// It was allowed, and the tool failed.
    Failed,
    /// It may have.
    Possible,
    /// It did.
    Done,
}

impl Execution {
    /// The sentence for a caller.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotRun => "nothing ran",
            Self::NeverRun => "nothing ran and nothing will",
            Self::Stopped => "the call was stopped before it took effect",
            Self::Failed => "the call was allowed and did not succeed",
            Self::Possible => "the call may have taken effect",
            Self::Done => "the call ran",
        }
    }
}

/// The reader of an error of a tool call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// The model, which can do something else.
    Model,
    /// The program around it: the error is about the request or the gate, not about the call.
    Program,
}

/// Whether a recorded denial can have a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Denial {
    /// It can. The caller then receives this very code on every face.
    Recorded,
    /// It cannot: the code reports something else, or the same call may be made again and run.
    Never,
}

/// One row of the contract's table.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The status on each wire.
    pub wire: WireStatus,
    /// Whether asking again is safe.
    pub retry: Retry,
    /// Whether the call ran.
    pub execution: Execution,
    /// The reader, where models and programs get different answers.
    pub reader: Reader,
    /// Whether a recorded denial can have the code.
    pub denial: Denial,
    /// What happened, the same for every error of this code.
    pub title: &'static str,
    /// What the caller, or the person who runs the gate, does about it.
    pub next: &'static str,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,
        $wire:ident $retry:ident $execution:ident $reader:ident $denial:ident, $title:expr, $next:expr;)*) => {
        /// A stable dotted code.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Code { $($(#[$doc])* $name,)* }
        impl Code {
            /// The code as it stands on the wire and in entries.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
            /// The row of the contract's table.
            pub const fn rule(self) -> Rule {
                match self { $(Self::$name => Rule {
                    wire: $wire, retry: Retry::$retry, execution: Execution::$execution, reader: Reader::$reader,
                    denial: Denial::$denial, title: $title, next: $next,
                },)* }
            }
            /// Every code, in the order of the contract's table.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];
            /// Reads a code.
            pub fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }
        }
    };
}

// Columns: statuses, retry, whether it ran, reader, denial; then what happened, and what to do next.
codes! {
    /// The request cannot be read; `detail` says why.
    RequestMalformed = "request.malformed", INVALID No NotRun Program Recorded,
        "the request cannot be read", "correct the request: `detail` names the place";
    /// No credential, or one that is not known.
    IdentityMissing = "identity.missing", UNKNOWN_CALLER No NotRun Program Recorded,
        "the credential is missing or unknown", "present the agent's token or certificate, or connect to its socket with its uid";
    /// Model, instructions or tools are not those of the manifest.
    ManifestMismatch = "manifest.mismatch", FORBIDDEN No NotRun Program Recorded,
        "the agent does not match its manifest",
        "claim the model and instructions of the signed manifest, or sign a new one";
    /// The face is switched off for this agent, or too little is known of the model behind the run or
    /// call (`spec.binding` of the manifest).
    BindingInsufficient = "binding.insufficient", FORBIDDEN No NotRun Model Recorded,
        "the manifest does not accept this binding",
        "use an interface that the manifest's `spec.binding` accepts, claim the model at `OpenRun`, or sign a manifest that accepts this one";
    /// The tool does not exist for this agent.
    ToolNotGranted = "tool.not_granted", FORBIDDEN No NotRun Model Recorded,
        "the tool does not exist for this agent",
        "list the tools; grant the tool in the manifest if the agent needs it";
    /// The arguments do not satisfy the tool's schema.
    ArgumentsInvalid = "arguments.invalid", INVALID No NotRun Model Recorded,
        "the arguments do not match the tool's schema", "correct the arguments to match the tool's schema";
    /// What the tool would touch cannot be opened or is out of bounds.
    EffectRefused = "effect.refused", FORBIDDEN No NotRun Model Recorded,
        "the target is off limits or missing", "choose another target; `detail` names the limit that it exceeds";
    /// A policy said no.
    PolicyDenied = "policy.denied", FORBIDDEN No NotRun Model Recorded,
        "denied by policy", "read `reasons`; change the call, or continue without it";
    /// The policy could not answer.
    PolicyError = "policy.error", FORBIDDEN No NotRun Model Recorded,
        "the policy failed to produce a decision", "policy author: run `wicketgate policy eval --entry` on the entry";
    /// The call waits for an approval.
    CallHeld = "call.held", WAITING Poll NotRun Model Never, held::TITLE, held::NEXT;
    /// A limit of the manifest is reached.
    LimitExceeded = "limit.exceeded", EXHAUSTED After NotRun Model Recorded,
        "a limit is reached", "wait; raise the limit in the manifest or the pool if it is too low";
    /// Too much work is waiting; nothing was recorded or run.
    Overloaded = "overloaded", UNAVAILABLE SameId NotRun Program Never,
        "too much work is waiting", "ask again later; raise `limits.in_flight_max` if this persists";
    /// The gate is draining; nothing was recorded or run.
    Shutdown = "shutdown", UNAVAILABLE SameId NotRun Program Never,
        "the gate is draining", "ask again after the gate has restarted";
    /// The ledger cannot be written; nothing ran.
    LedgerUnavailable = "ledger.unavailable", UNAVAILABLE SameId NotRun Program Never,
        "the ledger cannot be written", "operator: run `wicketgate control health`; nothing ran";
    /// The ledger did not confirm in time; nothing ran and nothing will.
    LedgerUnknown = "ledger.unknown", UNAVAILABLE SameId NeverRun Program Never,
        "the ledger did not confirm in time",
        "ask again: the answer is the outcome of the call, or proof that it never started";
    /// The tool said error, or a known timeout.
    ToolFailed = "tool.failed", FAILED No Failed Model Never,
        "the tool failed", "read `detail`; the call ran and failed";
    /// It ran and the outcome is unknown or not recorded.
    CallUnknown = "call.unknown", LOST No Possible Model Never,
        "the outcome of the call is unknown", "check the tool's own records before you make the same call again";
    /// The same call id with other bytes.
    CallConflict = "call.conflict", TAKEN No NotRun Program Never,
        "the call id was used for another call", "choose a new call id";
    /// No call of this id in this run.
    CallNotFound = "call.not_found", MISSING No NotRun Program Never,
        "no such call in this run", "check the call id";
    /// The recorded result can no longer be given.
    CallResultUnavailable = "call.result_unavailable", ERASED No Done Model Never,
        "the recorded result is no longer available",
        "use the receipt: the call ran, and its result was erased or not kept";
    /// No such run, or not yours.
    RunUnknown = "run.unknown", MISSING No NotRun Program Never, "no such run", "open a run first";
    /// The run is over.
    RunSealed = "run.sealed", SEALED No NotRun Program Never, "the run is sealed", "open a new run";
    /// The call was held too long.
    CallExpired = "call.expired", EXPIRED NewId NotRun Model Recorded, held::EXPIRED, "make a new call";
    /// The call was cancelled.
    CallCancelled = "call.cancelled", CANCELLED NewId Stopped Model Never,
        "the call was cancelled", "make a new call, if it is still wanted";
    /// The operator is known and may not do this.
    OperatorForbidden = "operator.forbidden", FORBIDDEN No NotRun Program Recorded,
        "the operator may not do this", "use a login with the role that the message names";
    /// A held call cannot be shown completely, so it is not shown at all; `detail` says why.
    ApprovalUnviewable = "approval.unviewable", UNVIEWABLE No NotRun Program Recorded,
        "the held call cannot be shown in full", "refuse the call; `detail` says what cannot be shown";
    /// The gate is not ready to serve (no policy, no manifest, not the writer).
    NotReady = "not_ready", UNAVAILABLE SameId NotRun Program Never,
        "the gate is not ready", "operator: read the reasons at `/readyz`";
    /// No method or path of this name is served here.
    RouteUnknown = "route.unknown", NO_ROUTE No NotRun Program Never,
        "unknown method or path", "check the method or the path";
}

/// The wording of held calls, for every caller.
pub mod held {
    use super::{Code, Timestamp};

    pub(super) const TITLE: &str = "the call waits for an approval";
    pub(super) const NEXT: &str = "wait for an approver, and ask for the same id";
    pub(super) const EXPIRED: &str = "no approval came in time";
    pub(super) const ADVICE: &str = "make the same call with the same arguments again to learn what was \
         decided; however often it is asked for, it runs at most once";

    /// What instructions for models say about held calls.
    pub const INSTRUCTION: &str = "A call that waits for an approval says until when: make the same call again to learn what \
         was decided.";

    /// What an approver reads of a call that is not held.
    pub const NOT_HELD: &str = "the call does not wait for an approval";

    /// The message about one held call: until when it waits, and why.
    #[must_use]
    pub fn message(expires: Timestamp, why: &str) -> String {
        format!("{} until {expires}: {why}", Code::CallHeld.rule().title)
    }

    /// The question to a person whether to go on waiting, from the message about the call.
    #[must_use]
    pub fn question(message: &str) -> String {
        format!("{message}. An approver decides elsewhere, not here. Check again whether one has?")
    }
}

impl Code {
    /// Whether a recorded denial can have this code.
    #[must_use]
    pub const fn denies(self) -> bool {
        matches!(self.rule().denial, Denial::Recorded)
    }

    /// The message of an error that has no data of its own: what happened, and whether anything ran
    /// where that decides about a retry.
    #[must_use]
    pub fn message(self) -> String {
        let Rule { title, retry, execution, .. } = self.rule();
        if retry == Retry::SameId || execution != Execution::NotRun {
            return format!("{title}; {}", execution.as_str());
        }
        title.to_owned()
    }

    /// What a model can do now; `wait` is the number of seconds after which the gate has room.
    #[must_use]
    pub fn advice(self, wait: Option<u64>) -> String {
        let Rule { retry, execution, .. } = self.rule();
        let advice = match (execution, retry, wait) {
            (Execution::Failed, ..) => "the gate does not try again by itself",
            (Execution::Possible, ..) => {
                "find out what happened before you do anything like it again"
            }
            (Execution::Done, ..) => "it will not be run again for its result",
            (_, Retry::After | Retry::SameId, Some(seconds)) => {
                return format!("try again in {}", many(seconds, "second"));
            }
            (Execution::NotRun | Execution::NeverRun | Execution::Stopped, retry, _) => {
                retry.advice()
            }
        };
        advice.to_owned()
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
