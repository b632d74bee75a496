//! One statement with its values, and the rows it finds.

use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Decode, Encode, Row, SqlSafeStr, Sqlite, Type};

use super::{before_commit, unreadable};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{EntryRange, EntryRow, PayloadRow, StoreError};

/// The columns of an entry.
pub(super) const ENTRY: &str =
    "SELECT seq, prev AS prev_hash, leaf AS leaf_hash, run_id, call_id, kind, body FROM entry";

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

    pub(crate) fn maybe_bytes(self, value: Option<&[u8]>) -> Self {
        self.with(value)
    }

    pub(crate) fn text(self, value: &str) -> Self {
        self.with(value)
    }

    pub(super) fn maybe_text(self, value: Option<String>) -> Self {
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

/// Entries of a chain, ascending.
pub(super) async fn entries(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    range: EntryRange<'_>,
) -> Result<Vec<EntryRow>, StoreError> {
    let of = |rest: &str| {
        sql(AssertSqlSafe(format!("{ENTRY} WHERE chain_id = ? AND {rest}"))).bytes(chain.as_bytes())
    };
    let query = match range {
        EntryRange::From(from, limit) => {
            of("seq >= ? ORDER BY seq LIMIT ?").number(from).number(limit.into())
        }
        EntryRange::Run(run) => of("run_id = ? ORDER BY seq").text(&run.to_string()),
        EntryRange::Call(run, call) => {
            of("run_id = ? AND call_id = ? ORDER BY seq").text(&run.to_string()).text(call.as_str())
        }
    };
    query.all(conn).await?.iter().map(DatabaseRow::entry).collect()
}

/// Runs of a chain that are open.
pub(super) async fn open_runs(
    conn: &mut SqliteConnection,
    chain: &ChainId,
) -> Result<Vec<RunId>, StoreError> {
    let query = sql("SELECT run_id FROM open_run WHERE chain_id = ? ORDER BY run_id");
    query.bytes(chain.as_bytes()).all(conn).await?.iter().map(DatabaseRow::run_id).collect()
}

/// The stored payloads among these of a chain, in no order.
pub(super) async fn payloads(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    list: &[Digest],
) -> Result<Vec<PayloadRow>, StoreError> {
    let marks = vec!["?"; list.len()].join(", ");
    let text = format!(
        "SELECT commitment, salt, role, media_type, body FROM payload
          WHERE chain_id = ? AND commitment IN ({marks})"
    );
    let query = sql(AssertSqlSafe(text)).bytes(chain.as_bytes());
    let query = list.iter().fold(query, |query, c| query.bytes(c.as_bytes()));
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
