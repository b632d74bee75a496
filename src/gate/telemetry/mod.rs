//! Logs, traces and metrics. They contain names and numbers, never payloads.
//!
//! A leaf beside `domain`: it knows names of metrics and spans and no other type of the gate.
//! Telemetry cannot fail or delay a call: counting is an atomic addition, spans and log records go to a bounded
//! queue, and a collector that is down only loses telemetry.

pub mod export;
pub mod injector;
pub mod metrics;
mod openmetrics;
mod push;
pub mod setup;
pub mod trace;

pub use push::MetricsSource;

use crate::domain::closed::texts;

texts! {
    /// A stage of the road, named in histograms and child spans.
    pub enum Stage {
        /// Opens and resolves the call's target.
        Prepare = "prepare",
        /// Checks grant, schema, limits and policy.
        Judge = "judge",
        /// Waits until the decision is durable.
        Commit = "commit",
        /// Runs the tool.
        Tool = "tool",
        /// Waits until the outcome is durable.
        Settle = "settle",
    }
}
