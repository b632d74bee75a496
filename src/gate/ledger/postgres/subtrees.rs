//! Stored subtrees, and other rows that proofs and audits read in bulk.

use tokio_postgres::Row;

use super::values::Values;
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{StoreError, Subtree, Volume};

/// The heights, indices and hashes of subtrees to keep.
pub(super) fn with<'a>(values: Values<'a>, done: &'a [Subtree]) -> Values<'a> {
    values
        .all_heights(done.iter().map(|s| s.node.height))
        .all_numbers(done.iter().map(|s| s.node.index))
        .all_bytes(done.iter().map(|s| s.hash.as_bytes().as_slice()))
}

/// Counts the stored rows, with the space of tables and indexes.
pub(super) const VOLUMES: &str = "
  SELECT 'entries' AS what, count(*) AS n,
         coalesce(sum(octet_length(body) + 80 + coalesce(octet_length(call_id), 0) + octet_length(kind)
                      + CASE WHEN run_id IS NULL THEN 0 ELSE 16 END), 0)::bigint AS b,
         (SELECT coalesce(sum(pg_total_relation_size(t.relid)), 0)::bigint
            FROM pg_partition_tree('ledger.entry') t WHERE t.isleaf) AS d FROM ledger.entry
  UNION ALL
  SELECT 'payloads', count(*), coalesce(sum(octet_length(body) + 80 + octet_length(role)
         + octet_length(media_type)), 0)::bigint, pg_total_relation_size('ledger.payload') FROM ledger.payload
  UNION ALL
  SELECT 'checkpoints', count(*), coalesce(sum(octet_length(note) + 32), 0)::bigint,
         pg_total_relation_size('ledger.checkpoint') FROM ledger.checkpoint
  UNION ALL
  SELECT 'subtrees', count(*), coalesce(sum(60), 0)::bigint,
         pg_total_relation_size('ledger.subtree') FROM ledger.subtree";

pub(super) fn volume(row: &Row) -> Result<Volume, StoreError> {
    let what = match row.text("what")?.as_str() {
        "entries" => "entries",
        "payloads" => "payloads",
        "checkpoints" => "checkpoints",
        _ => "subtrees",
    };
    let disk = Some(row.number("d")?);
    Ok(Volume { what, rows: row.number("n")?, bytes: row.number("b")?, disk })
}
