//! The index in one SQLite file, or in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, Row, Transaction, TransactionBehavior, params};

use super::query::CallState;
use super::rows::{CallRow, RunRow};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Seq};
use crate::domain::time::Timestamp;
use crate::ledger::store::EntryRow;
use crate::record::{Entry, Kind};

/// The layout of this build. A file of another layout is emptied and filled again.
const LAYOUT: u32 = 1;

const SCHEMA: &str = "
CREATE TABLE cursor (chain BLOB PRIMARY KEY, next INTEGER NOT NULL, leaf BLOB NOT NULL, at INTEGER NOT NULL)
  WITHOUT ROWID;
CREATE TABLE call (
  chain BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, run TEXT NOT NULL, call TEXT NOT NULL,
  agent TEXT NOT NULL, version TEXT NOT NULL, tool TEXT NOT NULL, tier TEXT NOT NULL, verdict TEXT NOT NULL,
  enforced INTEGER NOT NULL, state TEXT NOT NULL, code TEXT NOT NULL, detail TEXT NOT NULL, rule TEXT NOT NULL,
  outcome TEXT NOT NULL, us INTEGER, masked INTEGER NOT NULL, approvals INTEGER NOT NULL, decided_by TEXT NOT NULL,
  codes TEXT NOT NULL, last INTEGER NOT NULL, PRIMARY KEY (chain, seq)) WITHOUT ROWID;
CREATE INDEX call_at ON call (at, chain, seq);
CREATE INDEX call_tool ON call (tool, at, chain, seq);
CREATE INDEX call_agent ON call (agent, at, chain, seq);
CREATE INDEX call_verdict ON call (verdict, at, chain, seq);
CREATE INDEX call_state ON call (state, at, chain, seq);
CREATE INDEX call_run ON call (run, call);
CREATE INDEX call_call ON call (call);
CREATE TABLE mark (kind TEXT NOT NULL, value TEXT NOT NULL, chain BLOB NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY (kind, value, chain, seq)) WITHOUT ROWID;
CREATE INDEX mark_call ON mark (chain, seq);
CREATE TABLE run (
  run TEXT NOT NULL, chain BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, agent TEXT NOT NULL,
  version TEXT NOT NULL, manifest TEXT NOT NULL, parent TEXT NOT NULL, sealed INTEGER, reason TEXT NOT NULL,
  PRIMARY KEY (run, chain)) WITHOUT ROWID;
CREATE INDEX run_at ON run (at, chain, seq);
CREATE INDEX run_agent ON run (agent, at, chain, seq);
CREATE INDEX run_parent ON run (parent, at, chain, seq);
CREATE INDEX run_open ON run (at, chain, seq) WHERE sealed IS NULL;
";

/// The columns of a call, in the order of [`call`].
pub(super) const CALL: &str = "chain, seq, at, run, call, agent, version, tool, tier, verdict, enforced, state, code, \
    detail, rule, outcome, us, masked, approvals, decided_by, codes, last";

/// The columns of a run, in the order of [`run`].
pub(super) const RUN: &str =
    "chain, seq, at, run, agent, version, manifest, parent, sealed, reason";

/// How far a chain is in the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Cursor {
    /// The first entry that is not in it.
    pub next: Seq,
    /// The leaf of the entry before; `None` at the beginning.
    pub leaf: Option<Digest>,
    /// The time of that entry.
    pub at: Timestamp,
}

impl Cursor {
    /// Nothing of the chain is in the index.
    pub const START: Self = Self { next: 0, leaf: None, at: Timestamp::from_millis(0) };
}

/// What became of entries that were read for the index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Applied {
    /// They are in it, or another process had put them there.
    To(Cursor),
    /// The first of them does not follow the last entry in the index.
    Broken(Seq),
}

type Done<T> = rusqlite::Result<T>;

