//! Evidence that an operator hands to a party who does not trust the operator: one run, proven
//! offline.
//!
//! `export` writes a bundle from the ledger; `verify` reads one and reports, check by check, what
//! holds and what is not proven. The three files for people (`agent_run.json`, `decision.json`,
//! `tool_trace.json`) are projections: pure functions of the entries and payloads beside them, so a
//! verifier makes them again and compares bytes. A bundle gives no reason to trust itself: trust
//! roots come from elsewhere (`trust`). `verify`, `trust`, `bundle` and `projection` use no
//! database, no network and no async runtime.

pub mod approvals;
pub mod artifacts;
pub mod audit;
pub mod backtest;
pub mod bucket;
pub mod disclosed;
pub mod erasure;
pub mod export;
pub mod fleet;
pub mod gather;
pub mod holds;
pub mod observations;
pub mod proofs;
pub mod pruned;
pub mod receipt;
pub mod scores;
pub mod written;

pub use crate::verify::{
    bundle, check as verify, command, contents, controls, guide, page, payloads, population,
    progress, projection, query, scope, statement, survey, trust, zip,
};

use crate::domain::plural::many;

/// Why a bundle could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("`{path}`: {source}")]
    Io {
        /// The file or directory.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The ledger cannot be read.
    #[error(transparent)]
    Store(#[from] crate::ledger::store::StoreError),
    /// The evidence key cannot be reached or refuses.
    #[error("the evidence key cannot sign: {0}")]
    Unsigned(String),
    /// No chain of this ledger has the run.
    #[error("no run `{0}` in this ledger")]
    NoRun(String),
    /// The ledger does not hold a valid chain: run `wicketgate ledger verify`.
    #[error("the ledger is damaged at seq {seq}: {damage}")]
    Ledger {
        /// The entry.
        seq: u64,
        /// What is wrong with it.
        damage: crate::ledger::verify::Damage,
    },
    /// Requested entries are no longer in the ledger.
    #[error(
        "entries {from}..{to} of `{log}` are not in this ledger any more: they were pruned, or are missing (`ledger verify` tells)"
    )]
    Pruned {
        /// The log.
        log: String,
        /// The first of them.
        from: u64,
        /// The one after the last entry known to be missing.
        to: u64,
    },
    /// The selection is missing, and the fleet log records what was pruned.
    #[error("{gone}; the fleet log says: {pruned}")]
    Gone {
        /// What is missing.
        gone: String,
        /// What was pruned, when, by whom, and which archive has it.
        pruned: String,
    },
    /// No chain of this ledger has the name.
    #[error("no log `{0}` in this ledger")]
    NoLog(String),
    /// The span does not lie in the log.
    #[error("`{log}` has {}: {from}..{to} is no span of it", many(size, "entry"))]
    NoSpan {
        /// The log.
        log: String,
        /// The requested start.
        from: u64,
        /// The requested end.
        to: u64,
        /// Entries of the log.
        size: u64,
    },
    /// The export could not be recorded in the fleet log, and so was not written.
    #[error("the export was not recorded, and so nothing was written: {0}")]
    Unrecorded(crate::ledger::Error),
    /// The output path is not empty.
    #[error("`{0}` exists and is not empty")]
    Occupied(String),
    /// An artefact does not have the digest it is stored under.
    #[error("`{path}` is not the content its name says")]
    Artifact {
        /// The file.
        path: String,
    },
}

impl Error {
    pub(crate) fn io(path: &std::path::Path, source: std::io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }
}
