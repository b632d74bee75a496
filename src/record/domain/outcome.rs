//! How a permitted call ended.

use crate::domain::closed::closed;
use crate::domain::digest::Digest;
use crate::domain::guarded::{GuardFinding, SignedException};
use crate::domain::taint::Label;

use std::time::Duration;

/// Why a permitted call of a simulated run is cancelled (`call.cancelled.reason`).
pub const SIMULATED: &str = "simulated";

closed! {
    /// Why a scan of an answer did not cover all of it.
    pub enum Opaque {
        /// Binary data, or text in a character set that the gate cannot decode.
        Binary = "binary",
        /// A part of a larger content: a secret may be cut in half at its ends.
        Span = "span",
        /// A text that was cut for lack of space.
        Cut = "cut",
        /// An image, a sound, or a part of a kind that the gate does not know.
        Media = "media",
        /// Text in an encoding that hides its content.
        Encoded = "encoded",
    }
}

/// A tool's answer before masking.
///
/// Every executor decides which of the two its answer is, so content that cannot be scanned is
/// never treated as text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnswerContent {
    /// UTF-8 JSON whose complete content is text.
    Text(Vec<u8>),
    /// UTF-8 JSON that holds other content, or is a part of it.
    Opaque(Vec<u8>, Opaque),
}

impl AnswerContent {
    /// This JSON; opaque with a reason.
    pub fn of(json: Vec<u8>, why: Option<Opaque>) -> Self {
        match why {
            None => Self::Text(json),
            Some(why) => Self::Opaque(json, why),
        }
    }

    /// The JSON, and why it is opaque, if it is.
    pub fn into_parts(self) -> (Vec<u8>, Option<Opaque>) {
        match self {
            Self::Text(json) => (json, None),
            Self::Opaque(json, why) => (json, Some(why)),
        }
    }
}

/// The end of one call. Every failure of a tool is one of these.
///
/// `R` is the executor's answer (`AnswerContent`), or the bytes that may be released of it.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome<R = Vec<u8>> {
    /// The tool answered.
    Completed {
        /// UTF-8 JSON: exactly the bytes to release, or the content they are made from.
        result: R,
        /// The tool's own status (`200`, `ok`).
        status: String,
    },
    /// The call is known to have failed.
    Failed {
        /// What failed: `tool_error`, `timeout`, `too_large`, `connect`, `not_started`, …
        class: FailureClass,
        /// Whether anything may have reached the tool.
        started: bool,
        /// For the caller: no internals.
        message: String,
    },
    /// Whether the call took effect is unknown.
    Unknown {
        /// `panic`, `connection_lost`, `deadline`, `crash`, …
        cause: String,
    },
    /// The call was stopped before it took effect.
    Cancelled {
        /// Why.
        reason: String,
    },
}

/// An outcome directly from the executor: not masked yet, and only the gate may see it.
pub type Unmasked = Outcome<AnswerContent>;

impl Outcome {
    /// Converts the outcome back for another scan: released content is text.
    pub fn again(self) -> Unmasked {
        match self {
            Self::Completed { result, status } => {
                Outcome::Completed { result: AnswerContent::Text(result), status }
            }
            Self::Failed { class, started, message } => Outcome::Failed { class, started, message },
            Self::Unknown { cause } => Outcome::Unknown { cause },
            Self::Cancelled { reason } => Outcome::Cancelled { reason },
        }
    }
}

impl<R> Outcome<R> {
    /// `completed`, `failed`, `unknown` or `cancelled`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Completed { .. } => "completed",
            Self::Failed { .. } => "failed",
            Self::Unknown { .. } => "unknown",
            Self::Cancelled { .. } => "cancelled",
        }
    }
}

closed! {
    /// Kinds of known failures (`call.failed.class`).
    pub enum FailureClass {
        /// The tool answered with an error.
        ToolError = "tool_error",
        /// The deadline passed and nothing is known to have happened, or the tool is idempotent.
        Timeout = "timeout",
        /// The result is larger than allowed.
        TooLarge = "too_large",
        /// No connection to the tool.
        Connect = "connect",
        /// The permit became durable after its caller had been answered; nothing ran.
        NotStarted = "not_started",
        /// The answer broke the protocol or the binding's rules (a redirect, a bad encoding).
        Protocol = "protocol",
        /// The target changed after the decision.
        Changed = "changed",
        /// The answer must be masked and cannot be, so none of it is released.
        Opaque = "firewall.opaque",
        /// The answer holds what the configuration blocks, or what it masks and cannot be masked.
        Withheld = "withheld",
        /// The tool answered, and the check of what it did failed.
        Unverified = "unverified",
    }
}

