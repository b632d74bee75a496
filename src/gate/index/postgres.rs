//! The index of a hub, in the schema `console` of its database.
//!
//! Every call is one transaction in one round trip, as everywhere, so a pooler in transaction mode may stand between.
//! Searches have a connection of their own: none waits for the one that fills.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::Error;
use super::columns::{
    self, CALL, IndexColumns, IndexStatement, IndexValue, RUN, ReadRow, call_values, run_values,
};
use super::fold::{Cursor, EntryBatch, StoredRows};
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::ledger::postgres::Options;
use crate::ledger::postgres::lane::{PostgresLane, TOO_LONG};
use crate::ledger::postgres::values::Values;
use crate::ledger::store::StoreError;

/// How long a search may take.
const SEARCH: Duration = Duration::from_secs(5);
/// How long putting a batch, or emptying the index, may take.
const FILL: Duration = Duration::from_secs(120);
/// How long a replica fills before another one may, if it is silent.
const TERM: Duration = Duration::from_secs(5);

/// The database.
#[derive(Clone, Debug)]
pub(super) struct PostgresIndex {
    search: Arc<PostgresLane>,
    fill: Arc<PostgresLane>,
    /// The name of this process among the replicas.
    holder: Arc<str>,
}

impl PostgresIndex {
    /// Parses the address; connects on first use.
    pub fn lazy(url: &str, holder: &str) -> Result<Self, Error> {
        let lane = |statement| {
            let options = Options { statement, call: statement, ..Options::default() };
            let lane = PostgresLane::to(url, options).map_err(Error::Postgres)?;
            Ok::<_, Error>(Arc::new(lane.within("console")))
        };
        Ok(Self { search: lane(SEARCH)?, fill: lane(FILL)?, holder: holder.into() })
    }

    /// How far each chain is.
    pub async fn cursors(&self) -> Result<BTreeMap<ChainId, Cursor>, Error> {
        let sql = "SELECT chain, next, leaf, at FROM cursor";
        let rows = self.fill.read(sql, Values::new()).await.map_err(Error::Postgres)?;
        rows.iter().map(|row| Ok((IndexColumns::chain(row, 0)?, cursor(row, 1)?))).collect()
    }

    async fn cursor(&self, chain: &ChainId) -> Result<Cursor, Error> {
        let sql = "SELECT next, leaf, at FROM cursor WHERE chain = $1";
        let rows = self
            .fill
            .read(sql, Values::new().bytes(chain.as_bytes()))
            .await
            .map_err(Error::Postgres)?;
        rows.first().map_or(Ok(Cursor::START), |row| cursor(row, 0))
    }

    /// Takes everything of these chains out of the index.
    pub async fn forget(&self, chains: &[ChainId]) -> Result<(), Error> {
        let chains = chains.iter().map(|chain| chain.as_bytes().as_slice());
        let values = Values::new().all_bytes(chains);
        self.fill.write("SELECT forget($1)", values).await.map_err(Error::Postgres)?;
        Ok(())
    }

    /// What is stored of the runs and calls of a batch.
    async fn stored(&self, chain: &ChainId, batch: &EntryBatch) -> Result<StoredRows, Error> {
        let (runs, calls) = batch.keys();
        let (mut stored, of_chain) = (StoredRows::default(), Values::new().bytes(chain.as_bytes()));
        let sql = format!(
            "SELECT {} FROM run r WHERE r.chain = $1 AND r.run = ANY ($2)",
            columns::of("r", &RUN)
        );
        let values = of_chain.all_text(runs.iter().map(String::as_str));
        for row in self.fill.read(&sql, values).await.map_err(Error::Postgres)? {
            let run = columns::run(&row)?;
            stored.runs.insert(run.run.clone(), run);
        }
        let sql = format!(
            "SELECT {} FROM unnest($2, $3) AS k(call, run)
               JOIN call c ON c.call = k.call AND c.run = k.run WHERE c.chain = $1",
            columns::of("c", &CALL)
        );
        let values = Values::new()
            .bytes(chain.as_bytes())
            .all_text(calls.iter().map(|(_, call)| call.as_str()))
            .all_text(calls.iter().map(|(run, _)| run.as_str()));
        for row in self.fill.read(&sql, values).await.map_err(Error::Postgres)? {
            let call = columns::call(&row)?;
            stored.calls.insert((call.run.clone(), call.call.clone()), call);
        }
        Ok(stored)
    }

