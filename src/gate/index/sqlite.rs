//! The index in one SQLite file, or in memory.
//!
//! One connection fills it; others read beside it, so a search never waits for a batch.

use std::collections::BTreeMap;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, Row, ToSql, Transaction, TransactionBehavior, params,
    params_from_iter,
};

use super::Error;
use super::columns::{
    self, CALL, IndexColumns, IndexStatement, IndexValue, RUN, ReadRow, call_values, run_values,
};
use super::fold::{Cursor, EntryBatch, StoredRows};
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;

/// The layout of this build. A file of another layout is emptied and filled again.
const LAYOUT: u32 = 3;

/// WHY two indexes of a part: most calls are allowed and completed, and a search for those finds them by time.
const SCHEMA: &str = "
CREATE TABLE cursor (chain BLOB PRIMARY KEY, next INTEGER NOT NULL, leaf BLOB NOT NULL, at INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE call (
  chain BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, run TEXT NOT NULL, call TEXT NOT NULL,
  agent TEXT NOT NULL, version TEXT NOT NULL, tool TEXT NOT NULL, tier TEXT NOT NULL, verdict TEXT NOT NULL,
  enforced INTEGER NOT NULL, state TEXT NOT NULL, code TEXT NOT NULL, detail TEXT NOT NULL, rule TEXT NOT NULL,
  outcome TEXT NOT NULL, us INTEGER, masked INTEGER NOT NULL, approvals INTEGER NOT NULL, decided_by TEXT NOT NULL,
  codes TEXT NOT NULL, findings TEXT NOT NULL, hosts TEXT NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (chain, seq)) WITHOUT ROWID;
CREATE INDEX call_at ON call (at, chain, seq);
CREATE INDEX call_tool ON call (tool, at, chain, seq);
CREATE INDEX call_agent ON call (agent, at, chain, seq);
CREATE INDEX call_verdict ON call (verdict, at, chain, seq) WHERE verdict <> 'allow';
CREATE INDEX call_state ON call (state, at, chain, seq) WHERE state <> 'completed';
CREATE INDEX call_run ON call (run, at, chain, seq);
CREATE INDEX call_call ON call (call, run);
CREATE TABLE mark (kind TEXT NOT NULL, value TEXT NOT NULL, at INTEGER NOT NULL, chain BLOB NOT NULL,
  seq INTEGER NOT NULL, PRIMARY KEY (kind, value, at, chain, seq)) WITHOUT ROWID;
CREATE INDEX mark_call ON mark (chain, seq);
CREATE TABLE run (
  run TEXT NOT NULL, chain BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, agent TEXT NOT NULL,
  version TEXT NOT NULL, manifest TEXT NOT NULL, parent TEXT NOT NULL, sealed INTEGER, reason TEXT NOT NULL,
  calls INTEGER NOT NULL, running INTEGER NOT NULL, held INTEGER NOT NULL, denied INTEGER NOT NULL,
  PRIMARY KEY (run, chain)) WITHOUT ROWID;
CREATE INDEX run_at ON run (at, chain, seq);
CREATE INDEX run_agent ON run (agent, at, chain, seq);
CREATE INDEX run_parent ON run (parent, at, chain, seq);
CREATE INDEX run_open ON run (at, chain, seq) WHERE sealed IS NULL;
";

/// Connections for reading that are kept for the next search.
const IDLE_MAX: usize = 2;
/// Entries of a chain after which SQLite looks whether it still knows how many rows a value has.
const COUNTED_EVERY: u64 = 20_000;
/// How long a statement waits for another process.
const BUSY: std::time::Duration = std::time::Duration::from_secs(5);

type Done<T> = rusqlite::Result<T>;

/// The file, or memory.
#[derive(Clone, Debug)]
pub(super) struct SqliteIndex {
    writer: Arc<Mutex<Connection>>,
    /// `None`: it is in memory, where there is one connection.
    file: Option<Arc<IndexFile>>,
}

#[derive(Debug)]
struct IndexFile {
    path: Box<Path>,
    idle: Mutex<IdleReaders>,
}

/// Connections for reading that nothing uses.
#[derive(Debug, Default)]
struct IdleReaders {
    all: Vec<Connection>,
    /// How often the file was replaced: a connection to an earlier one is not kept.
    generation: u64,
}

impl SqliteIndex {
    /// Opens the file, and makes it if it is not there.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let opened = match open(Some(path)) {
            Err(error) if is_damaged(&error) => {
                remove(path);
                open(Some(path))
            }
            opened => opened,
        };
        let file = Arc::new(IndexFile { path: path.into(), idle: Mutex::default() });
        Ok(Self { writer: Arc::new(Mutex::new(opened?)), file: Some(file) })
    }

    /// An empty index in memory.
    pub fn memory() -> Result<Self, Error> {
        Ok(Self { writer: Arc::new(Mutex::new(open(None)?)), file: None })
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || work(&store));
        done.await.map_err(|_ended| Error::Ended)?
    }

    /// Work on the connection that writes.
    async fn writing<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.with(move |store| {
            let mut conn = store.writer.lock();
            let done = work(&mut conn);
            if let Some(file) = &store.file
                && done.as_ref().err().is_some_and(is_of_damage)
            {
                file.replace(&mut conn)?;
            }
            done
        })
        .await
    }

    /// How far each chain is.
    pub async fn cursors(&self) -> Result<BTreeMap<ChainId, Cursor>, Error> {
        self.writing(|conn| {
            let mut query = conn.prepare_cached("SELECT chain, next, leaf, at FROM cursor")?;
            let mut rows = query.query([])?;
            let mut found = BTreeMap::new();
            while let Some(row) = rows.next()? {
                found.insert(IndexColumns::chain(row, 0)?, cursor(row, 1)?);
            }
            Ok(found)
        })
        .await
    }

    /// Takes everything of these chains out of the index.
    pub async fn forget(&self, chains: Vec<ChainId>) -> Result<(), Error> {
        self.writing(move |conn| Ok(forget(conn, &chains)?)).await
    }

    /// Puts a batch into the index, all or nothing.
    pub async fn put(
        &self,
        chain: ChainId,
        from: Cursor,
        batch: EntryBatch,
    ) -> Result<Cursor, Error> {
        self.writing(move |conn| put(conn, &chain, from, batch)).await
    }

    /// Runs statements with one text each.
    #[cfg(test)]
    pub async fn fill_by_hand(&self, all: [(&'static str, String); 2]) -> Result<(), Error> {
        self.writing(move |conn| {
            for (sql, text) in &all {
                conn.execute(sql, [text])?;
            }
            Ok(())
        })
        .await
    }

    /// The rows of a statement, read beside the connection that writes.
    pub async fn find<T: Send + 'static>(
        &self,
        statement: IndexStatement,
        read: ReadRow<T>,
    ) -> Result<Vec<T>, Error> {
        self.with(move |store| {
            let rows =
                |conn: &Connection| bounded(conn, STEPS_MAX, |conn| select(conn, &statement, read));
            let Some((file, (conn, generation))) =
                store.file.as_ref().and_then(|file| Some((file, file.reader()?)))
            else {
                return rows(&store.writer.lock());
            };
            let found = rows(&conn);
            match found.as_ref().err().is_some_and(is_of_damage) {
                false => file.keep(conn, generation),
                true if file.idle.lock().generation == generation => {
                    drop(conn);
                    file.replace(&mut store.writer.lock())?;
                }
                true => {}
            }
            found
        })
        .await
    }
}

