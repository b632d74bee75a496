//! Stored subtrees and what else proofs and audits read in bulk.

use sqlx::postgres::PgRow;

use super::literal::{bytes, bytes_array};
use super::rows;
use crate::crypto::range::Node;
use crate::domain::id::{ChainId, Seq};
use crate::ledger::store::{StoreError, Subtree, Volume};

/// The statement that keeps these, to follow an append.
pub(super) fn put(shown: &str, done: &[Subtree]) -> String {
    let list = |each: &dyn Fn(&Subtree) -> String| {
        done.iter().map(each).collect::<Vec<String>>().join(",")
    };
    format!(
        "; SELECT ledger.put_subtrees({shown}, '{{{}}}', '{{{}}}', {})",
        list(&|s| s.node.height.to_string()),
        list(&|s| s.node.index.to_string()),
        bytes_array(done.iter().map(|s| s.hash.as_bytes().as_slice())),
    )
}

pub(super) fn select(chain: &ChainId, height: u32, from: u64, to: u64) -> String {
    format!(
        "SELECT idx, hash FROM ledger.subtree WHERE chain_id = {} AND height = {height}
            AND idx >= {from} AND idx < {to} ORDER BY idx",
        bytes(chain.as_bytes()),
    )
}

pub(super) fn read(row: &PgRow, height: u32) -> Result<Subtree, StoreError> {
    let node = Node { height, index: rows::number(row, "idx")? };
    Ok(Subtree { node, hash: rows::digest(row, "hash")? })
}

pub(super) fn select_leaves(chain: &ChainId, from: Seq, to: Seq) -> String {
    format!(
        "SELECT seq, leaf_hash FROM ledger.entry WHERE chain_id = {} AND seq >= {from} AND seq < {to}
          ORDER BY seq",
        bytes(chain.as_bytes()),
    )
}

/// What is there, counted, with the space of tables and indexes.
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

pub(super) fn volume(row: &PgRow) -> Result<Volume, StoreError> {
    let what: String = rows::get(row, "what")?;
    let what = match what.as_str() {
        "entries" => "entries",
        "payloads" => "payloads",
        "checkpoints" => "checkpoints",
        _ => "subtrees",
    };
    let disk = Some(rows::number(row, "d")?);
    Ok(Volume { what, rows: rows::number(row, "n")?, bytes: rows::number(row, "b")?, disk })
}
