//! The ledger in one SQLite file: one machine, one writing process, many readers.
//!
//! A batch is durable after a WAL commit with `synchronous=FULL`. Every writing connection reads
//! both settings back.

mod eraser;
mod files;
mod fleet;
mod pools;
mod prune;
mod reader;
pub(crate) mod rows;
pub(crate) mod steps;
mod subtrees;
mod writer;

use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Row};
use tokio::sync::{Mutex, MutexGuard};

use super::rows::DatabaseRow as _;
use super::schema::{SQLITE, Step};
use super::store::StoreError;
use rows::sql;

pub use eraser::SqliteEraser;
pub use pools::SqlitePools;
pub use reader::SqliteReader;
pub use writer::SqliteStore;

/// The time limit of one call; if a disk stalls longer, the outcome is unknown.
const CALL_MAX: Duration = Duration::from_secs(5);
/// How long SQLite itself waits for another connection's lock.
const BUSY: Duration = Duration::from_millis(1000);
/// The schemas that this build knows: the oldest that it can upgrade, and the newest.
const OLDEST: u64 = SQLITE.oldest();
const VERSION: u64 = SQLITE.newest();

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
            $crate::ledger::sqlite::steps::begin($conn).await?;
            let done = $work.await;
            $crate::ledger::sqlite::steps::finish($conn, done).await
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

    /// Borrows the connection, and connects first if necessary.
    pub(crate) async fn take(&self) -> Result<Turn<'_>, StoreError> {
        let late = |_| StoreError::Unavailable("the storage is busy".into());
        let mut home = tokio::time::timeout(CALL_MAX, self.home.lock()).await.map_err(late)?;
        if let Some(conn) = home.take() {
            return Ok(Turn { home, conn });
        }
        let connected = async {
            let mut conn = self.options.connect().await.map_err(|e| before_commit(&e))?;
            read_back(&mut conn, &[("PRAGMA temp_store", "2")]).await?;
            if self.writes {
                assert_durable(&mut conn).await?;
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

/// The settings of every connection, reading or writing: the only place that makes one.
fn connection(path: &std::path::Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        // WHY: otherwise statement journals, sorts and VACUUM need a file in a system directory. A
        // container with a read-only root has none, and fails for good with `disk I/O error
        // (6410)`.
        .pragma("temp_store", "MEMORY")
        .busy_timeout(BUSY)
        // WHY: a logged statement would carry arguments and results into the logs.
        .disable_statement_logging()
}

pub(crate) fn options(path: &std::path::Path) -> SqliteConnectOptions {
    connection(path)
        .page_size(8192)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .pragma("recursive_triggers", "ON")
        .pragma("secure_delete", "ON")
        .statement_cache_capacity(128)
}

/// Reads back the durability settings.
async fn assert_durable(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let wanted = [
        ("PRAGMA journal_mode", "wal"),
        ("PRAGMA synchronous", "2"),
        ("PRAGMA recursive_triggers", "1"),
        ("PRAGMA foreign_keys", "1"),
    ];
    read_back(conn, &wanted).await
}

/// Whether each of these settings has this value.
async fn read_back(
    conn: &mut SqliteConnection,
    wanted: &[(&'static str, &str)],
) -> Result<(), StoreError> {
    for (pragma, value) in wanted.iter().copied() {
        let row = sql(pragma).one(conn).await?;
        let found = row
            .try_get::<String, _>(0)
            .or_else(|_| row.try_get::<i64, _>(0).map(|n| n.to_string()))
            .map_err(|e| unreadable(&e))?;
        if found != value {
            return Err(StoreError::Broken(format!("{pragma} is `{found}`, not `{value}`")));
        }
    }
    Ok(())
}

/// Creates or upgrades the schema, each step in its own transaction.
async fn migrate(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let found = version(conn).await?;
    if found != 0 && !(OLDEST..=VERSION).contains(&found) {
        return Err(StoreError::Broken(unread(found)));
    }
    for Step { version, text, .. } in SQLITE.after(found) {
        // WHY: a table that others reference can be rebuilt only without enforcement, and inside a
        // transaction this pragma has no effect.
        let text = format!(
            "PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE; {text}; PRAGMA user_version = {version}; \
             COMMIT; PRAGMA foreign_keys = ON;"
        );
        sqlx::raw_sql(sqlx::AssertSqlSafe(text))
            .execute(&mut *conn)
            .await
            .map_err(|e| before_commit(&e))?;
    }
    Ok(())
}

async fn version(conn: &mut SqliteConnection) -> Result<u64, StoreError> {
    sql("PRAGMA user_version").one(conn).await?.number("user_version")
}

/// Checks that the file has the schema of this build.
///
/// # Errors
/// [`StoreError::Broken`], with the remedy.
async fn check_version(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    let found = version(conn).await?;
    if found == VERSION { Ok(()) } else { Err(StoreError::Broken(unread(found))) }
}

/// Why this build does not use a file of this schema, with the remedy.
fn unread(found: u64) -> String {
    if found == 0 {
        "it has no schema of a ledger: no gate has written in it yet".to_owned()
    } else if found > VERSION {
        format!(
            "its schema {found} is newer than this build ({VERSION}): use the build that wrote it"
        )
    } else if found < OLDEST {
        format!(
            "its schema {found} was made by an earlier build, and this build begins with schema {OLDEST}: export the \
             evidence with the build that wrote it, then start with a new state directory"
        )
    } else {
        format!(
            "its schema is {found}, this build needs {VERSION}: start the gate of this build on it once"
        )
    }
}

/// The meaning of a failure before COMMIT was sent: dropping the connection rolls the transaction
/// back.
pub(crate) fn before_commit(error: &sqlx::Error) -> StoreError {
    match result_code(error) {
        Some(code) => {
            known(code, error).unwrap_or_else(|| StoreError::Unavailable(error.to_string()))
        }
        None => StoreError::Unavailable(error.to_string()),
    }
}

/// The meaning of a failure of COMMIT itself: unknown, unless SQLite reports a rollback.
fn at_commit(error: &sqlx::Error) -> StoreError {
    result_code(error)
        .and_then(|code| known(code, error))
        .unwrap_or_else(|| StoreError::Unknown(error.to_string()))
}

fn result_code(error: &sqlx::Error) -> Option<i64> {
    error.as_database_error()?.code()?.parse().ok()
}

/// Codes with the same meaning at any moment (<https://www.sqlite.org/rescode.html>).
fn known(code: i64, error: &sqlx::Error) -> Option<StoreError> {
    const BUSY: i64 = 5;
    const LOCKED: i64 = 6;
    const CORRUPT: i64 = 11;
    const FULL: i64 = 13;
    const NOTADB: i64 = 26;
    const IOERR_FSYNC: i64 = 1034;
    const IOERR_DIR_FSYNC: i64 = 1290;
    // After a failed fsync the kernel may have dropped the pages: a second one proves nothing.
    if code == IOERR_FSYNC || code == IOERR_DIR_FSYNC {
        return Some(StoreError::Broken(error.to_string()));
    }
    let text = || error.to_string();
    match code & 0xff {
        CORRUPT | NOTADB => Some(StoreError::Broken(text())),
        FULL => Some(StoreError::Full(text())),
        BUSY | LOCKED => Some(StoreError::Unavailable(text())),
        _ => None,
    }
}

fn unreadable(error: &sqlx::Error) -> StoreError {
    StoreError::Broken(format!("a stored row cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::merkle;
    use crate::domain::id::ChainId;
    use crate::ledger::store::{Batch, EntryRow, HeadRow, LeaseRequest, LedgerStore};

    #[derive(Debug)]
    struct Coded(&'static str);

    impl std::fmt::Display for Coded {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Coded {}

    impl sqlx::error::DatabaseError for Coded {
        fn message(&self) -> &str {
            self.0
        }
        fn code(&self) -> Option<std::borrow::Cow<'_, str>> {
            Some(self.0.into())
        }
        fn as_error(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
            self
        }
        fn as_error_mut(&mut self) -> &mut (dyn std::error::Error + Send + Sync + 'static) {
            self
        }
        fn into_error(self: Box<Self>) -> Box<dyn std::error::Error + Send + Sync + 'static> {
            self
        }
        fn kind(&self) -> sqlx::error::ErrorKind {
            sqlx::error::ErrorKind::Other
        }
    }

    fn name_of(error: &StoreError) -> &'static str {
        match error {
            StoreError::Conflict(_) => "conflict",
            StoreError::Unavailable(_) => "unavailable",
            StoreError::Full(_) => "full",
            StoreError::Unknown(_) => "unknown",
            StoreError::Broken(_) => "broken",
        }
    }

    #[test]
    fn every_result_code_means_what_it_proves() {
        // Code, before COMMIT, at COMMIT.
        let table = [
            ("13", "full", "full"),
            ("5", "unavailable", "unavailable"),
            ("261", "unavailable", "unavailable"),
            ("11", "broken", "broken"),
            ("267", "broken", "broken"),
            ("26", "broken", "broken"),
            ("1034", "broken", "broken"),
            ("1290", "broken", "broken"),
            ("778", "unavailable", "unknown"),
            ("10", "unavailable", "unknown"),
            ("8", "unavailable", "unknown"),
        ];
        for (code, before, at) in table {
            let error = sqlx::Error::Database(Box::new(Coded(code)));
            assert_eq!(name_of(&before_commit(&error)), before, "{code} before");
            assert_eq!(name_of(&at_commit(&error)), at, "{code} at");
        }
        assert_eq!(name_of(&at_commit(&sqlx::Error::WorkerCrashed)), "unknown");
    }

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

    #[tokio::test]
    async fn no_space_writes_nothing_and_the_same_bytes_pass_once_there_is_some() {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("ledger.db")).await.unwrap();
        let request = LeaseRequest {
            tenant: "default".into(),
            pool: "local".into(),
            writer: "host".into(),
            previous: None,
            secret: [1; 32],
            chain: ChainId::from_bytes([1; 16]),
            term: Duration::from_secs(15),
        };
        let leased = store.lease(&request).await.unwrap();
        // SQLite's own limit on this connection stands in for a full disk.
        let mut turn = store.lane().take().await.unwrap();
        sqlx::raw_sql("PRAGMA max_page_count = 1").execute(&mut turn.conn).await.unwrap();
        turn.settle(&Ok(()));
        let batch = next(&leased.head, 65_000);
        let answer = store.append(&leased.key, &leased.head, &batch).await.unwrap_err();
        assert_eq!(name_of(&answer), "full", "{answer}");
        assert_eq!(store.head(&leased.key).await.unwrap(), leased.head);
        store.append(&leased.key, &leased.head, &batch).await.unwrap();
        assert_eq!(store.head(&leased.key).await.unwrap(), batch.head);
    }
}
