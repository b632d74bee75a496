//! Checks evidence offline for a party who does not trust the operator: `wicketgate-verify`.
//!
//! [`check`] reads a bundle and reports, check by check, what holds and what is not proven. The
//! three files for people (`agent_run.json`, `decision.json`, `tool_trace.json`) are projections:
//! pure functions of the entries and payloads beside them, so a verifier makes them again and
//! compares bytes. A bundle gives no reason to trust itself: trust roots come from elsewhere
//! ([`trust`]). [`entries`] has the rules of a chain, by which the gate reads its own ledger. No
//! database, no network and no async runtime: nothing of the gate is linked.

use wicketgate_crypto as crypto;
use wicketgate_policy::{self as policy, approval, firewall};
use wicketgate_record::{self as record, clock, domain, yaml};

pub mod approvals;
pub mod bundle;
pub mod check;
pub mod command;
pub mod contents;
pub mod controls;
pub mod conversation;
pub mod entries;
pub mod guide;
pub mod page;
pub mod payloads;
pub mod population;
pub mod progress;
pub mod projection;
pub mod query;
pub mod scope;
pub mod statement;
pub mod survey;
pub mod trust;
pub mod zip;

/// Why a bundle or a trust file could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("`{path}`: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The trust file is wrong.
    #[error("`{path}` line {line}: {why}")]
    Trust {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        #[source]
        why: trust::Error,
    },
}

impl Error {
    pub(crate) fn io(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }
}
