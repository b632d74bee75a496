//! Evaluates a policy bundle on recorded decisions: which of them flip, and by which rule.
//!
//! One thread reads the ledger and never writes to it; the others evaluate. The results are counted
//! in the order of the ledger, whichever thread finishes first, so the same range gives the same
//! digest on any machine. Memory does not grow with the range: inputs in flight are bounded, and
//! only counts and a few examples are kept.
//!
//! The members of an input that come from the bundle itself (`input.observe`, `input.quorum`) are
//! those of the *new* bundle; everything else is the recorded input, byte for byte. A decision that
//! cannot be evaluated is counted under its reason and never skipped.

pub mod change;
mod decide;
mod judged;
mod line;
mod read;
pub mod statement;
pub mod tally;

use std::io::Write;

use parking_lot::Mutex;

pub use decide::Candidate;
pub use read::BacktestQuery;

use crate::ledger::store::{LedgerReader, StoreError};
use crate::ledger::vault::Vault;
use line::Collected;
use tally::BacktestTally;

/// Why a backtest has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ledger cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The entries do not belong to the chain of the head.
    #[error(
        "the ledger is damaged at seq {seq} of `{log}`: {what}: see `wicketgate ledger verify`"
    )]
    Damaged {
        /// The log.
        log: String,
        /// Where.
        seq: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// No chain has the requested run.
    #[error("no run `{0}` in this ledger")]
    NoRun(String),
    /// The list of flips cannot be written.
    #[error("the list of changes cannot be written: {0}")]
    List(std::io::Error),
}

/// Reports the progress of a long backtest. Called from the reading thread.
pub trait BacktestProgress {
    /// `read` of `all` entries were read, `inputs` of them are decisions with an input.
    fn at(&self, read: u64, all: u64, inputs: u64);
}

/// What a new bundle is compared with.
#[derive(Debug)]
pub enum Baseline<'a> {
    /// The recorded decisions.
    Recorded,
    /// The decisions of this bundle on the same inputs.
    Bundle(&'a Candidate),
}

/// What to compare, and on how many threads.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Comparison<'a> {
    /// The bundle in question.
    pub new: &'a Candidate,
    /// What it is compared with.
    pub old: Baseline<'a>,
    /// Opens encrypted inputs.
    pub vault: Option<&'a Vault>,
    /// The number of evaluating threads, at least one.
    pub jobs: usize,
}

/// The head of a log when it was read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Log {
    /// Its name.
    pub origin: String,
    /// Its tenant.
    pub tenant: String,
    /// Entries.
    pub size: u64,
    /// Leaf hash of the last of them.
    pub head: crate::domain::digest::Digest,
}

/// The result of a backtest.
#[derive(Debug)]
pub struct BacktestResult {
    /// The logs that were read, up to these heads.
    pub logs: Vec<Log>,
    /// Whether `limit` ended it before the end of the range.
    pub limited: bool,
    /// The counts.
    pub tally: BacktestTally,
}

/// Evaluates the decisions that the query selects. `list` receives one JSON line per change, in the
/// order of the ledger.
///
/// The reader belongs to `runtime`; the evaluating threads do not.
///
/// # Errors
/// The ledger cannot be read or is damaged, or the list cannot be written.
pub fn run(
    runtime: &tokio::runtime::Runtime,
    reader: &dyn LedgerReader,
    query: &BacktestQuery,
    comparison: &Comparison<'_>,
    (watch, list): (&dyn BacktestProgress, &mut (dyn Write + Send)),
) -> Result<BacktestResult, Error> {
    let jobs = comparison.jobs.max(1);
    let collected = Collected::new(jobs, list);
    let (send, receive) = tokio::sync::mpsc::channel(jobs.saturating_mul(2));
    let receive = Mutex::new(receive);
    let read = std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    // One thread waits while it holds the lock, and the others wait for the lock.
                    let batch = receive.lock().blocking_recv();
                    let Some(batch) = batch else { break };
                    let read::DecisionBatch { number, items } = batch;
                    let judged =
                        items.into_iter().map(|item| judged::judge(comparison, item)).collect();
                    collected.deliver(number, judged);
                }
            });
        }
        runtime.block_on(read::every(reader, query, watch, send))
    });
    let read::ReadNotes { logs, limited, pruned, unread } = read?;
    let mut tally = collected.end().map_err(Error::List)?;
    tally.pruned = pruned;
    unread.iter().for_each(|(log, seq)| tally.unread(log, *seq));
    Ok(BacktestResult { logs, limited, tally })
}
