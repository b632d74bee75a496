//! What the gate says about itself: logs, traces, metrics. Names and numbers, never payloads.
//!
//! A leaf beside `domain`: it knows names of metrics and spans and nothing of ours. Nothing here can
//! fail or delay a call: counting is an atomic addition, spans go to a bounded queue, and a collector
//! that is down costs dropped spans.

pub mod metrics;
pub mod trace;

/// A stretch of the road, as histograms and child spans name it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Opening and resolving what the tool will touch.
    Prepare,
    /// Grant, schema, limits, policy.
    Judge,
    /// Waiting until the decision is durable.
    Commit,
    /// The tool itself.
    Tool,
    /// Waiting until the outcome is durable.
    Settle,
}

impl Stage {
    /// All of them, in the order of the road.
    pub const ALL: [Self; 5] = [Self::Prepare, Self::Judge, Self::Commit, Self::Tool, Self::Settle];

    /// The word in labels and span names.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Judge => "judge",
            Self::Commit => "commit",
            Self::Tool => "tool",
            Self::Settle => "settle",
        }
    }
}
