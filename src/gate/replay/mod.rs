//! Replays a run: the agent is real, and everything around it is recorded.
//!
//! A recording is a view of the entries and payloads of one run and its descendants (`export`), one
//! file of canonical JSON lines (`recording`). A gate that replays one is an ordinary gate with the
//! same admission, the same decisions and its own ledger. Three things differ: its tools (`environment`)
//! answer from the recording and reach nothing, its clock is the recorded one, and a `player`
//! matches each call with a recorded call. A difference between the agent and the recording is a
//! `drift`.

mod answer;
pub mod children;
mod convert;
pub mod drift;
pub mod environment;
pub mod export;
pub mod flaw;
pub mod fork;
mod line;
mod managed;
mod matching;
mod messages;
pub mod player;
pub mod recording;
pub mod report;
mod session;
pub mod step;
pub mod store;

use flaw::{Flaw, ReplayObstacle};

use crate::domain::id::RunId;
use crate::{evidence, identity};

/// Why a recording cannot be written, read or replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("`{file}`: {source}")]
    File {
        /// The file.
        file: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is not a recording, was changed, or is incomplete.
    #[error("`{file}` line {line}: {flaw}")]
    Recording {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// A manifest in the recording that this build cannot read.
    #[error("`{file}`: {source}")]
    Manifest {
        /// The recording.
        file: String,
        /// What is wrong with the manifest.
        source: identity::Error,
    },
    /// A step differs from the one read when the recording was opened.
    #[error("`{file}`: step {step} was changed since it was opened")]
    Changed {
        /// The recording.
        file: String,
        /// The number of the step.
        step: u64,
    },
    /// A step cannot be read.
    #[error("`{file}`: step {step}: {flaw}")]
    Step {
        /// The recording.
        file: String,
        /// The number of the step.
        step: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// The run cannot be exported or continued.
    #[error("run `{run}` cannot be replayed: {why}")]
    Run {
        /// The run.
        run: RunId,
        /// Why not.
        why: ReplayObstacle,
    },
    /// The ledger cannot be read, or does not have the run.
    #[error(transparent)]
    Ledger(#[from] evidence::Error),
}
