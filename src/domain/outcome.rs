//! How a permitted call ended.

use std::time::Duration;

/// Why a permitted call of a simulated run is cancelled (`call.cancelled.reason`).
pub const SIMULATED: &str = "simulated";

/// The end of one call, as the executor knows it. Every failure of a tool is one of these.
#[derive(Clone, PartialEq, Debug)]
pub enum Outcome {
    /// The tool answered.
    Completed {
        /// UTF-8 JSON: exactly the bytes that will be released.
        result: Vec<u8>,
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

impl Outcome {
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

/// Kinds of known failures (`call.failed.class`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FailureClass {
    /// The tool answered with an error.
    ToolError,
    /// The deadline passed and it is known that nothing happened, or the tool is idempotent.
    Timeout,
    /// The result is larger than allowed.
    TooLarge,
    /// No connection to the tool.
    Connect,
    /// The permit became durable after its caller had been answered; nothing ran.
    NotStarted,
    /// The answer broke the protocol or the binding's rules (a redirect, a bad encoding).
    Protocol,
    /// What was judged is no longer what is there.
    Changed,
}

impl FailureClass {
    /// The word in entries.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ToolError => "tool_error",
            Self::Timeout => "timeout",
            Self::TooLarge => "too_large",
            Self::Connect => "connect",
            Self::NotStarted => "not_started",
            Self::Protocol => "protocol",
            Self::Changed => "changed",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [
            Self::ToolError,
            Self::Timeout,
            Self::TooLarge,
            Self::Connect,
            Self::NotStarted,
            Self::Protocol,
            Self::Changed,
        ]
        .into_iter()
        .find(|class| class.as_str() == text)
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

/// What an executor saw while a call ran, beside how the call ended: `data.observed` of its last entry.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Observed {
    /// The sandbox level that really ran: `S1`, `S2` or `S3`; `none` for a child without one.
    pub sandbox: Option<String>,
    /// What control groups held for all its processes together: `memory,pids`; absent where there were none.
    pub cgroup: Option<String>,
    /// Relations that a statement touched, as the database or its parser names them.
    pub tables_queried: Vec<String>,
    /// What a model used, as its provider counts.
    pub usage: Option<Usage>,
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