impl IndexFile {
    /// A connection for reading; `None` if there can be none, as after the file was removed.
    fn reader(&self) -> Option<(Connection, u64)> {
        let (idle, generation) = {
            let mut idle = self.idle.lock();
            (idle.all.pop(), idle.generation)
        };
        if let Some(conn) = idle {
            return Some((conn, generation));
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(&self.path, flags).ok()?;
        conn.busy_timeout(BUSY).ok()?;
        conn.set_prepared_statement_cache_capacity(32);
        Some((conn, generation))
    }

    fn keep(&self, conn: Connection, generation: u64) {
        let mut idle = self.idle.lock();
        if idle.generation == generation && idle.all.len() < IDLE_MAX {
            idle.all.push(conn);
        }
    }

    /// Puts an empty file in the place of a damaged one.
    fn replace(&self, conn: &mut Connection) -> Done<()> {
        {
            let mut idle = self.idle.lock();
            idle.all.clear();
            idle.generation = idle.generation.wrapping_add(1);
        }
        // WHY first: when the connection to the old file closes, it removes the WAL of that name.
        drop(std::mem::replace(conn, open(None)?));
        remove(&self.path);
        *conn = open(Some(&self.path))?;
        Ok(())
    }
}

fn is_damaged(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}

fn is_of_damage(error: &Error) -> bool {
    matches!(error, Error::Sqlite(error) if is_damaged(error))
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

impl ToSql for IndexValue {
    fn to_sql(&self) -> Done<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Value::Null),
            Self::Integer(number) => ToSqlOutput::Owned(Value::Integer(*number)),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

impl IndexColumns for Row<'_> {
    fn maybe_text(&self, at: usize) -> Result<Option<String>, Error> {
        Ok(self.get(at)?)
    }

    fn maybe_integer(&self, at: usize) -> Result<Option<i64>, Error> {
        Ok(self.get(at)?)
    }

    fn maybe_bytes(&self, at: usize) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.get(at)?)
    }
}

