//! Logs, traces and metrics. They contain names and numbers, never payloads.
//!
//! A leaf beside `domain`: it knows names of metrics and spans and no other type of the gate.
//! Telemetry cannot fail or delay a call: counting is an atomic addition, spans go to a bounded
//! queue, and a collector that is down only loses spans.

pub mod metrics;
pub mod trace;

/// A stage of the road, named in histograms and child spans.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Stage {
    /// Opens and resolves the call's target.
    Prepare,
    /// Checks grant, schema, limits and policy.
    Judge,
    /// Waits until the decision is durable.
    Commit,
    /// Runs the tool.
    Tool,
    /// Waits until the outcome is durable.
    Settle,
}

impl Stage {
    /// All stages, in the order of the road.
    pub const ALL: [Self; 5] = [Self::Prepare, Self::Judge, Self::Commit, Self::Tool, Self::Settle];

    /// The name in labels and spans.
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
