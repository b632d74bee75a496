//! The index of calls and runs: rows that can be searched, derived from the entries of a ledger.
//!
//! It is a projection. The ledger stays the truth: an index can be deleted at any time and is filled again from the
//! first entry, to the same rows. Nothing on the road waits for it or reads it.
//!
//! - [`query`] is the language, for the console, the API and the command line
//! - [`rows`] folds entries into rows; `sqlite` or `postgres` keeps them and `select` finds them
//! - [`Index::fill`] reads on in every chain from where the index is

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::domain::id::{ChainId, RunId, Seq};
use crate::domain::time::Timestamp;
use crate::ledger::store::{ChainRow, LedgerReader, StoreError};
use fold::{Cursor, EntryBatch};
use postgres::PostgresIndex;
use rows::{CallRow, RunRow};
use sqlite::SqliteIndex;
use store::IndexStore;

mod columns;
mod fold;
mod pace;
mod postgres;
pub mod query;
pub mod rows;
mod select;
mod sqlite;
mod store;
mod tally;
mod words;

pub use pace::FillPace;
pub use rows::CallCounts;
pub use select::{Found, PAGE_MAX, Place, RowSearch, RunFilter};
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
    /// The file of the index.
    #[error("the index of calls: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The database of the index.
    #[error("the index of calls: {}", .0.reason())]
    Postgres(StoreError),
    /// A row of the index is none that this program wrote.
    #[error("a row of the index of calls cannot be read: run `wicketgate ledger reindex`")]
    Malformed,
    /// The ledger that it is filled from.
    #[error("the ledger: {0}")]
    Ledger(#[from] StoreError),
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
    /// An entry that does not follow the one before it: its chain is read no further.
    pub broken: Option<BrokenChain>,
}

/// Two entries of the ledger do not belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "entry {seq} of chain {chain} does not follow the entry before it: run `wicketgate ledger verify`"
)]
pub struct BrokenChain {
    /// The chain.
    pub chain: ChainId,
    /// The later entry.
    pub seq: Seq,
}

impl IndexReach {
    const NOTHING: Self =
        Self { entries: 0, behind: 0, as_of: Timestamp::from_millis(0), broken: None };

    /// Counts a chain that is so far in the index.
    fn take(&mut self, row: &ChainRow, at: Cursor) {
        let behind = row.head.size.saturating_sub(at.next);
        self.entries = self.entries.saturating_add(at.next);
        self.behind = self.behind.saturating_add(behind);
        if behind > 0 {
            self.as_of = self.as_of.min(at.at);
        }
    }
}

/// The index. Clones share its connections.
#[derive(Clone, Debug)]
pub struct Index {
    store: IndexStore,
    filling: Arc<tokio::sync::Mutex<FillerState>>,
    reach: Arc<Mutex<IndexReach>>,
}

/// What the filler knows besides the cursors.
#[derive(Debug, Default)]
struct FillerState {
    /// Chains that are broken, by their heads' epoch: each was read from its first entry twice, and is read again when
    /// another writer has taken it, or by the next process.
    broken: BTreeMap<ChainId, (Seq, u64)>,
}

