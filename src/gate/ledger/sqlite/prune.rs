//! Drops the entries of a recorded pruning, a portion at a time.

use rusqlite::{Connection, params};

use super::numbers::{entry_id, number};
use super::steps::{first, run, vanished};
use crate::domain::id::Seq;
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{KEPT, Pruning, StoreError};

/// Entries of one transaction: a multiple of 256.
const PORTION: u64 = 2048;

/// Stores the place of the record in the fleet log; a trigger refuses if it is not there.
pub(super) fn record(conn: &Connection, pruning: &Pruning) -> Result<(), StoreError> {
    let sql = "INSERT INTO pruned SELECT ?1, ?2, ?3, ?4, ?5
          WHERE NOT EXISTS (SELECT 1 FROM pruned WHERE chain_id = ?1 AND low = ?2 AND high = ?3)";
    let (from, to, entry) = (number(pruning.from)?, number(pruning.to)?, number(pruning.entry)?);
    let values = params![pruning.chain.as_bytes(), from, to, pruning.fleet.as_bytes(), entry];
    run(conn, sql, values).map(drop)
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
pub(super) fn portion(
    conn: &Connection,
    pruning: &Pruning,
    (from, to): (Seq, Seq),
) -> Result<u64, StoreError> {
    let kept = format!("('{}')", KEPT.join("', '"));
    let chain = pruning.chain.as_bytes();
    let sql = "SELECT no FROM chain WHERE chain_id = ?";
    let no = first(conn, sql, params![chain], |row| row.integer("no"))?;
    let no = no.ok_or_else(|| vanished(&pruning.chain))?;
    let (low, high) = (entry_id(no, from)?, entry_id(no, to)?);
    let leaves = format!(
        "INSERT OR IGNORE INTO subtree SELECT ?3, 0, id & 1099511627775, leaf FROM stored_entry
          WHERE id >= ?1 AND id < ?2 AND id >> 8 IN (
            SELECT id >> 8 FROM stored_entry WHERE id >= ?1 AND id < ?2 AND kind IN {kept})"
    );
    run(conn, &leaves, params![low, high, chain])?;
    run(conn, "DELETE FROM stored_payload WHERE id >= ?1 << 4 AND id < ?2 << 4", [low, high])?;
    let large = "DELETE FROM large_payload WHERE chain = ?1 >> 40 AND commitment IN (
           SELECT unhex(json_extract(c.value, '$.c')) FROM stored_entry e,
                  json_each(coalesce(json_extract(CAST(e.body AS TEXT), '$.commit'), '[]')) c
            WHERE e.id >= ?1 AND e.id < ?2)";
    run(conn, large, [low, high])?;
    thin(conn, (low, high), &kept)?;
    let lines = format!(
        "DELETE FROM entry_call WHERE (call, id) IN (
           SELECT call, id FROM stored_entry
            WHERE id >= ?1 AND id < ?2 AND call IS NOT NULL AND kind NOT IN {kept})"
    );
    run(conn, &lines, [low, high])?;
    // A run without entries is not in the ledger any more; the entries that stay and are not indexed
    // yet are looked through.
    let runs = format!("DELETE FROM run WHERE NOT open
           AND no IN (SELECT call >> 32 FROM stored_entry WHERE id >= ?1 AND id < ?2)
           AND NOT EXISTS (SELECT 1 FROM entry_call i WHERE i.call >= no << 32 AND i.call < (no + 1) << 32)
           AND no NOT IN (SELECT e.call >> 32 FROM head h JOIN stored_entry e
                             ON e.id >= (?1 >> 40 << 40) + h.indexed AND e.id < ((?1 >> 40) + 1) << 40
                           WHERE h.chain_id = ?3 AND e.call IS NOT NULL
                             AND NOT (e.id >= ?1 AND e.id < ?2 AND e.kind NOT IN {kept}))");
    run(conn, &runs, params![low, high, chain])?;
    let entries =
        format!("DELETE FROM stored_entry WHERE id >= ?1 AND id < ?2 AND kind NOT IN {kept}");
    let gone = run(conn, &entries, [low, high])?;
    Ok(u64::try_from(gone).unwrap_or(u64::MAX))
}

/// Moves the checkpoints that stay beside their entries: the last of each epoch, and those that the
/// fleet log has recorded. The others go.
fn thin(conn: &Connection, (low, high): (i64, i64), kept_kinds: &str) -> Result<(), StoreError> {
    let staying = "WITH noted AS (
        SELECT id, json_extract(CAST(body AS TEXT), '$.epoch') AS epoch FROM stored_entry
         WHERE id >= ?1 AND id < ?2 AND note IS NOT NULL
        UNION ALL
        SELECT * FROM (SELECT id, json_extract(CAST(body AS TEXT), '$.epoch') FROM stored_entry
         WHERE id >= ?2 AND id < ((?2 - 1 >> 40) + 1) << 40 AND note IS NOT NULL ORDER BY id LIMIT 1)),
      following AS (SELECT id, epoch, lead(epoch) OVER (ORDER BY id) AS next FROM noted),
      recorded AS (
        SELECT json_extract(CAST(e.body AS TEXT), '$.data.size') AS size FROM chain c
          JOIN chain f ON f.tenant = c.tenant AND f.pool = 'fleet'
          JOIN stored_entry e ON e.kind = 'chain.checkpoint' AND e.call IS NULL AND e.id >> 40 = f.no
         WHERE c.no = ?1 >> 40 AND json_extract(CAST(e.body AS TEXT), '$.data.log') = c.origin),
      staying AS (SELECT id, epoch FROM following
         WHERE id < ?2 AND (epoch IS NOT next OR (id & 1099511627775) + 1 IN (SELECT size FROM recorded)))";
    let keep = format!(
        "{staying} INSERT INTO kept_checkpoint
         SELECT e.id >> 40, (e.id & 1099511627775) + 1, coalesce(s.epoch, 0), e.note
           FROM staying s JOIN stored_entry e ON e.id = s.id WHERE e.kind NOT IN {kept_kinds}"
    );
    run(conn, &keep, [low, high])?;
    let clear = format!(
        "{staying} UPDATE stored_entry SET note = NULL WHERE id >= ?1 AND id < ?2
            AND note IS NOT NULL AND kind IN {kept_kinds} AND id NOT IN (SELECT id FROM staying)"
    );
    run(conn, &clear, [low, high]).map(drop)
}