/// Opens the file; `None`: an index in memory. A file of another layout is emptied.
fn open(path: Option<&Path>) -> Done<Connection> {
    let mut conn = match path {
        Some(path) => {
            private(path)?;
            Connection::open(path)?
        }
        None => Connection::open_in_memory()?,
    };
    conn.busy_timeout(BUSY)?;
    // WHY not FULL: a power cut may take the last batches, and then the cursor with them. WHY so many rows are counted:
    // of two values that are both more frequent than the limit, SQLite does not know the rarer one.
    let settings =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA analysis_limit = 100000";
    conn.execute_batch(settings)?;
    conn.set_prepared_statement_cache_capacity(32);
    let found: u32 = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found != LAYOUT {
        let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let all = "SELECT name FROM sqlite_schema WHERE type = 'table'";
        let tables: Vec<String> =
            tx.prepare(all)?.query_map([], |row| row.get(0))?.collect::<Done<_>>()?;
        for table in tables {
            tx.execute_batch(&format!("DROP TABLE \"{}\"", table.replace('"', "\"\"")))?;
        }
        tx.execute_batch(SCHEMA)?;
        tx.pragma_update(None, "user_version", LAYOUT)?;
        tx.commit()?;
    }
    Ok(conn)
}

/// Lets SQLite count, if a table has grown a lot since, how many rows a value of each index has. Without, it takes the
/// index of a verdict for better than the one of an agent, and reads every denied call to find those of one agent.
fn count_rows(conn: &Connection) -> Done<()> {
    // https://sqlite.org/pragma.html#pragma_optimize: 0x02 counts where that helps, 0x10000 looks at every table.
    conn.execute_batch("PRAGMA optimize = 0x10002")
}

/// Makes the file, for its owner alone, before SQLite does.
fn private(path: &Path) -> Done<()> {
    let mut made = std::fs::OpenOptions::new();
    let made = made.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    made.map(drop).map_err(|error| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
    })
}

/// Reads the columns `next`, `leaf` and `at` from this one on.
fn cursor(row: &Row<'_>, from: usize) -> Result<Cursor, Error> {
    Ok(Cursor {
        next: row.number(from)?,
        leaf: Some(row.digest(from.saturating_add(1))?),
        at: row.instant(from.saturating_add(2))?,
    })
}