impl Index {
    /// Opens the file, and makes it if it is not there. A file that is damaged is replaced, now or when that shows: it
    /// holds nothing that the ledger does not.
    ///
    /// # Errors
    /// The file cannot be made or opened.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self::of(IndexStore::Sqlite(SqliteIndex::open(path)?)))
    }

    /// The index in the database of a hub, by the login of its operator; connects on first use. `holder` names this
    /// process among the hub's replicas.
    ///
    /// # Errors
    /// The address cannot be understood.
    pub fn postgres(url: &str, holder: &str) -> Result<Self, Error> {
        Ok(Self::of(IndexStore::Postgres(PostgresIndex::lazy(url, holder)?)))
    }

    /// An empty index in memory.
    ///
    /// # Errors
    /// The system gives no memory for it.
    pub fn memory() -> Result<Self, Error> {
        Ok(Self::of(IndexStore::Sqlite(SqliteIndex::memory()?)))
    }

    fn of(store: IndexStore) -> Self {
        let reach = Arc::new(Mutex::new(IndexReach::NOTHING));
        Self { store, filling: Arc::default(), reach }
    }

    /// Whether this process fills the index while no request waits. Of the replicas of a hub one does; what the others
    /// read for a request is put beside it.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn turn(&self) -> Result<bool, Error> {
        self.store.turn().await
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
        let Some(mut filling) = self.place().await else { return Ok(self.reach()) };
        // WHY first: another process may read on in between. A chain shorter than its cursor is then really shorter.
        let cursors = self.store.cursors().await?;
        let mut chains = reader.chains().await?;
        chains.retain(|row| tenant.is_none_or(|tenant| row.tenant == tenant));
        let known: BTreeSet<ChainId> = chains.iter().map(|row| row.chain).collect();
        let gone: Vec<ChainId> =
            cursors.keys().filter(|chain| !known.contains(*chain)).copied().collect();
        if !gone.is_empty() {
            self.store.forget(gone).await?;
        }
        let start = |row: &ChainRow| cursors.get(&row.chain).copied().unwrap_or(Cursor::START);
        let mut before = IndexReach { as_of: now, ..IndexReach::NOTHING };
        chains.iter().for_each(|row| before.take(row, start(row)));
        // WHY: what is asked while the first round of a process runs must not look complete.
        if self.reach() == IndexReach::NOTHING && before.behind > u64::from(BATCH) {
            *self.reach.lock() = before;
        }
        let mut reach = IndexReach { as_of: now, ..IndexReach::NOTHING };
        let mut left = most;
        for row in &chains {
            let at = self.fill_chain(reader, row, (start(row), &mut left, &mut filling)).await?;
            reach.take(row, at);
            let broken = filling.broken.get(&row.chain);
            let broken = broken.map(|(seq, _)| BrokenChain { chain: row.chain, seq: *seq });
            reach.broken = reach.broken.or(broken);
        }
        *self.reach.lock() = reach;
        Ok(reach)
    }

    /// The filler's place. While the index is far behind, a request does not wait for it: its answer would be no other.
    async fn place(&self) -> Option<tokio::sync::MutexGuard<'_, FillerState>> {
        if let Ok(place) = self.filling.try_lock() {
            return Some(place);
        }
        if self.reach().behind > 0 {
            return None;
        }
        tokio::time::timeout(TURN, self.filling.lock()).await.ok()
    }

    /// Reads on in one chain, from this place.
    async fn fill_chain(
        &self,
        reader: &dyn LedgerReader,
        row: &ChainRow,
        (from, left, filling): (Cursor, &mut u64, &mut FillerState),
    ) -> Result<Cursor, Error> {
        let (chain, mut at, mut again) = (row.chain, from, true);
        match filling.broken.get(&chain) {
            Some((seq, epoch)) if *epoch == row.epoch && *seq == at.next => return Ok(at),
            Some(_) => drop(filling.broken.remove(&chain)),
            None => {}
        }
        // A ledger that was restored from a backup may be shorter than what was read of it.
        if at.next > row.head.size {
            self.store.forget(vec![chain]).await?;
            at = Cursor::START;
        }
        while at.next < row.head.size && *left > 0 {
            let entries = reader.entries(&chain, at.next, BATCH).await?;
            let Some(batch) = EntryBatch::read(at, &entries) else { break };
            let first = entries.first().map(|first| (first.seq, first.prev));
            let count = u64::try_from(entries.len()).unwrap_or(u64::MAX);
            *left = left.saturating_sub(count);
            // After a gap of pruned entries there is nothing to compare.
            let broken = first
                .filter(|(seq, prev)| *seq == at.next && at.leaf.is_some_and(|leaf| leaf != *prev));
            match broken {
                None => at = self.store.put(chain, at, batch).await?,
                // Another history than the one that was read: it is read again, once.
                Some(_) if again => {
                    again = false;
                    self.store.forget(vec![chain]).await?;
                    at = Cursor::START;
                }
                Some((seq, _)) => {
                    filling.broken.insert(chain, (seq, row.epoch));
                    return Ok(at);
                }
            }
        }
        Ok(at)
    }

    /// Takes everything out of the index; the next [`Self::fill`] begins at the first entries.
    ///
    /// # Errors
    /// The index cannot be written.
    pub async fn clear(&self) -> Result<(), Error> {
        let mut filling = self.filling.lock().await;
        filling.broken.clear();
        // WHY one by one: each has the whole time that emptying may take.
        for chain in self.store.cursors().await?.into_keys() {
            self.store.forget(vec![chain]).await?;
        }
        Ok(())
    }

    /// The calls that match, the newest first.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn calls(&self, wanted: RowSearch) -> Result<Found<CallRow>, Error> {
        let place = |row: &CallRow| Place { at: row.at, chain: row.chain, seq: row.seq };
        let Some(statement) = words::calls(&self.store, &wanted).await? else {
            return Ok(Found { rows: Vec::new(), next: None });
        };
        let rows = self.store.find(statement, columns::call).await?;
        Ok(Found::of(rows, wanted.limit, place))
    }

    /// The runs that match, the newest first, each with the counts of its calls.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn runs(&self, wanted: RowSearch, sealed: RunFilter) -> Result<Found<RunRow>, Error> {
        let place = |row: &RunRow| Place { at: row.at, chain: row.chain, seq: row.seq };
        let rows = self.store.find(select::runs(&wanted, sealed), columns::run).await?;
        Ok(Found::of(rows, wanted.limit, place))
    }

    /// How many calls began since this time, and what became of them.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn tally(&self, since: Timestamp) -> Result<CallTally, Error> {
        tally::tally(&self.store, since).await
    }

    /// Number of open runs.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn open_runs(&self) -> Result<u64, Error> {
        let counted = self.store.find(select::open_runs(), |row| row.number(0)).await?;
        Ok(counted.first().copied().unwrap_or_default())
    }

    /// A run with the counts of its calls; `None` if the index does not have it.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn run(&self, run: &RunId) -> Result<Option<RunRow>, Error> {
        let found = self.runs(named(query::Field::Run, run), RunFilter::Any).await?;
        Ok(found.rows.into_iter().next())
    }

    /// The newest runs that this run delegated to, each with the counts of its calls.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn children(&self, run: &RunId) -> Result<Vec<RunRow>, Error> {
        Ok(self.runs(named(query::Field::Parent, run), RunFilter::Any).await?.rows)
    }

    /// The calls of a run of this chain in the order they began, those after this entry, and whether more follow.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn calls_of(
        &self,
        (run, chain): (&RunId, &ChainId),
        after: Option<Seq>,
        limit: usize,
    ) -> Result<(Vec<CallRow>, bool), Error> {
        let statement = select::calls_of((&run.to_string(), chain), after, limit);
        let rows = self.store.find(statement, columns::call).await?;
        let found = Found::of(rows, limit, |row: &CallRow| Place {
            at: row.at,
            chain: row.chain,
            seq: row.seq,
        });
        Ok((found.rows, found.next.is_some()))
    }

    /// The newest calls of this agent and tool that an approver released, at most so many.
    ///
    /// # Errors
    /// The index does not answer.
    pub async fn approved(
        &self,
        agent: &str,
        tool: &str,
        most: usize,
    ) -> Result<Vec<CallRow>, Error> {
        self.store.find(select::approved(agent, tool, most), columns::call).await
    }
}

/// A search for exactly this run in a field.
fn named(field: query::Field, run: &RunId) -> RowSearch {
    let term =
        query::Term { field: Some(field), value: run.to_string(), prefix: false, negated: false };
    let query = query::Query { terms: vec![term], since: None, until: None };
    RowSearch { query, after: None, limit: PAGE_MAX }
}
