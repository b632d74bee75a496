//! The ledger in one SQLite file: one machine, one writing process, many readers.
//!
//! A batch is durable after a WAL commit with `synchronous=FULL`. Every writing connection reads
//! both settings back. The writer has a thread and a connection of its own (`thread`); readers, and
//! what writes seldom, use a connection of sqlx.

mod checkpoint;
mod eraser;
mod files;
mod fleet;
mod numbers;
mod pools;
mod prune;
mod reader;
mod restart;
mod result_codes;
pub(crate) mod rows;
mod schema;
mod steps;
mod subtrees;
mod thread;
mod writer;

use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Row};
use tokio::sync::{Mutex, MutexGuard};

use super::store::StoreError;
use result_codes::known;
use rows::sql;
use schema::check_version;

pub use eraser::SqliteEraser;
pub use pools::SqlitePools;
pub use reader::SqliteReader;
pub use writer::SqliteStore;

/// The time limit of one call; if a disk stalls longer, the outcome is unknown.
const CALL_MAX: Duration = Duration::from_secs(5);
/// How long SQLite itself waits for another connection's lock.
const BUSY: Duration = Duration::from_millis(1000);

/// Borrows the connection of a lane for one call.
macro_rules! on_lane {
    ($lane:expr, $conn:ident => $work:expr) => {{
        let mut turn = $lane.take().await?;
        let $conn = &mut turn.conn;
        let answer = $crate::ledger::sqlite::bounded($work).await;
        turn.settle(&answer);
        answer
    }};
}

/// One transaction, which already holds the write lock when the work begins.
macro_rules! transaction {
    ($conn:ident => $work:expr) => {
        async {
            $crate::ledger::sqlite::begin($conn).await?;
            let done = $work.await;
            $crate::ledger::sqlite::finish($conn, done).await
        }
    };
}

pub(crate) use {on_lane, transaction};

/// One connection, made on demand and dropped after any doubt.
#[derive(Debug)]
pub(crate) struct SqliteLane {
    options: SqliteConnectOptions,
    /// Whether it writes, and so must read back the durability settings.
    writes: bool,
    home: Mutex<Option<SqliteConnection>>,
}

/// A borrowed connection. Unless it is returned, it is dropped, and its transaction with it.
pub(crate) struct Turn<'a> {
    home: MutexGuard<'a, Option<SqliteConnection>>,
    pub(crate) conn: SqliteConnection,
}

impl SqliteLane {
    pub(crate) fn writing(options: SqliteConnectOptions) -> Self {
        Self { options, writes: true, home: Mutex::new(None) }
    }

    fn reading(options: SqliteConnectOptions) -> Self {
        Self { options, writes: false, home: Mutex::new(None) }
    }

    /// Closes the connection, if there is one.
    async fn close(self) -> Result<(), StoreError> {
        let Some(conn) = self.home.into_inner() else { return Ok(()) };
        sqlx::Connection::close(conn).await.map_err(|e| before_commit(&e))
    }

    /// Borrows the connection, and connects first if necessary.
    pub(crate) async fn take(&self) -> Result<Turn<'_>, StoreError> {
        let late = |_| StoreError::Unavailable("the storage is busy".into());
        let mut home = tokio::time::timeout(CALL_MAX, self.home.lock()).await.map_err(late)?;
        if let Some(conn) = home.take() {
            return Ok(Turn { home, conn });
        }
        let connected = async {
            let mut conn = self.options.connect().await.map_err(|e| before_commit(&e))?;
            read_back(&mut conn, &[TEMP_STORE]).await?;
            if self.writes {
                read_back(&mut conn, &WRITING).await?;
            }
            Ok(conn)
        };
        let conn = tokio::time::timeout(CALL_MAX, connected).await.map_err(late)??;
        Ok(Turn { home, conn })
    }

    /// Checks that the file exists and has the schema of this build.
    ///
    /// # Errors
    /// The file does not exist; [`StoreError::Broken`] if it has another schema, with the remedy.
    pub(crate) async fn check_version(&self) -> Result<(), StoreError> {
        on_lane!(self, conn => check_version(conn))
    }
}

