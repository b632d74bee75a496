//! One statement with its values, and the rows it finds.

use std::collections::BTreeSet;

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Decode, Encode, Row, SqlSafeStr, Sqlite, Type};

use super::numbers::call_digest;
use super::steps::hash;
use super::{before_commit, unreadable};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::rows::{DatabaseRow, malformed};
use crate::ledger::store::{EntryRange, EntryRow, LeaseKey, PayloadRef, PayloadRow, StoreError};

/// The columns of an entry.
pub(super) const ENTRY: &str =
    "SELECT e.id & 1099511627775 AS seq, e.prev AS prev_hash, e.leaf AS leaf_hash,
        r.run_id, e.call_id, e.kind, e.body
   FROM stored_entry e LEFT JOIN run r ON r.no = e.call >> 32";
/// The chain `?1`: its number, the id of its first entry, and of the first that is not indexed.
const CHAIN: &str = "own AS MATERIALIZED (
    SELECT no, no << 40 AS base, (no << 40) + indexed AS unindexed
      FROM chain c JOIN head h ON h.chain_id = c.chain_id WHERE c.chain_id = ?1)";

/// A statement with its values, in order.
pub(crate) struct Statement {
    query: sqlx::query::Query<'static, Sqlite, SqliteArguments>,
    /// The first value that the database cannot hold.
    wrong: Option<StoreError>,
}

/// Begins a statement.
pub(crate) fn sql(text: impl SqlSafeStr) -> Statement {
    Statement { query: sqlx::query(text), wrong: None }
}

impl Statement {
    fn with<'v>(self, value: impl Encode<'v, Sqlite> + Type<Sqlite>) -> Self {
        Self { query: self.query.bind(value), ..self }
    }

    pub(crate) fn bytes(self, value: &[u8]) -> Self {
        self.with(value)
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.with(value)
    }

    pub(crate) fn integer(self, value: i64) -> Self {
        self.with(value)
    }

    pub(crate) fn maybe_integer(self, value: Option<i64>) -> Self {
        self.with(value)
    }

    pub(crate) fn number(mut self, value: u64) -> Self {
        let Ok(number) = i64::try_from(value) else {
            let why = || StoreError::Unavailable(format!("{value} is too large"));
            self.wrong.get_or_insert_with(why);
            return self;
        };
        self.with(number)
    }

    fn maybe_number(self, value: Option<u64>) -> Self {
        match value {
            Some(value) => self.number(value),
            None => self.with(None::<i64>),
        }
    }

    pub(crate) async fn run(self, conn: &mut SqliteConnection) -> Result<(), StoreError> {
        self.count(conn).await.map(drop)
    }

    /// Runs it: how many rows it changed.
    pub(super) async fn count(self, conn: &mut SqliteConnection) -> Result<u64, StoreError> {
        self.wrong.map_or(Ok(()), Err)?;
        let done = self.query.execute(conn).await.map_err(|e| before_commit(&e))?;
        Ok(done.rows_affected())
    }

    pub(crate) async fn all(
        self,
        conn: &mut SqliteConnection,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        self.wrong.map_or(Ok(()), Err)?;
        self.query.fetch_all(conn).await.map_err(|e| before_commit(&e))
    }

    pub(crate) async fn one(self, conn: &mut SqliteConnection) -> Result<SqliteRow, StoreError> {
        self.wrong.map_or(Ok(()), Err)?;
        self.query.fetch_one(conn).await.map_err(|e| before_commit(&e))
    }

    pub(super) async fn maybe(
        self,
        conn: &mut SqliteConnection,
    ) -> Result<Option<SqliteRow>, StoreError> {
        self.wrong.map_or(Ok(()), Err)?;
        self.query.fetch_optional(conn).await.map_err(|e| before_commit(&e))
    }
}