/// Opens the file; `None`: an index in memory. A file of another layout is emptied.
pub(super) fn open(path: Option<&Path>) -> Done<Connection> {
    let mut conn = match path {
        Some(path) => {
            private(path)?;
            Connection::open(path)?
        }
        None => Connection::open_in_memory()?,
    };
    conn.busy_timeout(std::time::Duration::from_secs(5))?;
    // WHY not FULL: a power cut may take the last batches, and then the cursor with them.
    conn.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL")?;
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

/// Makes the file, for its owner alone, before SQLite does.
fn private(path: &Path) -> Done<()> {
    let mut made = std::fs::OpenOptions::new();
    let made = made.read(true).write(true).create(true).truncate(false).mode(0o600).open(path);
    made.map(drop).map_err(|error| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        rusqlite::Error::SqliteFailure(code, Some(error.to_string()))
    })
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(row: &Row<'_>, at: usize) -> Done<u64> {
    row.get::<_, i64>(at).map(|value| u64::try_from(value).unwrap_or_default())
}

fn instant(row: &Row<'_>, at: usize) -> Done<Timestamp> {
    row.get(at).map(Timestamp::from_millis)
}

fn chain_id(row: &Row<'_>, at: usize) -> Done<ChainId> {
    row.get(at).map(ChainId::from_bytes)
}

/// A list in one column.
fn listed(list: &[String]) -> String {
    serde_json::to_string(list).unwrap_or_default()
}

fn list(row: &Row<'_>, at: usize) -> Done<Vec<String>> {
    Ok(serde_json::from_str(&row.get::<_, String>(at)?).unwrap_or_default())
}

/// Reads the columns [`CALL`].
pub(super) fn call(row: &Row<'_>) -> Done<CallRow> {
    let us: Option<i64> = row.get(16)?;
    Ok(CallRow {
        chain: chain_id(row, 0)?,
        seq: unsigned(row, 1)?,
        at: instant(row, 2)?,
        run: row.get(3)?,
        call: row.get(4)?,
        agent: row.get(5)?,
        version: row.get(6)?,
        tool: row.get(7)?,
        tier: row.get(8)?,
        verdict: row.get(9)?,
        enforced: row.get(10)?,
        state: CallState::parse(&row.get::<_, String>(11)?).unwrap_or(CallState::Unknown),
        code: row.get(12)?,
        detail: row.get(13)?,
        rule: row.get(14)?,
        outcome: row.get(15)?,
        us: us.and_then(|us| u64::try_from(us).ok()),
        masked: unsigned(row, 17)?,
        approvals: unsigned(row, 18)?,
        decided_by: list(row, 19)?,
        codes: list(row, 20)?,
        last: unsigned(row, 21)?,
    })
}

/// Reads the columns [`RUN`].
pub(super) fn run(row: &Row<'_>) -> Done<RunRow> {
    let sealed: Option<i64> = row.get(8)?;
    Ok(RunRow {
        chain: chain_id(row, 0)?,
        seq: unsigned(row, 1)?,
        at: instant(row, 2)?,
        run: row.get(3)?,
        agent: row.get(4)?,
        version: row.get(5)?,
        manifest: row.get(6)?,
        parent: row.get(7)?,
        sealed: sealed.map(Timestamp::from_millis),
        reason: row.get(9)?,
    })
}

/// How far each chain is.
pub(super) fn cursors(conn: &Connection) -> Done<BTreeMap<ChainId, Cursor>> {
    let mut query = conn.prepare_cached("SELECT chain, next, leaf, at FROM cursor")?;
    let read = |row: &Row<'_>| Ok((chain_id(row, 0)?, cursor(row)?));
    query.query_map([], read)?.collect()
}

fn cursor(row: &Row<'_>) -> Done<Cursor> {
    let leaf: [u8; 32] = row.get(2)?;
    Ok(Cursor {
        next: unsigned(row, 1)?,
        leaf: Some(Digest::from_bytes(leaf)),
        at: instant(row, 3)?,
    })
}

/// Instructions of SQLite's machine that a search may take: a few seconds.
pub(super) const STEPS_MAX: u32 = 50_000_000;
/// Instructions between two looks at how many were taken.
const STEPS_LOOK: u16 = 10_000;

/// Does this, unless it takes more instructions: then it fails as interrupted. Others wait for the connection meanwhile.
pub(super) fn bounded<T>(
    conn: &Connection,
    steps: u32,
    work: impl FnOnce(&Connection) -> Done<T>,
) -> Done<T> {
    let mut taken = 0_u32;
    let ends = move || {
        taken = taken.saturating_add(STEPS_LOOK.into());
        taken > steps
    };
    conn.progress_handler(STEPS_LOOK.into(), Some(ends))?;
    let done = work(conn);
    conn.progress_handler(0, None::<fn() -> bool>)?;
    done
}

/// Takes everything of these chains out of the index.
pub(super) fn forget(conn: &mut Connection, chains: &[ChainId]) -> Done<()> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for chain in chains {
        for table in ["cursor", "call", "mark", "run"] {
            let delete = format!("DELETE FROM {table} WHERE chain = ?");
            tx.execute(&delete, params![chain.as_bytes()])?;
        }
    }
    tx.commit()
}