impl Turn<'_> {
    /// Returns the connection. It is kept only if the answer leaves nothing in doubt.
    pub(crate) fn settle<T>(mut self, answer: &Result<T, StoreError>) {
        if matches!(answer, Ok(_) | Err(StoreError::Conflict(_))) {
            *self.home = Some(self.conn);
        }
    }
}

/// Limits the time of one call; a call without an answer by then is unknown.
pub(crate) async fn bounded<T>(
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(CALL_MAX, work)
        .await
        .unwrap_or_else(|_| Err(StoreError::Unknown("the disk does not answer".into())))
}

/// A setting of a connection: its name, its value, and that value as SQLite reads it back.
type Pragma = (&'static str, &'static str, &'static str);

/// The setting of every connection, reading or writing.
// WHY: otherwise statement journals, sorts and VACUUM need a file in a system directory. A container
// with a read-only root has none, and fails for good with `disk I/O error (6410)`.
const TEMP_STORE: Pragma = ("temp_store", "MEMORY", "2");
/// What makes the commits of a writing connection durable, and its deletions complete.
const WRITING: [Pragma; 5] = [
    ("journal_mode", "WAL", "wal"),
    ("synchronous", "FULL", "2"),
    ("foreign_keys", "ON", "1"),
    ("recursive_triggers", "ON", "1"),
    ("secure_delete", "ON", "1"),
];
/// Bytes of a page in a new file.
const PAGE_SIZE: u32 = 4096;

/// Whether a setting was taken.
fn taken((name, _, wanted): &Pragma, found: &str) -> Result<(), StoreError> {
    if found == *wanted {
        return Ok(());
    }
    Err(StoreError::Broken(format!("PRAGMA {name} is `{found}`, not `{wanted}`")))
}

/// A connection of sqlx, reading or writing.
fn connection(path: &std::path::Path) -> SqliteConnectOptions {
    let (name, value, _) = TEMP_STORE;
    SqliteConnectOptions::new()
        .filename(path)
        .pragma(name, value)
        .busy_timeout(BUSY)
        // WHY: a logged statement would carry arguments and results into the logs.
        .disable_statement_logging()
}

pub(crate) fn options(path: &std::path::Path) -> SqliteConnectOptions {
    let options = connection(path).page_size(PAGE_SIZE).statement_cache_capacity(128);
    WRITING.iter().fold(options, |options, (name, value, _)| options.pragma(*name, *value))
}

/// Reads these settings back.
async fn read_back(conn: &mut SqliteConnection, wanted: &[Pragma]) -> Result<(), StoreError> {
    for pragma in wanted {
        let row = sql(sqlx::AssertSqlSafe(format!("PRAGMA {}", pragma.0))).one(conn).await?;
        let found = row
            .try_get::<String, _>(0)
            .or_else(|_| row.try_get::<i64, _>(0).map(|n| n.to_string()))
            .map_err(|e| unreadable(&e))?;
        taken(pragma, &found)?;
    }
    Ok(())
}

/// Starts a transaction that already holds the write lock.
pub(crate) async fn begin(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    sql("BEGIN IMMEDIATE").run(conn).await
}

/// Commits a success and rolls back a failure.
pub(crate) async fn finish<T>(
    conn: &mut SqliteConnection,
    answer: Result<T, StoreError>,
) -> Result<T, StoreError> {
    match answer {
        Ok(value) => {
            let committed = sqlx::query("COMMIT").execute(conn).await;
            committed.map(|_| value).map_err(|e| at_commit(&e))
        }
        // After a lost race the connection is kept, so its rollback must have worked.
        Err(error @ StoreError::Conflict(_)) => sql("ROLLBACK").run(conn).await.and(Err(error)),
        // Otherwise the connection is dropped, which rolls back too. SQLite may have rolled back
        // already; an error about that must not hide the cause.
        Err(error) => {
            let _ = sql("ROLLBACK").run(conn).await;
            Err(error)
        }
    }
}

/// As [`result_codes::before_commit`], of a connection of sqlx.
pub(crate) fn before_commit(error: &sqlx::Error) -> StoreError {
    meaning(error).unwrap_or_else(|| StoreError::Unavailable(error.to_string()))
}

/// As [`result_codes::at_commit`], of a connection of sqlx.
fn at_commit(error: &sqlx::Error) -> StoreError {
    meaning(error).unwrap_or_else(|| StoreError::Unknown(error.to_string()))
}

fn meaning(error: &sqlx::Error) -> Option<StoreError> {
    let code = error.as_database_error()?.code()?.parse().ok()?;
    known(code, &error.to_string())
}

fn unreadable(error: &sqlx::Error) -> StoreError {
    StoreError::Broken(format!("a stored row cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::crypto::merkle;
    use crate::domain::id::ChainId;
    use crate::ledger::store::{Batch, EntryRow, HeadRow, LeaseRequest, LedgerStore};

    fn next(head: &HeadRow, bytes: usize) -> Batch {
        let body = vec![b'x'; bytes];
        let leaf = merkle::leaf_hash(&body);
        let entry = EntryRow {
            seq: head.size,
            prev: head.hash,
            leaf,
            run: None,
            call: None,
            kind: "heartbeat".into(),
            body,
        };
        let head = HeadRow { size: head.size + 1, hash: leaf, ..head.clone() };
        Batch { entries: vec![entry], payloads: Vec::new(), head }
    }

    fn request() -> LeaseRequest {
        LeaseRequest {
            tenant: "default".into(),
            pool: "local".into(),
            writer: "host".into(),
            previous: None,
            secret: [1; 32],
            chain: ChainId::from_bytes([1; 16]),
            term: Duration::from_secs(15),
        }
    }

    /// What the WAL begins with: other bytes once it begins anew.
    fn beginning(wal: &Path) -> [u8; 32] {
        let mut bytes = [0; 32];
        File::open(wal).unwrap().read_exact(&mut bytes).unwrap();
        bytes
    }

    #[tokio::test]
    async fn the_wal_begins_anew_while_batches_go_on() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("ledger.db")).await.unwrap();
        let leased = store.lease(&request()).await.unwrap();
        let (wal, mut head) = (dir.path().join("ledger.db-wal"), leased.head);
        let first = beginning(&wal);
        // Sixteen pages each. The limit is twice what the writing thread waits for the other one.
        let most = 16_000 / 16;
        for done in 1..=most {
            let batch = Arc::new(next(&head, 60_000));
            store.append(&leased.key, &head, &batch).await.unwrap();
            head = batch.head.clone();
            if beginning(&wal) != first {
                assert!(done > 16, "a WAL of few pages is left as it is: {done} batches");
                return;
            }
        }
        panic!("{most} batches, and everything is in the WAL still");
    }

    #[tokio::test]
    async fn no_space_writes_nothing_and_the_same_bytes_pass_once_there_is_some() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("ledger.db")).await.unwrap();
        let leased = store.lease(&request()).await.unwrap();
        // SQLite's own limit on this connection stands in for a full disk.
        let limit = |conn: &mut rusqlite::Connection| {
            conn.pragma_update(None, "max_page_count", 1).unwrap();
            Ok(())
        };
        store.writing().call(limit).await.unwrap();
        let batch = Arc::new(next(&leased.head, 65_000));
        let answer = store.append(&leased.key, &leased.head, &batch).await.unwrap_err();
        assert_eq!(answer.as_str(), "full", "{answer}");
        assert_eq!(store.head(&leased.key).await.unwrap(), leased.head);
        store.append(&leased.key, &leased.head, &batch).await.unwrap();
        assert_eq!(store.head(&leased.key).await.unwrap(), batch.head);
    }
}