fn select<T>(
    conn: &Connection,
    statement: &IndexStatement,
    read: ReadRow<T>,
) -> Result<Vec<T>, Error> {
    let mut query = conn.prepare_cached(&statement.sql)?;
    let mut rows = query.query(params_from_iter(&statement.values))?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(read(row)?);
    }
    Ok(found)
}

/// Instructions of SQLite's machine that a search may take: a few seconds.
const STEPS_MAX: u32 = 50_000_000;
/// Instructions between two looks at how many were taken.
const STEPS_LOOK: u16 = 10_000;

/// Does this, unless it takes more instructions.
fn bounded<T>(
    conn: &Connection,
    steps: u32,
    work: impl FnOnce(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut taken = 0_u32;
    let ends = move || {
        taken = taken.saturating_add(STEPS_LOOK.into());
        taken > steps
    };
    conn.progress_handler(STEPS_LOOK.into(), Some(ends))?;
    let done = work(conn);
    conn.progress_handler(0, None::<fn() -> bool>)?;
    done.map_err(|error| if is_interrupted(&error) { Error::Long } else { error })
}

fn is_interrupted(error: &Error) -> bool {
    let interrupted = Some(ErrorCode::OperationInterrupted);
    matches!(error, Error::Sqlite(error) if error.sqlite_error_code() == interrupted)
}

/// Takes everything of these chains out of the index.
fn forget(conn: &mut Connection, chains: &[ChainId]) -> Done<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for chain in chains {
        for table in ["cursor", "call", "mark", "run"] {
            let delete = format!("DELETE FROM {table} WHERE chain = ?");
            tx.execute(&delete, params![chain.as_bytes()])?;
        }
    }
    tx.commit()
}

/// Puts a batch into the index and moves the cursor of its chain, in one transaction.
fn put(
    conn: &mut Connection,
    chain: &ChainId,
    from: Cursor,
    batch: EntryBatch,
) -> Result<Cursor, Error> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let stored = {
        let mut query = tx.prepare_cached("SELECT next, leaf, at FROM cursor WHERE chain = ?")?;
        let mut rows = query.query(params![chain.as_bytes()])?;
        rows.next()?.map(|row| cursor(row, 0)).transpose()?.unwrap_or(Cursor::START)
    };
    if stored != from {
        return Ok(stored);
    }
    let to = batch.to;
    let rows = stored_rows(&tx, chain, &batch)?;
    write(&tx, batch, rows)?;
    let leaf = to.leaf.as_ref().map(Digest::as_bytes);
    let put = IndexStatement::of(
        "INSERT OR REPLACE INTO cursor (chain, next, leaf, at) VALUES (?, ?, ?, ?)",
        vec![
            chain.into(),
            to.next.into(),
            IndexValue::Bytes(leaf.map(|leaf| leaf.to_vec()).unwrap_or_default()),
            to.at.into(),
        ],
    );
    tx.prepare_cached(&put.sql)?.execute(params_from_iter(&put.values))?;
    tx.commit()?;
    let step = |at: Cursor| at.next.checked_div(COUNTED_EVERY);
    if step(from) != step(to) {
        count_rows(conn)?;
    }
    Ok(to)
}

/// What is stored of the runs and calls of a batch.
fn stored_rows(
    tx: &Transaction<'_>,
    chain: &ChainId,
    batch: &EntryBatch,
) -> Result<StoredRows, Error> {
    let (runs, calls) = batch.keys();
    let mut stored = StoredRows::default();
    let select = format!("SELECT {} FROM run WHERE run = ? AND chain = ?", RUN.join(", "));
    let mut select = tx.prepare_cached(&select)?;
    for run in runs {
        let mut rows = select.query(params![run, chain.as_bytes()])?;
        if let Some(row) = rows.next()? {
            stored.runs.insert(run, columns::run(row)?);
        }
    }
    let columns = CALL.join(", ");
    let select = format!("SELECT {columns} FROM call WHERE call = ? AND run = ? AND chain = ?");
    let mut select = tx.prepare_cached(&select)?;
    for key in calls {
        let mut rows = select.query(params![key.1, key.0, chain.as_bytes()])?;
        if let Some(row) = rows.next()? {
            stored.calls.insert(key, columns::call(row)?);
        }
    }
    Ok(stored)
}

