//! What a policy bundle would have decided about what is on the books: which decisions flip, by which rule.
//!
//! One thread reads the ledger and never writes to it; the others evaluate; what they find is counted in the order of
//! the books, whoever was first, so that the same range gives the same digest on any machine. Memory does not grow
//! with the range: inputs in flight are bounded, and of what was found only counts and a few examples are
//! kept.
//!
//! What the bundle itself told its policy (`input.observe`, `input.quorum`) is told as the *new* bundle would
//! tell it; everything else is the recorded input, byte for byte. A decision that cannot be judged is
//! counted under the reason why, and never passed over.

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
    /// What is read is not the chain that the head is of.
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
    /// The run that was asked for is in no chain.
    #[error("no run `{0}` in this ledger")]
    NoRun(String),
    /// The list of flips cannot be written.
    #[error("the list of changes cannot be written: {0}")]
    List(std::io::Error),
}

/// How a long backtest tells how far it is. Called from the reading thread.
pub trait BacktestProgress {
    /// `read` of `all` entries were read, `inputs` of them are decisions with an input.
    fn at(&self, read: u64, all: u64, inputs: u64);
}

/// Whose word a new bundle is held against.
#[derive(Debug)]
pub enum Baseline<'a> {
    /// What was decided then.
    Recorded,
    /// What this bundle says of the same inputs.
    Bundle(&'a Candidate),
}

/// What is compared, and on how many threads.
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct Comparison<'a> {
    /// The bundle in question.
    pub new: &'a Candidate,
    /// What it is held against.
    pub old: Baseline<'a>,
    /// What opens inputs that lie encrypted.
    pub vault: Option<&'a Vault>,
    /// Threads that evaluate, at least one.
    pub jobs: usize,
}

/// Where a log stood when it was read.
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

/// What was found.
#[derive(Debug)]
pub struct BacktestResult {
    /// The logs that were read, up to these heads.
    pub logs: Vec<Log>,
    /// Whether `limit` ended it before the range did.
    pub limited: bool,
    /// The counts.
    pub tally: BacktestTally,
}

/// Judges what the query asks for. `list` is given one JSON line per change, in the order of the books.
///
/// The reader belongs to `runtime`; the evaluating threads do not.
///
/// # Errors
/// The ledger cannot be read or is damaged, or the list cannot be written.
pub fn run(
    runtime: &tokio::runtime::Runtime,
    reader: &dyn LedgerReader,
    query: &BacktestQuery,
    bench: &Comparison<'_>,
    (watch, list): (&dyn BacktestProgress, &mut (dyn Write + Send)),
) -> Result<BacktestResult, Error> {
    let jobs = bench.jobs.max(1);
    let collected = Collected::new(jobs, list);
    let (send, receive) = tokio::sync::mpsc::channel(jobs.saturating_mul(2));
    let receive = Mutex::new(receive);
    let read = std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    // The lock is held while waiting: somebody has to wait first.
                    let batch = receive.lock().blocking_recv();
                    let Some(batch) = batch else { break };
                    let read::DecisionBatch { number, items } = batch;
                    let judged = items.into_iter().map(|item| judged::judge(bench, item)).collect();
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
