//! The index of calls and runs: rows that can be searched, derived from the entries of a ledger.
//!
//! It is a projection. The ledger stays the truth: an index can be deleted at any time and is filled again from the
//! first entry, to the same rows. Nothing on the road waits for it or reads it.
//!
//! - [`query`] is the language, for the console, the API and the command line
//! - [`rows`] folds entries into rows; `sqlite` keeps them and `select` finds them
//! - [`Index::fill`] reads on in every chain from where the index is

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::{Connection, ErrorCode};

use crate::domain::id::{ChainId, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};
use rows::{CallRow, RunRow};
use sqlite::{Applied, Cursor};

pub mod query;
pub mod rows;
mod select;
mod sqlite;
mod tally;

pub use select::{CallCounts, Found, PAGE_MAX, Place, RowSearch, RunFilter};
pub use tally::{COUNTED_MAX, CallTally};

/// The file, in the state directory.
pub const FILE: &str = "console.sqlite";

/// Entries that are read and put into the index at once.
const BATCH: u32 = 1000;
/// How long a reader waits for its turn to fill; meanwhile another one fills.
const TURN: Duration = Duration::from_secs(1);

/// Why the index does not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The index itself.
    #[error("the index of calls: {0}")]
    Index(#[from] rusqlite::Error),
    /// The ledger that it is filled from.
    #[error("the ledger: {0}")]
    Ledger(#[from] StoreError),
    /// Two entries of the ledger do not belong together.
    #[error(
        "entry {seq} of chain {chain} does not follow the entry before it: run `wicketgate ledger verify`"
    )]
    Broken {
        /// The chain.
        chain: ChainId,
        /// The later entry.
        seq: Seq,
    },
    /// A search looks at too many rows.
    #[error("the search takes too long: add `since`, or a word that fewer calls match")]
    Long,
    /// The thread that asks the index ended early.
    #[error("the index of calls did not answer")]
    Ended,
}

/// How far the index is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexReach {
    /// Entries of the ledger that are in it.
    pub entries: u64,
    /// Entries of the ledger that are not in it yet.
    pub behind: u64,
    /// Everything that was recorded before this time is in it.
    pub as_of: Timestamp,
}

impl IndexReach {
    const NOTHING: Self = Self { entries: 0, behind: 0, as_of: Timestamp::from_millis(0) };
}

/// The index. Clones share one connection.
#[derive(Clone, Debug)]
pub struct Index {
    conn: Arc<Mutex<Connection>>,
    /// Its file; `None`: it is in memory.
    path: Option<Arc<Path>>,
    filling: Arc<tokio::sync::Mutex<()>>,
    reach: Arc<Mutex<IndexReach>>,
}