/// Puts entries of a chain into the index and moves its cursor, in one transaction. An entry that this build cannot read
/// is skipped, as everywhere.
pub(super) fn apply(
    conn: &mut Connection,
    chain: &ChainId,
    expected: Cursor,
    entries: &[EntryRow],
) -> Done<Applied> {
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let select = "SELECT chain, next, leaf, at FROM cursor WHERE chain = ?";
    let stored = tx.query_row(select, params![chain.as_bytes()], cursor).optional()?;
    let stored = stored.unwrap_or(Cursor::START);
    let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
        return Ok(Applied::To(stored));
    };
    if stored != expected {
        return Ok(Applied::To(stored));
    }
    // After a gap of pruned entries there is nothing to compare.
    if first.seq == stored.next && stored.leaf.is_some_and(|leaf| leaf != first.prev) {
        return Ok(Applied::Broken(first.seq));
    }
    let mut batch = RowBatch {
        tx: &tx,
        chain,
        calls: BTreeMap::new(),
        runs: BTreeMap::new(),
        changed: BTreeSet::new(),
    };
    let mut at = stored.at;
    for row in entries.iter().filter(|row| row.run.is_some() || row.seq == last.seq) {
        if let Ok(entry) = Entry::parse(&row.body) {
            at = entry.ts;
            batch.take(&entry)?;
        }
    }
    batch.write()?;
    let to = Cursor { next: last.seq.saturating_add(1), leaf: Some(last.leaf), at };
    tx.execute(
        "INSERT OR REPLACE INTO cursor (chain, next, leaf, at) VALUES (?, ?, ?, ?)",
        params![chain.as_bytes(), number(to.next), last.leaf.as_bytes(), at.millis()],
    )?;
    tx.commit()?;
    Ok(Applied::To(to))
}

/// The rows that a batch of entries changes: each is read and written at most once.
struct RowBatch<'a> {
    tx: &'a Transaction<'a>,
    chain: &'a ChainId,
    calls: BTreeMap<(String, String), Option<CallRow>>,
    runs: BTreeMap<String, Option<RunRow>>,
    /// The runs that were not only read.
    changed: BTreeSet<String>,
}

