//! Reads rows, for writer and reader alike.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId};
use crate::ledger::store::{EntryRow, HeadRow, PayloadRow, StoreError};

/// The columns [`entry`] reads.
pub(super) const ENTRY: &str =
    "seq, prev_hash, leaf_hash, run_id::text AS run_id, call_id, kind, body";
/// The columns [`payload`] reads.
pub(super) const PAYLOAD: &str = "commitment, salt, role, media_type, body";

pub(super) fn entry(row: &Row) -> Result<EntryRow, StoreError> {
    let run: Option<String> = get(row, "run_id")?;
    let call: Option<String> = get(row, "call_id")?;
    Ok(EntryRow {
        seq: number(row, "seq")?,
        prev: digest(row, "prev_hash")?,
        leaf: digest(row, "leaf_hash")?,
        run: run.map(|r| run_id(&r)).transpose()?,
        call: call.map(|c| CallId::parse(&c).ok_or_else(|| odd("call_id"))).transpose()?,
        kind: get(row, "kind")?,
        body: get(row, "body")?,
    })
}

pub(super) fn payload(row: &Row) -> Result<PayloadRow, StoreError> {
    Ok(PayloadRow {
        commitment: digest(row, "commitment")?,
        salt: *digest(row, "salt")?.as_bytes(),
        role: get(row, "role")?,
        media_type: get(row, "media_type")?,
        body: get(row, "body")?,
    })
}

pub(super) fn head(row: &Row) -> Result<HeadRow, StoreError> {
    Ok(HeadRow {
        size: number(row, "size")?,
        hash: digest(row, "head_hash")?,
        frontier: get(row, "frontier")?,
        checkpoint: get(row, "checkpoint")?,
    })
}

pub(super) fn chain_id(row: &Row) -> Result<ChainId, StoreError> {
    let bytes: Vec<u8> = get(row, "chain_id")?;
    bytes.try_into().map(ChainId::from_bytes).map_err(|_| odd("chain_id"))
}

pub(super) fn digest(row: &Row, name: &str) -> Result<Digest, StoreError> {
    let bytes: Vec<u8> = get(row, name)?;
    bytes.try_into().map(Digest::from_bytes).map_err(|_| odd(name))
}

pub(super) fn run_id(text: &str) -> Result<RunId, StoreError> {
    RunId::parse(text).ok_or_else(|| odd("run_id"))
}

pub(crate) fn number(row: &Row, name: &str) -> Result<u64, StoreError> {
    u64::try_from(get::<i64>(row, name)?).map_err(|_| odd(name))
}

pub(crate) fn get<'r, T>(row: &'r Row, name: &str) -> Result<T, StoreError>
where
    T: FromSql<'r>,
{
    row.try_get(name).map_err(|_| odd(name))
}

fn odd(name: &str) -> StoreError {
    StoreError::Broken(format!("a stored row cannot be read: `{name}` is malformed"))
}