impl Index {
    /// Opens the file, and makes it if it is not there. A file that is damaged is replaced, now or when that shows: it
    /// holds nothing that the ledger does not.
    ///
    /// # Errors
    /// The file cannot be made or opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let opened = match sqlite::open(Some(path)) {
            Err(error) if is_damaged(&error) => {
                remove(path);
                sqlite::open(Some(path))
            }
            opened => opened,
        };
        Ok(Self::of(opened?, Some(path.into())))
    }

    /// An empty index in memory.
    ///
    /// # Errors
    /// The system gives no memory for it.
    pub fn memory() -> Result<Self, Error> {
        Ok(Self::of(sqlite::open(None)?, None))
    }

    fn of(conn: Connection, path: Option<Arc<Path>>) -> Self {
        let reach = Arc::new(Mutex::new(IndexReach::NOTHING));
        Self { conn: Arc::new(Mutex::new(conn)), path, filling: Arc::default(), reach }
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let (conn, path) = (Arc::clone(&self.conn), self.path.clone());
        let done = tokio::task::spawn_blocking(move || {
            let mut conn = conn.lock();
            let done = work(&mut conn);
            if let Some(path) = path
                && done.as_ref().err().is_some_and(is_damaged)
            {
                replace(&mut conn, &path)?;
            }
            done
        });
        Ok(done.await.map_err(|_ended| Error::Ended)??)
    }

    /// As [`Self::with`], for work whose length a query decides.
    async fn search<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let found = self.with(move |conn| sqlite::bounded(conn, sqlite::STEPS_MAX, work)).await;
        found.map_err(|error| if is_interrupted(&error) { Error::Long } else { error })
    }

    /// How far the index was when it was filled last.
    pub fn reach(&self) -> IndexReach {
        *self.reach.lock()
    }

    /// Reads at most so many new entries of this tenant's chains (`None`: of every chain) into the index. If it is
    /// being filled already, waits a moment for that.
    ///
    /// # Errors
    /// The ledger or the index does not answer; what was read before it stays.
    pub async fn fill(
        &self,
        reader: &dyn LedgerReader,
        tenant: Option<&str>,
        (now, most): (Timestamp, u64),
    ) -> Result<IndexReach, Error> {
        let Ok(_turn) = tokio::time::timeout(TURN, self.filling.lock()).await else {
            return Ok(self.reach());
        };
        // WHY first: another process may read on in between. A chain shorter than its cursor is then really shorter.
        let cursors = self.with(|conn| sqlite::cursors(conn)).await?;
        let mut chains = reader.chains().await?;
        chains.retain(|row| tenant.is_none_or(|tenant| row.tenant == tenant));
        let known: BTreeSet<ChainId> = chains.iter().map(|row| row.chain).collect();
        let gone: Vec<ChainId> =
            cursors.keys().filter(|chain| !known.contains(*chain)).copied().collect();
        if !gone.is_empty() {
            self.with(move |conn| sqlite::forget(conn, &gone)).await?;
        }
        let mut reach = IndexReach { as_of: now, ..IndexReach::NOTHING };
        let mut left = most;
        for row in &chains {
            let from = cursors.get(&row.chain).copied().unwrap_or(Cursor::START);
            let at = self.fill_chain(reader, row, (from, &mut left)).await?;
            let behind = row.head.size.saturating_sub(at.next);
            reach.entries = reach.entries.saturating_add(at.next);
            reach.behind = reach.behind.saturating_add(behind);
            if behind > 0 {
                reach.as_of = reach.as_of.min(at.at);
            }
        }
        *self.reach.lock() = reach;
        Ok(reach)
    }

    /// Reads on in one chain, from this place.
    async fn fill_chain(
        &self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
        (from, left): (Cursor, &mut u64),
    ) -> Result<Cursor, Error> {
        let (chain, mut at, mut again) = (row.chain, from, true);
        // A ledger that was restored from a backup may be shorter than what was read of it.
        if at.next > row.head.size {
            self.with(move |conn| sqlite::forget(conn, &[chain])).await?;
            at = Cursor::START;
        }
        while at.next < row.head.size && *left > 0 {
            let entries = reader.entries(&chain, at.next, BATCH).await?;
            let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
            if count == 0 {
                break;
            }
            *left = left.saturating_sub(count);
            let applied = self.with(move |conn| sqlite::apply(conn, &chain, at, &entries)).await?;
            match applied {
                Applied::To(cursor) => at = cursor,
                // Another history than the one that was read: it is read again, once.
                Applied::Broken(_) if again => {
                    again = false;
                    self.with(move |conn| sqlite::forget(conn, &[chain])).await?;
                    at = Cursor::START;
                }
                Applied::Broken(seq) => return Err(Error::Broken { chain, seq }),
            }
        }
        Ok(at)
    }

    /// Takes everything out of the index; the next [`Self::fill`] begins at the first entries.
    ///
    /// # Errors
    /// The index cannot be written.
    pub async fn clear(&self) -> Result<(), Error> {
        let _turn = self.filling.lock().await;
        self.with(|conn| {
            let chains: Vec<ChainId> = sqlite::cursors(conn)?.into_keys().collect();
            sqlite::forget(conn, &chains)
        })
        .await
    }

    /// The calls that match, the newest first.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn calls(&self, wanted: RowSearch) -> Result<Found<CallRow>, Error> {
        self.search(move |conn| select::calls(conn, &wanted)).await
    }

    /// The runs that match, the newest first, each with the counts of its calls.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn runs(
        &self,
        wanted: RowSearch,
        sealed: RunFilter,
    ) -> Result<Found<(RunRow, CallCounts)>, Error> {
        let found = self.search(move |conn| select::runs(conn, &wanted, sealed)).await?;
        let Found { rows, next } = found;
        Ok(Found { rows: self.with(move |conn| counted(conn, rows)).await?, next })
    }

    /// How many calls began since this time, and what became of them.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn tally(&self, since: Timestamp) -> Result<CallTally, Error> {
        self.search(move |conn| tally::tally(conn, since)).await
    }

    /// Number of open runs.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn open_runs(&self) -> Result<u64, Error> {
        let count = "SELECT count(*) FROM run WHERE sealed IS NULL";
        let count = move |conn: &mut Connection| conn.query_row(count, [], |row| row.get(0));
        Ok(u64::try_from(self.with::<i64>(count).await?).unwrap_or_default())
    }

    /// A run with the counts of its calls; `None` if the index does not have it.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn run(&self, run: &RunId) -> Result<Option<(RunRow, CallCounts)>, Error> {
        let wanted = named(query::Field::Run, run);
        self.with(move |conn| {
            let rows = select::runs(conn, &wanted, RunFilter::Any)?.rows;
            Ok(counted(conn, rows)?.pop())
        })
        .await
    }

    /// The newest runs that this run delegated to, each with the counts of its calls.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn children(&self, run: &RunId) -> Result<Vec<(RunRow, CallCounts)>, Error> {
        let wanted = named(query::Field::Parent, run);
        self.with(move |conn| {
            let rows = select::runs(conn, &wanted, RunFilter::Any)?.rows;
            counted(conn, rows)
        })
        .await
    }

    /// The calls of a run in the order they began, those after this entry, and whether more follow.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn calls_of(
        &self,
        run: &RunId,
        after: Option<Seq>,
        limit: usize,
    ) -> Result<(Vec<CallRow>, bool), Error> {
        let run = run.to_string();
        self.with(move |conn| select::calls_of(conn, &run, after, limit)).await
    }
}

