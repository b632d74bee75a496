//! Reads rows of the server.

use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::ledger::rows::{DatabaseRow, malformed};
use crate::ledger::store::StoreError;

/// The columns of an entry.
pub(super) const ENTRY: &str =
    "seq, prev_hash, leaf_hash, run_id::text AS run_id, call_id, kind, body";
/// The columns of a payload.
pub(super) const PAYLOAD: &str = "commitment, salt, role, media_type, body";

pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, name: &str) -> Result<T, StoreError> {
    row.try_get(name).map_err(|_| malformed(name))
}

impl DatabaseRow for Row {
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
