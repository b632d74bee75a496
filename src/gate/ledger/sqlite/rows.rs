//! Reads rows, for writer and reader alike.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, Row};

use super::{before_commit, unreadable};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::ledger::store::{EntryRow, HeadRow, PayloadRow, StoreError};

const ENTRY: &str = "SELECT seq, prev, leaf, run_id, call_id, kind, body FROM entry";

/// Which entries of a chain.
pub(super) enum EntryRange<'a> {
    From(Seq, u32),
    Run(&'a RunId),
    Call(&'a RunId, &'a CallId),
    Lone(&'a [&'a str]),
}

/// Entries of a chain, ascending.
pub(super) async fn entries(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    which: EntryRange<'_>,
) -> Result<Vec<EntryRow>, StoreError> {
    let chain = chain.as_bytes().to_vec();
    let rows = match which {
        EntryRange::From(from, limit) => {
            let text = format!("{ENTRY} WHERE chain_id = ? AND seq >= ? ORDER BY seq LIMIT ?");
            let query = sqlx::query(AssertSqlSafe(text)).bind(chain).bind(signed(from)?);
            query.bind(i64::from(limit)).fetch_all(conn).await
        }
        EntryRange::Run(run) => {
            let text = format!("{ENTRY} WHERE chain_id = ? AND run_id = ? ORDER BY seq");
            let query = sqlx::query(AssertSqlSafe(text)).bind(chain).bind(run.to_string());
            query.fetch_all(conn).await
        }
        EntryRange::Call(run, call) => {
            let text =
                format!("{ENTRY} WHERE chain_id = ? AND run_id = ? AND call_id = ? ORDER BY seq");
            let query = sqlx::query(AssertSqlSafe(text)).bind(chain).bind(run.to_string());
            query.bind(call.as_str().to_owned()).fetch_all(conn).await
        }
        EntryRange::Lone(kinds) => {
            let marks = vec!["?"; kinds.len()].join(", ");
            let text = format!(
                "{ENTRY} WHERE chain_id = ? AND run_id IS NULL AND kind IN ({marks}) ORDER BY seq"
            );
            let query = sqlx::query(AssertSqlSafe(text)).bind(chain);
            kinds.iter().fold(query, |q, kind| q.bind((*kind).to_owned())).fetch_all(conn).await
        }
    };
    rows.map_err(|e| before_commit(&e))?.iter().map(entry).collect()
}

pub(super) fn entry(row: &SqliteRow) -> Result<EntryRow, StoreError> {
    let run: Option<String> = get(row, "run_id")?;
    let call: Option<String> = get(row, "call_id")?;
    Ok(EntryRow {
        seq: unsigned(get(row, "seq")?)?,
        prev: digest(row, "prev")?,
        leaf: digest(row, "leaf")?,
        run: run.map(|r| run_id(&r)).transpose()?,
        call: call.map(|c| CallId::parse(&c).ok_or_else(|| odd("call_id"))).transpose()?,
        kind: get(row, "kind")?,
        body: get(row, "body")?,
    })
}

/// A payload of a chain.
pub(super) async fn payload(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    c: &Digest,
) -> Result<Option<PayloadRow>, StoreError> {
    let row = sqlx::query(
        "SELECT salt, role, media_type, body FROM payload WHERE chain_id = ? AND commitment = ?",
    )
    .bind(chain.as_bytes().to_vec())
    .bind(c.as_bytes().to_vec())
    .fetch_optional(conn)
    .await
    .map_err(|e| before_commit(&e))?;
    row.map(|row| read_payload(&row, *c)).transpose()
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
    let query = sqlx::query(AssertSqlSafe(text)).bind(chain.as_bytes().to_vec());
    let query = list.iter().fold(query, |query, c| query.bind(c.as_bytes().to_vec()));
    let rows = query.fetch_all(conn).await.map_err(|e| before_commit(&e))?;
    rows.iter().map(|row| read_payload(row, digest(row, "commitment")?)).collect()
}

fn read_payload(row: &SqliteRow, commitment: Digest) -> Result<PayloadRow, StoreError> {
    Ok(PayloadRow {
        commitment,
        salt: *digest(row, "salt")?.as_bytes(),
        role: get(row, "role")?,
        media_type: get(row, "media_type")?,
        body: get(row, "body")?,
    })
}

/// The head in a row with `size`, `hash`, `frontier` and `checkpoint`.
pub(super) fn head(row: &SqliteRow) -> Result<HeadRow, StoreError> {
    Ok(HeadRow {
        size: unsigned(get(row, "size")?)?,
        hash: digest(row, "hash")?,
        frontier: get(row, "frontier")?,
        checkpoint: get(row, "checkpoint")?,
    })
}

pub(super) fn chain_id(row: &SqliteRow) -> Result<ChainId, StoreError> {
    let bytes: Vec<u8> = get(row, "chain_id")?;
    bytes.try_into().map(ChainId::from_bytes).map_err(|_| odd("chain_id"))
}

pub(super) fn digest(row: &SqliteRow, name: &str) -> Result<Digest, StoreError> {
    let bytes: Vec<u8> = get(row, name)?;
    bytes.try_into().map(Digest::from_bytes).map_err(|_| odd(name))
}

pub(super) fn run_id(text: &str) -> Result<RunId, StoreError> {
    RunId::parse(text).ok_or_else(|| odd("run_id"))
}

pub(crate) fn get<'r, T>(row: &'r SqliteRow, name: &str) -> Result<T, StoreError>
where
    T: sqlx::Decode<'r, sqlx::Sqlite> + sqlx::Type<sqlx::Sqlite>,
{
    row.try_get(name).map_err(|e| unreadable(&e))
}

pub(crate) fn signed(number: u64) -> Result<i64, StoreError> {
    i64::try_from(number).map_err(|_| StoreError::Unavailable(format!("{number} is too large")))
}

pub(crate) fn unsigned(number: i64) -> Result<u64, StoreError> {
    u64::try_from(number).map_err(|_| odd("number"))
}

fn odd(name: &str) -> StoreError {
    StoreError::Broken(format!("a stored row cannot be read: `{name}` is malformed"))
}
