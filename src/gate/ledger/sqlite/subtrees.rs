//! Stored subtrees, and other rows that proofs and audits read in bulk.

use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::steps::run;
use super::{before_commit, rows, unreadable};
use crate::crypto::range::Node;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Seq};
use crate::ledger::store::{StoreError, Subtree, Volume};

/// Stores these; existing ones stay.
pub(super) async fn insert(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    done: &[Subtree],
) -> Result<(), StoreError> {
    for subtree in done {
        let insert = sqlx::query("INSERT OR IGNORE INTO subtree VALUES (?, ?, ?, ?)")
            .bind(chain.as_bytes().to_vec())
            .bind(i64::from(subtree.node.height))
            .bind(rows::signed(subtree.node.index)?)
            .bind(subtree.hash.as_bytes().to_vec());
        run(insert, conn).await?;
    }
    Ok(())
}

/// Stored subtrees of a height, ascending.
pub(super) async fn read(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    height: u32,
    from: u64,
    to: u64,
) -> Result<Vec<Subtree>, StoreError> {
    let found = sqlx::query(
        "SELECT idx, hash FROM subtree WHERE chain_id = ? AND height = ? AND idx >= ? AND idx < ?
          ORDER BY idx",
    )
    .bind(chain.as_bytes().to_vec())
    .bind(i64::from(height))
    .bind(rows::signed(from)?)
    .bind(rows::signed(to)?)
    .fetch_all(conn)
    .await
    .map_err(|e| before_commit(&e))?;
    let subtree = |row: &SqliteRow| {
        let index = rows::unsigned(rows::get(row, "idx")?)?;
        Ok(Subtree { node: Node { height, index }, hash: rows::digest(row, "hash")? })
    };
    found.iter().map(subtree).collect()
}

/// Leaf hashes of the stored entries, ascending.
pub(super) async fn leaves(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    from: Seq,
    to: Seq,
) -> Result<Vec<(Seq, Digest)>, StoreError> {
    let found = sqlx::query(
        "SELECT seq, leaf FROM entry WHERE chain_id = ? AND seq >= ? AND seq < ? ORDER BY seq",
    )
    .bind(chain.as_bytes().to_vec())
    .bind(rows::signed(from)?)
    .bind(rows::signed(to)?)
    .fetch_all(conn)
    .await
    .map_err(|e| before_commit(&e))?;
    let leaf =
        |row: &SqliteRow| Ok((rows::unsigned(rows::get(row, "seq")?)?, rows::digest(row, "leaf")?));
    found.iter().map(leaf).collect()
}

/// Stored checkpoints, ascending.
pub(super) async fn checkpoints(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    at_least: Seq,
    limit: u32,
) -> Result<Vec<(Seq, String)>, StoreError> {
    let found = sqlx::query(
        "SELECT size, note FROM checkpoint WHERE chain_id = ? AND size >= ? ORDER BY size LIMIT ?",
    )
    .bind(chain.as_bytes().to_vec())
    .bind(rows::signed(at_least)?)
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await
    .map_err(|e| before_commit(&e))?;
    let row =
        |row: &SqliteRow| Ok((rows::unsigned(rows::get(row, "size")?)?, rows::get(row, "note")?));
    found.iter().map(row).collect()
}

/// Counts the stored rows; the size of the file is listed with the entries.
pub(super) async fn volumes(conn: &mut SqliteConnection) -> Result<Vec<Volume>, StoreError> {
    const COUNTS: [(&str, &str); 4] = [
        (
            "entries",
            "SELECT count(*) AS n, coalesce(sum(length(body) + 80 + coalesce(length(run_id), 0)
               + coalesce(length(call_id), 0) + length(kind)), 0) AS b FROM entry",
        ),
        (
            "payloads",
            "SELECT count(*) AS n, coalesce(sum(length(body) + 80 + length(role)
               + length(media_type)), 0) AS b FROM payload",
        ),
        (
            "checkpoints",
            "SELECT count(*) AS n, coalesce(sum(length(note) + 32), 0) AS b FROM checkpoint",
        ),
        ("subtrees", "SELECT count(*) AS n, coalesce(sum(length(hash) + 28), 0) AS b FROM subtree"),
    ];
    let mut found = Vec::new();
    for (what, text) in COUNTS {
        let row = sqlx::query(text).fetch_one(&mut *conn).await.map_err(|e| before_commit(&e))?;
        let number = |name| rows::unsigned(rows::get(&row, name)?);
        found.push(Volume { what, rows: number("n")?, bytes: number("b")?, disk: None });
    }
    let mut disk = 1_i64;
    for pragma in ["PRAGMA page_count", "PRAGMA page_size"] {
        let row = sqlx::query(pragma).fetch_one(&mut *conn).await.map_err(|e| before_commit(&e))?;
        disk = disk.saturating_mul(row.try_get(0).map_err(|e| unreadable(&e))?);
    }
    let file = Volume { what: "file", rows: 0, bytes: 0, disk: Some(rows::unsigned(disk)?) };
    found.push(file);
    Ok(found)
}