/// An outcome with its duration and attempts.
#[derive(Clone, PartialEq, Debug)]
pub struct Ended {
    /// How it ended.
    pub outcome: Outcome,
    /// From permit to end.
    pub took: Duration,
    /// Attempts to run the tool: 1, or 0 when nothing started.
    pub attempts: u32,
}

closed! {
    /// The limits that control groups hold.
    pub enum Cgroup {
        /// Memory and the number of processes.
        MemoryPids = "memory,pids",
    }
}

closed! {
    /// The sandbox level that really ran.
    pub enum Sandbox {
        /// None.
        None = "none",
        /// Limits and a system call filter.
        S1 = "S1",
        /// Also a view of the file system of its own.
        S2 = "S2",
        /// Also a network of its own.
        S3 = "S3",
    }
}

/// What an executor observed while a call ran: `data.observed` of its last entry.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Observed {
    /// The upstreams of a model that were asked, in order.
    pub attempts: Vec<UpstreamAttempt>,
    /// The sandbox level that really ran.
    pub sandbox: Option<Sandbox>,
    /// The control group limits on all its processes together; absent without control groups.
    pub cgroup: Option<Cgroup>,
    /// Relations that a statement touched, as the database or its parser names them.
    pub tables_queried: Vec<String>,
    /// The tokens that a model used, as its provider counts them.
    pub usage: Option<Usage>,
    /// What the firewall found in the answer, as far as the configuration looks for it.
    pub findings: Vec<GuardFinding>,
    /// The signed orders that let some of that pass, each once.
    pub exceptions: Vec<SignedException>,
    /// The labels that the answer brings into its run.
    pub labels: Vec<Label>,
    /// The result of masking, if it was required.
    pub redaction: Option<Redaction>,
    /// What left of an answer while the call ran.
    pub stream: Option<StreamSeen>,
    /// The id of the model that answered, as it says itself.
    pub model: Option<String>,
}

/// One question to one upstream of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamAttempt {
    /// Which of the binding's upstreams was asked.
    pub upstream: String,
    /// The HTTP status of its answer. Without one: `connect`, `timeout`, `lost` or `protocol`.
    pub status: String,
    /// Milliseconds from the request to that status, or until the gate gave up.
    pub ms: u64,
}

/// What left of an answer while its call ran.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamSeen {
    /// Number of bytes.
    pub bytes: u64,
    /// SHA-256 of those bytes.
    pub sha256: Digest,
    /// Number of pieces: each holds whole events.
    pub pieces: u64,
    /// Milliseconds from the permit to the first byte.
    pub first_ms: Option<u64>,
}

impl Default for StreamSeen {
    fn default() -> Self {
        Self { bytes: 0, sha256: Digest::of(&[]), pieces: 0, first_ms: None }
    }
}

/// The result of masking a tool's answer.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Redaction {
    /// Number of places that were masked.
    pub masked: u64,
    /// Why the scan did not cover all of it; absent only if it did.
    pub unscanned: Option<Opaque>,
}

impl Observed {
    /// Whether nothing was observed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Tokens of one model call.
///
/// As its provider counts them. If the provider gave no count, the most they can have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Which of the binding's upstreams answered.
    pub upstream: String,
    /// Number of input tokens.
    pub input_tokens: u64,
    /// Number of output tokens.
    pub output_tokens: u64,
    /// What they cost, where the binding has prices; millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// The provider gave no count.
    pub estimated: bool,
    /// Input tokens that the provider had in its cache; among `input_tokens`.
    pub cached_input_tokens: u64,
    /// Input tokens that the provider wrote into its cache; among `input_tokens`.
    pub cache_write_tokens: u64,
    /// Output tokens that the agent does not see; among `output_tokens`.
    pub reasoning_tokens: u64,
}