fn counted(conn: &Connection, rows: Vec<RunRow>) -> rusqlite::Result<Vec<(RunRow, CallCounts)>> {
    rows.into_iter()
        .map(|row| {
            let counts = select::counts(conn, &row.run)?;
            Ok((row, counts))
        })
        .collect()
}

/// A search for exactly this run in a field.
fn named(field: query::Field, run: &RunId) -> RowSearch {
    let term =
        query::Term { field: Some(field), value: run.to_string(), prefix: false, negated: false };
    let query = query::Query { terms: vec![term], since: None, until: None };
    RowSearch { query, after: None, limit: PAGE_MAX }
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn is_interrupted(error: &Error) -> bool {
    let interrupted = Some(ErrorCode::OperationInterrupted);
    matches!(error, Error::Index(error) if error.sqlite_error_code() == interrupted)
}

/// Removes the file and what SQLite keeps beside it.
fn remove(path: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // A part that is missing is as good as one that was removed.
        drop(std::fs::remove_file(PathBuf::from(name)));
    }
}

/// Puts an empty file in the place of a damaged one.
fn replace(conn: &mut Connection, path: &Path) -> rusqlite::Result<()> {
    // WHY first: when the connection to the old file closes, it removes the WAL of that name.
    drop(std::mem::replace(conn, sqlite::open(None)?));
    remove(path);
    *conn = sqlite::open(Some(path))?;
    Ok(())
}
