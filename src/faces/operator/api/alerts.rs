//! What routes answer with about alerts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Reply;

replies! {
    /// One alert.
    AlertLine {
        /// The chain, in hex.
        chain: String,
        /// The number of its entry.
        seq: u64,
        /// The log.
        origin: String,
        /// When it was raised.
        at: String,
        /// What it is about: `path_traversal`, `secret_egress`, …
        alert: String,
        /// `medium`, `high` or `critical`.
        severity: String,
        /// What happened, in one sentence.
        title: String,
        /// The agent, by its manifest.
        agent: String,
        /// The run.
        run: Option<String>,
        /// The id of the call in the run that caused it.
        call: Option<String>,
        /// The tool.
        tool: Option<String>,
        /// How many entries asked for it since the last such alert.
        count: u64,
        /// When the first of them was recorded.
        since: String,
        /// The number of the first of them.
        first: u64,
        /// The number of the last of them: the cause.
        last: u64,
        /// Keyed mark of what was found, if it has one.
        mark: Option<String>,
    }

    /// Alerts.
    Alerts {
        /// The alerts that match, the newest first.
        alerts: Vec<AlertLine>,
        /// Whether there are more of them.
        more: bool,
    }
}