/// The head row, if the key holds the lease.
pub(super) async fn held(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
) -> Result<SqliteRow, StoreError> {
    let query = sql("SELECT size, hash AS head_hash, frontier, checkpoint FROM head
                      WHERE chain_id = ? AND epoch = ? AND secret_hash = ?");
    let query = query.bytes(key.chain.as_bytes()).number(key.epoch).bytes(&hash(&key.secret));
    let found = query.maybe(conn).await?;
    found.ok_or_else(|| StoreError::Conflict("the lease is lost".into()))
}

/// Entries of a chain, ascending.
pub(super) async fn entries(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    range: EntryRange<'_>,
) -> Result<Vec<EntryRow>, StoreError> {
    let of = |text: String| sql(AssertSqlSafe(text)).bytes(chain.as_bytes());
    // `?2` is the run; its keys that are looked for begin at `?3` and are `?4` many.
    let keyed = |rest: &str| {
        format!(
            "WITH {CHAIN}, wanted AS MATERIALIZED (
               SELECT (no << 32) + ?3 AS low, (no << 32) + ?3 + ?4 AS high FROM run
                WHERE run_id = ?2 AND chain = (SELECT no FROM own))
             {ENTRY} WHERE e.id IN (
               SELECT i.id FROM wanted CROSS JOIN entry_call i WHERE i.call >= low AND i.call < high
                UNION ALL
               SELECT t.id FROM wanted CROSS JOIN own CROSS JOIN stored_entry t
                WHERE t.id >= unindexed AND t.id < base + (1 << 40) AND t.call >= low AND t.call < high)
             {rest} ORDER BY e.id"
        )
    };
    let query = match range {
        EntryRange::From(from, limit) => of(format!(
            "WITH {CHAIN} {ENTRY} WHERE e.id >= (SELECT base + ?2 FROM own)
                AND e.id < (SELECT base + (1 << 40) FROM own) ORDER BY e.id LIMIT ?3"
        ))
        .number(from)
        .number(limit.into()),
        EntryRange::Run(run) => of(keyed("")).text(&run.to_string()).integer(0).integer(1 << 32),
        EntryRange::Call(run, call) => of(keyed("AND e.call_id = ?5"))
            .text(&run.to_string())
            .integer(call_digest(call.as_str()))
            .integer(1)
            .text(call.as_str()),
        EntryRange::Lone(kinds, before, limit) => {
            let marks: Vec<String> = (4..).zip(kinds).map(|(at, _)| format!("?{at}")).collect();
            let found = of(format!(
                "WITH {CHAIN} {ENTRY} WHERE e.call IS NULL AND e.kind IN ({})
                    AND e.id >= (SELECT base FROM own) AND e.id < (SELECT base + ?2 FROM own)
                  ORDER BY e.id DESC LIMIT ?3",
                marks.join(", ")
            ));
            let found = found.number(before).number(limit.into());
            let query = kinds.iter().fold(found, |query, kind| query.text(kind));
            let rows = query.all(conn).await?;
            return rows.iter().rev().map(DatabaseRow::entry).collect();
        }
    };
    query.all(conn).await?.iter().map(DatabaseRow::entry).collect()
}

/// Runs of a chain that are open.
pub(super) async fn open_runs(
    conn: &mut SqliteConnection,
    chain: &ChainId,
) -> Result<Vec<RunId>, StoreError> {
    let query =
        sql("SELECT run_id FROM run WHERE chain = (SELECT no FROM chain WHERE chain_id = ?)
                        AND open ORDER BY run_id");
    query.bytes(chain.as_bytes()).all(conn).await?.iter().map(DatabaseRow::run_id).collect()
}

/// Checkpoints of a chain from this size on, ascending.
pub(super) async fn checkpoints(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    at_least: Seq,
    limit: u32,
) -> Result<Vec<(Seq, String)>, StoreError> {
    let text = format!(
        "WITH {CHAIN} SELECT size, note FROM (
           SELECT * FROM (SELECT (id & 1099511627775) + 1 AS size, note FROM stored_entry
             WHERE id >= (SELECT base + ?2 - 1 FROM own) AND id >= (SELECT base FROM own)
               AND id < (SELECT base + (1 << 40) FROM own)
               AND note IS NOT NULL ORDER BY id LIMIT ?3)
            UNION ALL
           SELECT * FROM (SELECT size, note FROM kept_checkpoint
             WHERE chain = (SELECT no FROM own) AND size >= ?2 ORDER BY size LIMIT ?3))
          ORDER BY size LIMIT ?3"
    );
    let query = sql(AssertSqlSafe(text)).bytes(chain.as_bytes());
    let query = query.number(at_least).number(limit.into());
    query.all(conn).await?.iter().map(DatabaseRow::note).collect()
}

/// The columns of a payload.
const PAYLOAD: &str = "SELECT p.commitment, p.salt, p.role, p.media_type, p.body";

/// The stored payloads among these of a chain, in no order.
pub(super) async fn payloads(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    list: &[PayloadRef],
) -> Result<Vec<PayloadRow>, StoreError> {
    if list.is_empty() {
        return Ok(Vec::new());
    }
    // Nearly all payloads lie beside the entry that is named.
    let mut found = wanted(conn, chain, list, &beside()).await?;
    let known: BTreeSet<Digest> = found.iter().map(|row| row.commitment).collect();
    let missing = list.iter().filter(|at| !known.contains(&at.commitment)).copied();
    let missing: Vec<PayloadRef> = missing.collect();
    if !missing.is_empty() {
        found.extend(wanted(conn, chain, &missing, &elsewhere()).await?);
    }
    Ok(found)
}

/// Payloads beside the entry that is named.
fn beside() -> String {
    format!(
        "{PAYLOAD} FROM wanted CROSS JOIN own CROSS JOIN stored_payload p
          WHERE p.id >= base + wanted.seq << 4 AND p.id < base + wanted.seq + 1 << 4
            AND +p.commitment = wanted.c"
    )
}