/// A statement that puts a row of these columns.
fn put_row(table: &str, columns: &[&str]) -> String {
    let values = vec!["?"; columns.len()].join(", ");
    format!("INSERT OR REPLACE INTO {table} ({}) VALUES ({values})", columns.join(", "))
}

fn write(tx: &Transaction<'_>, batch: EntryBatch, stored: StoredRows) -> Result<(), Error> {
    let (calls, runs) = batch.fold(stored);
    let mark = "INSERT OR IGNORE INTO mark (kind, value, at, chain, seq) VALUES (?, ?, ?, ?, ?)";
    let mut mark = tx.prepare_cached(mark)?;
    let mut put = tx.prepare_cached(&put_row("call", &CALL))?;
    for row in &calls {
        for (kind, value) in row.marks() {
            let seq = IndexValue::from(row.seq);
            mark.execute(params![kind, value, row.at.millis(), row.chain.as_bytes(), seq])?;
        }
        put.execute(params_from_iter(call_values(row)))?;
    }
    let mut put = tx.prepare_cached(&put_row("run", &RUN))?;
    for row in &runs {
        put.execute(params_from_iter(run_values(row)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_too_long_is_interrupted_and_what_follows_is_not() {
        let conn = open(None).unwrap();
        let count = |to: u32| {
            let count = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) \
                         SELECT max(i) FROM n";
            move |conn: &Connection| Ok(conn.query_row(count, [to], |row| row.get::<_, u32>(0))?)
        };
        let endless = bounded(&conn, 100_000, count(u32::MAX)).unwrap_err();
        assert!(matches!(endless, Error::Long), "{endless}");
        assert_eq!(bounded(&conn, 100_000, count(100)).unwrap(), 100);
        assert_eq!(count(100_000)(&conn).unwrap(), 100_000, "nothing counts any more");
    }

    fn plan(conn: &Connection, statement: &IndexStatement) -> String {
        let mut query = conn.prepare(&format!("EXPLAIN QUERY PLAN {}", statement.sql)).unwrap();
        let rows = query.query_map(params_from_iter(&statement.values), |row| row.get(3));
        rows.unwrap().collect::<Done<Vec<String>>>().unwrap().join("\n")
    }

    #[test]
    fn a_search_for_an_agent_and_a_verdict_reads_the_calls_of_the_agent_and_not_every_denied_call()
    {
        let conn = open(None).unwrap();
        let columns = CALL.join(", ");
        let values = CALL.map(|column| match column {
            "chain" => "x'00'".to_owned(),
            "seq" | "at" | "last" => "n.i".to_owned(),
            "agent" => "'agent-' || (n.i % 20)".to_owned(),
            "verdict" => "iif(n.i % 10 = 0, 'deny', 'allow')".to_owned(),
            "enforced" | "us" | "masked" | "approvals" => "0".to_owned(),
            _ => "''".to_owned(),
        });
        let rows = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) \
             INSERT INTO call ({columns}) SELECT {} FROM n",
            values.join(", ")
        );
        conn.execute_batch(&rows).unwrap();
        let found = IndexStatement::of(
            "SELECT c.seq FROM call c WHERE c.agent = ? AND (c.verdict = ? AND c.verdict <> 'allow') \
             ORDER BY c.at DESC, c.chain DESC, c.seq DESC LIMIT 101",
            vec!["agent-7".into(), "deny".into()],
        );
        assert!(plan(&conn, &found).contains("call_verdict"), "{}", plan(&conn, &found));
        count_rows(&conn).unwrap();
        assert!(plan(&conn, &found).contains("call_agent"), "{}", plan(&conn, &found));
    }
}
