//! A run again: the agent is real, and the world beside it is what was recorded.
//!
//! A recording is a view of the entries and payloads of one run and the runs below it (`export`), one file of canonical JSON lines
//! (`recording`). A gate that replays one is an ordinary gate: the same road, the same judge, a ledger of
//! its own. Only its tools are `props`, which answer from the recording and reach nothing, its clock is the
//! recorded one, and a `player` says which recorded call each call is. Where the agent does something else
//! than it did, that is `drift`.

pub mod children;
mod cues;
pub mod drift;
pub mod export;
pub mod flaw;
pub mod fork;
mod line;
mod matching;
pub mod player;
pub mod props;
pub mod recording;
pub mod report;
mod said;
pub mod shelf;
pub mod step;

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
        /// What the system said.
        source: std::io::Error,
    },
    /// It is no recording, or was changed, or is not whole.
    #[error("`{file}` line {line}: {flaw}")]
    Recording {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        flaw: Flaw,
    },
    /// A manifest that a recording carries is not one of this build.
    #[error("`{file}`: {source}")]
    Manifest {
        /// The recording.
        file: String,
        /// What is wrong with the manifest.
        source: identity::Error,
    },
    /// A step was another one when the recording was opened.
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
    /// The run cannot be exported or gone on from.
    #[error("run `{run}` cannot be replayed: {why}")]
    Run {
        /// The run.
        run: RunId,
        /// What is in the way.
        why: ReplayObstacle,
    },
    /// The ledger cannot be read, or does not have the run.
    #[error(transparent)]
    Ledger(#[from] evidence::Error),
}
