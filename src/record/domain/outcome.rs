//! How a permitted call ended.

use crate::domain::closed::closed;

use std::time::Duration;

/// Why a permitted call of a simulated run is cancelled (`call.cancelled.reason`).
pub const SIMULATED: &str = "simulated";

closed! {
    /// Why somebody who looks through an answer has not seen all that it holds.
    pub enum Opaque {
        /// Bytes that are no text, or text in a character set that nobody here reads.
        Binary = "binary",
        /// A part of something: what is looked for may be cut in half where it begins or ends.
        Span = "span",
        /// A text that was cut where there was no more room.
        Cut = "cut",
        /// An image, a sound, or a part of a kind that nobody here knows.
        Media = "media",
        /// Text that is encoded in a way that does not say what it holds.
        Encoded = "encoded",
    }
}

/// What a tool answered, before anything is taken out of it.
///
/// Every executor says which of the two its answer is: what cannot be looked through is never taken for text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AnswerContent {
    /// UTF-8 JSON. All that it says stands in it as text, whole.
    Text(Vec<u8>),
    /// UTF-8 JSON that holds, or is a part of, something else.
    Opaque(Vec<u8>, Opaque),
}

impl AnswerContent {
    /// This JSON; opaque if there is a reason.
    #[must_use]
    pub fn of(json: Vec<u8>, why: Option<Opaque>) -> Self {
        match why {
            None => Self::Text(json),
            Some(why) => Self::Opaque(json, why),
        }
    }

    /// The JSON, and why it is opaque if it is.
    #[must_use]
    pub fn into_parts(self) -> (Vec<u8>, Option<Opaque>) {
        match self {
            Self::Text(json) => (json, None),
            Self::Opaque(json, why) => (json, Some(why)),
        }
    }
}

/// The end of one call. Every failure of a tool is one of these.
///
/// With `Content` it is what an executor says; with bytes, what may be released of that.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome<R = Vec<u8>> {
    /// The tool answered.
    Completed {
        /// UTF-8 JSON: exactly the bytes that will be released, or what they will be made of.
        result: R,
        /// The tool's own status (`200`, `ok`).
        status: String,
    },
    /// It is known that the call failed.
    Failed {
        /// What failed: `tool_error`, `timeout`, `too_large`, `connect`, `not_started`, …
        class: FailureClass,
        /// Whether anything may have reached the tool.
        started: bool,
        /// For the caller: no internals.
        message: String,
    },
    /// It is not known whether the call took effect.
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

/// How a call ended, as its executor says it: nothing is taken out of it yet, and nobody else is shown it.
pub type Unmasked = Outcome<AnswerContent>;

impl Outcome {
    /// The outcome as if its executor said it again: what was released once is text, and is looked through again.
    #[must_use]
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
    #[must_use]
    pub const fn word(&self) -> &'static str {
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
        /// The deadline passed and it is known that nothing happened, or the tool is idempotent.
        Timeout = "timeout",
        /// The result is larger than allowed.
        TooLarge = "too_large",
        /// No connection to the tool.
        Connect = "connect",
        /// The permit became durable after its caller had been answered; nothing ran.
        NotStarted = "not_started",
        /// The answer broke the protocol or the binding's rules (a redirect, a bad encoding).
        Protocol = "protocol",
        /// What was judged is no longer what is there.
        Changed = "changed",
        /// The tool answered, and what it said must be masked and cannot be: none of it is released.
        Opaque = "firewall.opaque",
    }
}

/// An outcome with what it took.
#[derive(Clone, PartialEq, Debug)]
pub struct Ended {
    /// How it ended.
    pub outcome: Outcome,
    /// From permit to end.
    pub took: Duration,
    /// Times the tool was tried: 1, or 0 when nothing started.
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

/// What an executor saw while a call ran, beside how the call ended: `data.observed` of its last entry.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Observed {
    /// The sandbox level that really ran.
    pub sandbox: Option<Sandbox>,
    /// What control groups held for all its processes together; absent where there were none.
    pub cgroup: Option<Cgroup>,
    /// Relations that a statement touched, as the database or its parser names them.
    pub tables_queried: Vec<String>,
    /// What a model used, as its provider counts.
    pub usage: Option<Usage>,
    /// What came of the obligation to mask, if there was one.
    pub redaction: Option<Redaction>,
}

/// What came of the obligation to mask what a tool said.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Redaction {
    /// Places that were masked.
    pub masked: u64,
    /// Why not all of it was looked through; absent only if all of it was.
    pub unscanned: Option<Opaque>,
}

impl Observed {
    /// Whether there is nothing to say.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Tokens of one model call.
///
/// As its provider counts them, or, if it never said, the most that they can have been.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Which of the binding's upstreams answered.
    pub upstream: String,
    /// Tokens that were read.
    pub input_tokens: u64,
    /// Tokens that were written.
    pub output_tokens: u64,
    /// What they cost, where the binding has prices; millionths of a US dollar.
    pub cost_micro_usd: Option<u64>,
    /// The provider did not say.
    pub estimated: bool,
}