    /// Puts a batch into the index, all or nothing.
    pub async fn put(
        &self,
        chain: &ChainId,
        from: Cursor,
        batch: EntryBatch,
    ) -> Result<Cursor, Error> {
        // WHY outside of the transaction: only who moves the cursor changes these rows, and then nothing is put.
        let (stored, to) = (self.stored(chain, &batch).await?, batch.to);
        let (calls, runs) = batch.fold(stored);
        let marks: Value = calls
            .iter()
            .flat_map(|row| row.marks().map(move |mark| (row, mark)))
            .map(|(row, (kind, value))| {
                let chain = bytea(row.chain.as_bytes());
                json!({"kind": kind, "value": value, "at": row.at.millis(), "chain": chain, "seq": row.seq})
            })
            .collect();
        let calls: Value = calls.iter().map(|row| object(&CALL, call_values(row))).collect();
        let runs: Value = runs.iter().map(|row| object(&RUN, run_values(row))).collect();
        let [calls, runs, marks] = [calls, runs, marks].map(|rows| rows.to_string());
        let leaf = |leaf: &Option<Digest>| leaf.as_ref().map(|leaf| *leaf.as_bytes());
        let (leaf_before, leaf_after) = (leaf(&from.leaf), leaf(&to.leaf).unwrap_or_default());
        let values = Values::new()
            .bytes(chain.as_bytes())
            .number(from.next)
            .maybe_bytes(leaf_before.as_ref().map(<[u8; 32]>::as_slice))
            .number(to.next)
            .bytes(&leaf_after)
            .integer(to.at.millis())
            .text(&calls)
            .text(&runs)
            .text(&marks);
        let sql = "SELECT put($1, $2, $3, $4, $5, $6, $7, $8, $9)::int::bigint";
        match asked(&self.fill.write(sql, values).await.map_err(Error::Postgres)?)? {
            true => Ok(to),
            false => self.cursor(chain).await,
        }
    }

    /// The rows of a statement that only reads.
    pub async fn find<T>(
        &self,
        statement: &IndexStatement,
        read: ReadRow<T>,
    ) -> Result<Vec<T>, Error> {
        let values = statement.values.iter().fold(Values::new(), |values, one| match one {
            IndexValue::Null => values.maybe_text(None),
            IndexValue::Integer(number) => values.integer(*number),
            IndexValue::Text(text) => values.text(text),
            IndexValue::Bytes(bytes) => values.bytes(bytes),
        });
        let rows = self.search.read(&statement.sql, values).await.map_err(failed)?;
        rows.iter().map(|row| read(row)).collect()
    }

    /// Whether this replica fills the index now.
    pub async fn turn(&self) -> Result<bool, Error> {
        let values = Values::new().text(&self.holder).millis(TERM);
        let sql = "SELECT turn($1, $2)::int::bigint";
        asked(&self.fill.write(sql, values).await.map_err(Error::Postgres)?)
    }
}

/// Why a search failed.
fn failed(error: StoreError) -> Error {
    if error.reason().starts_with(TOO_LONG) { Error::Long } else { Error::Postgres(error) }
}

fn asked(rows: &[Row]) -> Result<bool, Error> {
    let row = rows.first().ok_or(Error::Malformed)?;
    Ok(IndexColumns::integer(row, 0)? != 0)
}

/// Reads the columns `next`, `leaf` and `at` from this one on.
fn cursor(row: &Row, from: usize) -> Result<Cursor, Error> {
    Ok(Cursor {
        next: row.number(from)?,
        leaf: Some(row.digest(from.saturating_add(1))?),
        at: row.instant(from.saturating_add(2))?,
    })
}

/// Bytes as the server reads them from a text.
fn bytea(bytes: &[u8]) -> String {
    format!("\\x{}", hex::encode(bytes))
}

/// A row as the server reads it from JSON.
fn object(columns: &[&str], values: impl IntoIterator<Item = IndexValue>) -> Value {
    let members: Map<String, Value> = columns
        .iter()
        .zip(values)
        .map(|(column, value)| {
            let value = match value {
                IndexValue::Null => Value::Null,
                IndexValue::Integer(number) => number.into(),
                IndexValue::Text(text) => text.into(),
                IndexValue::Bytes(bytes) => bytea(&bytes).into(),
            };
            ((*column).to_owned(), value)
        })
        .collect();
    Value::Object(members)
}

fn get<'r, T: FromSql<'r>>(row: &'r Row, at: usize) -> Result<T, Error> {
    row.try_get(at).map_err(|_| Error::Malformed)
}

impl IndexColumns for Row {
    fn maybe_text(&self, at: usize) -> Result<Option<String>, Error> {
        get(self, at)
    }

    fn maybe_integer(&self, at: usize) -> Result<Option<i64>, Error> {
        get(self, at)
    }

    fn maybe_bytes(&self, at: usize) -> Result<Option<Vec<u8>>, Error> {
        get(self, at)
    }
}