impl RowBatch<'_> {
    fn take(&mut self, entry: &Entry) -> Done<()> {
        let Some(link) = &entry.run else { return Ok(()) };
        let run_id = link.run.to_string();
        if let Some(opened) = RunRow::opened(entry) {
            self.changed.insert(run_id.clone());
            self.runs.insert(run_id, Some(opened));
            return Ok(());
        }
        let kind = entry.draft.kind();
        if kind == Kind::RunSealed {
            if let Some(run) = self.run(&run_id)? {
                run.advance(entry);
                self.changed.insert(run_id);
            }
            return Ok(());
        }
        let Some(call_id) = entry.draft.call.as_ref().filter(|_| kind.of_call()) else {
            return Ok(());
        };
        let key = (run_id, call_id.to_string());
        if !self.calls.contains_key(&key) {
            let stored = self.stored_call(&key)?;
            self.calls.insert(key.clone(), stored);
        }
        if let Some(Some(row)) = self.calls.get_mut(&key) {
            row.advance(entry);
            return Ok(());
        }
        let begun = CallRow::begun(entry, self.run(&key.0)?.as_deref());
        self.calls.insert(key, begun);
        Ok(())
    }

    fn run(&mut self, id: &str) -> Done<Option<&mut RunRow>> {
        if !self.runs.contains_key(id) {
            let select = format!("SELECT {RUN} FROM run WHERE run = ? AND chain = ?");
            let found = self
                .tx
                .prepare_cached(&select)?
                .query_row(params![id, self.chain.as_bytes()], run)
                .optional()?;
            self.runs.insert(id.to_owned(), found);
        }
        Ok(self.runs.get_mut(id).and_then(Option::as_mut))
    }

    fn stored_call(&self, (run_id, call_id): &(String, String)) -> Done<Option<CallRow>> {
        let select = format!("SELECT {CALL} FROM call WHERE run = ? AND call = ? AND chain = ?");
        let mut select = self.tx.prepare_cached(&select)?;
        select.query_row(params![run_id, call_id, self.chain.as_bytes()], call).optional()
    }

    fn write(self) -> Done<()> {
        let values = |columns: &str| vec!["?"; columns.split(',').count()].join(", ");
        let put = format!("INSERT OR REPLACE INTO call ({CALL}) VALUES ({})", values(CALL));
        let mut put = self.tx.prepare_cached(&put)?;
        let mark = "INSERT OR IGNORE INTO mark (kind, value, chain, seq) VALUES (?, ?, ?, ?)";
        let mut mark = self.tx.prepare_cached(mark)?;
        for row in self.calls.into_values().flatten() {
            let (chain, seq) = (*row.chain.as_bytes(), number(row.seq));
            let codes = row.codes.iter().map(|code| ("code", code));
            for (kind, value) in codes.chain(row.decided_by.iter().map(|by| ("by", by))) {
                mark.execute(params![kind, value, chain, seq])?;
            }
            put.execute(rusqlite::params_from_iter(call_values(row)))?;
        }
        let put = format!("INSERT OR REPLACE INTO run ({RUN}) VALUES ({})", values(RUN));
        let mut put = self.tx.prepare_cached(&put)?;
        let changed = |(id, _): &(String, _)| self.changed.contains(id);
        for row in self.runs.into_iter().filter(changed).filter_map(|(_, row)| row) {
            put.execute(params![
                row.chain.as_bytes(),
                number(row.seq),
                row.at.millis(),
                row.run,
                row.agent,
                row.version,
                row.manifest,
                row.parent,
                row.sealed.map(Timestamp::millis),
                row.reason
            ])?;
        }
        Ok(())
    }
}

/// The values of the columns [`CALL`].
fn call_values(row: CallRow) -> [Value; 22] {
    let text = Value::Text;
    let count = |value: u64| Value::Integer(number(value));
    [
        Value::Blob(row.chain.as_bytes().to_vec()),
        count(row.seq),
        Value::Integer(row.at.millis()),
        text(row.run),
        text(row.call),
        text(row.agent),
        text(row.version),
        text(row.tool),
        text(row.tier),
        text(row.verdict),
        Value::Integer(row.enforced.into()),
        text(row.state.as_str().to_owned()),
        text(row.code),
        text(row.detail),
        text(row.rule),
        text(row.outcome),
        row.us.map_or(Value::Null, count),
        count(row.masked),
        count(row.approvals),
        text(listed(&row.decided_by)),
        text(listed(&row.codes)),
        count(row.last),
    ]
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
            move |conn: &Connection| conn.query_row(count, [to], |row| row.get::<_, u32>(0))
        };
        let endless = bounded(&conn, 100_000, count(u32::MAX)).unwrap_err();
        let interrupted = rusqlite::ErrorCode::OperationInterrupted;
        assert_eq!(endless.sqlite_error_code(), Some(interrupted), "{endless}");
        assert_eq!(bounded(&conn, 100_000, count(100)), Ok(100));
        assert_eq!(count(100_000)(&conn), Ok(100_000), "nothing counts any more");
    }
}