/// Payloads that are not beside the named entry: large ones, those of another entry of the same
/// call, and, if no entry is named, all of the chain.
fn elsewhere() -> String {
    // WHY `+`: otherwise the planner builds an index of every payload, bodies included, in memory.
    let beside = "p.id >= o.id << 4 AND p.id < o.id + 1 << 4 AND +p.commitment = calls.c";
    format!(
        "{PAYLOAD} FROM wanted CROSS JOIN own JOIN large_payload p
          WHERE p.chain = own.no AND p.commitment = wanted.c
         UNION ALL
         {PAYLOAD} FROM calls CROSS JOIN entry_call o CROSS JOIN stored_payload p
          WHERE o.call = calls.call AND {beside}
         UNION ALL
         {PAYLOAD} FROM own CROSS JOIN stored_entry o CROSS JOIN calls CROSS JOIN stored_payload p
          WHERE o.id >= unindexed AND o.id < base + (1 << 40) AND o.call = calls.call AND {beside}
         UNION ALL
         {PAYLOAD} FROM own CROSS JOIN stored_payload p
          WHERE EXISTS (SELECT 1 FROM wanted WHERE seq IS NULL)
            AND p.id >= base << 4 AND p.id < base + (1 << 40) << 4
            AND p.commitment IN (SELECT c FROM wanted WHERE seq IS NULL)"
    )
}

/// The statement over so many payloads.
fn over(payloads: usize, text: &str) -> String {
    // WHY numbered: the driver counts values without a number apart from `?1`.
    let pair = |k: usize| {
        let first = k.saturating_mul(2).saturating_add(2);
        format!("(?{first}, ?{})", first.saturating_add(1))
    };
    let values = (0..payloads).map(pair).collect::<Vec<_>>().join(", ");
    format!(
        "WITH {CHAIN}, wanted (seq, c) AS MATERIALIZED (VALUES {values}),
           calls AS MATERIALIZED (SELECT wanted.c, e.call FROM wanted CROSS JOIN own
             JOIN stored_entry e ON e.id = base + wanted.seq WHERE e.call & 4294967295)
         {text}"
    )
}

/// Runs a statement over `own`, the chain; `wanted`, these payloads; and `calls`, those of them with
/// the calls of their entries.
async fn wanted(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    list: &[PayloadRef],
    text: &str,
) -> Result<Vec<PayloadRow>, StoreError> {
    let text = over(list.len(), text);
    let mut query = sql(AssertSqlSafe(text)).bytes(chain.as_bytes());
    for at in list {
        query = query.maybe_number(at.entry).bytes(at.commitment.as_bytes());
    }
    query.all(conn).await?.iter().map(DatabaseRow::payload).collect()
}

fn get<'r, T>(row: &'r SqliteRow, name: &str) -> Result<T, StoreError>
where
    T: Decode<'r, Sqlite> + Type<Sqlite>,
{
    row.try_get(name).map_err(|e| unreadable(&e))
}

impl DatabaseRow for SqliteRow {
    fn maybe_integer(&self, name: &str) -> Result<Option<i64>, StoreError> {
        get(self, name)
    }

    fn maybe_text(&self, name: &str) -> Result<Option<String>, StoreError> {
        get(self, name)
    }

    fn maybe_bytes(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        get(self, name)
    }
}

impl DatabaseRow for rusqlite::Row<'_> {
    fn maybe_integer(&self, name: &str) -> Result<Option<i64>, StoreError> {
        self.get(name).map_err(|_| malformed(name))
    }

    fn maybe_text(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.get(name).map_err(|_| malformed(name))
    }

    fn maybe_bytes(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.get(name).map_err(|_| malformed(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::sqlite::SqliteStore;

    #[tokio::test]
    async fn no_lookup_of_payloads_reads_more_than_it_has_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        SqliteStore::open(&path).await.unwrap().close().await.unwrap();
        let file = rusqlite::Connection::open(&path).unwrap();
        for text in [beside(), elsewhere()] {
            let text = format!("EXPLAIN QUERY PLAN {}", over(3, &text));
            let mut query = file.prepare(&text).unwrap();
            let plan =
                query.query_map([rusqlite::types::Null; 7], |row| row.get::<_, String>(3)).unwrap();
            let plan: Vec<String> = plan.map(Result::unwrap).collect();
            assert!(plan.iter().any(|step| step.contains("SEARCH p USING")), "{plan:#?}");
            let bad = |step: &&String| {
                step.contains(" p ") && (step.contains("AUTOMATIC") || step.contains("SCAN"))
            };
            assert_eq!(plan.iter().find(bad), None, "{plan:#?}");
        }
    }
}
