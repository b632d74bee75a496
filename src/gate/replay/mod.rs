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

/// Why a recording cannot be written, read or replayed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("`{file}`: {why}")]
    File {
        /// The file.
        file: String,
        /// What the system said.
        why: String,
    },
    /// It is no recording, or was changed, or is not whole.
    #[error("`{file}` line {line}: {why}")]
    Recording {
        /// The file.
        file: String,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// The run cannot be exported: something that a replay needs is not there.
    #[error("run `{run}` cannot be replayed: {why}")]
    Run {
        /// The run.
        run: String,
        /// What is missing.
        why: String,
    },
    /// The ledger cannot be read.
    #[error("{0}")]
    Ledger(String),
}
