//! Drops the entries of a recorded pruning, a portion at a time.

use sqlx::sqlite::SqliteConnection;

use super::rows::sql;
use crate::domain::id::Seq;
use crate::ledger::store::{Pruning, StoreError};

/// Entries of one transaction: a multiple of 256.
const PORTION: u64 = 2048;

/// Stores the place of the record in the fleet log; a trigger refuses if it is not there.
pub(super) async fn record(
    conn: &mut SqliteConnection,
    pruning: &Pruning,
) -> Result<(), StoreError> {
    let insert = sql("INSERT INTO pruned SELECT ?1, ?2, ?3, ?4, ?5
          WHERE NOT EXISTS (SELECT 1 FROM pruned WHERE chain_id = ?1 AND low = ?2 AND high = ?3)");
    let insert = insert.bytes(pruning.chain.as_bytes()).number(pruning.from).number(pruning.to);
    insert.bytes(pruning.fleet.as_bytes()).number(pruning.entry).run(conn).await
}

/// The portions of a pruning.
pub(super) fn portions(pruning: &Pruning) -> impl Iterator<Item = (Seq, Seq)> + use<> {
    let (mut from, to) = (pruning.from, pruning.to);
    std::iter::from_fn(move || {
        if from >= to {
            return None;
        }
        let first = from;
        // Every portion ends at the end of a tile.
        from = (first / PORTION).saturating_add(1).saturating_mul(PORTION).min(to);
        Some((first, from))
    })
}

/// Drops one portion, and thins its checkpoints; returns how many entries it dropped.
pub(super) async fn portion(
    conn: &mut SqliteConnection,
    pruning: &Pruning,
    from: Seq,
    to: Seq,
) -> Result<u64, StoreError> {
    const KEPT: &str = "('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed')";
    let texts = [
        format!(
            "INSERT OR IGNORE INTO subtree SELECT chain_id, 0, seq, leaf FROM entry
              WHERE chain_id = ?1 AND seq >= ?2 AND seq < ?3 AND seq / 256 IN (
                SELECT seq / 256 FROM entry WHERE chain_id = ?1 AND seq >= ?2 AND seq < ?3
                   AND kind IN {KEPT})"
        ),
        "DELETE FROM payload WHERE chain_id = ?1 AND hex(commitment) IN (
           SELECT upper(json_extract(c.value, '$.c')) FROM entry e,
                  json_each(coalesce(json_extract(CAST(e.body AS TEXT), '$.commit'), '[]')) c
            WHERE e.chain_id = ?1 AND e.seq >= ?2 AND e.seq < ?3)"
            .to_owned(),
        "DELETE FROM checkpoint WHERE chain_id = ?1 AND size > ?2 AND size <= ?3
            AND size < (SELECT max(c.size) FROM checkpoint c
                         WHERE c.chain_id = ?1 AND c.epoch = checkpoint.epoch)
            AND size NOT IN (
              SELECT json_extract(CAST(e.body AS TEXT), '$.data.size') FROM chain c
                JOIN chain f ON f.tenant = c.tenant AND f.pool = 'fleet'
                JOIN entry e ON e.chain_id = f.chain_id AND e.kind = 'chain.checkpoint'
               WHERE c.chain_id = ?1 AND json_extract(CAST(e.body AS TEXT), '$.data.log') = c.origin)"
            .to_owned(),
        format!(
            "DELETE FROM entry WHERE chain_id = ?1 AND seq >= ?2 AND seq < ?3 AND kind NOT IN {KEPT}"
        ),
    ];
    let mut gone = 0;
    for text in texts {
        let query = sql(sqlx::AssertSqlSafe(text)).bytes(pruning.chain.as_bytes());
        gone = query.number(from).number(to).count(conn).await?;
    }
    Ok(gone)
}
