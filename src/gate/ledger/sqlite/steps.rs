//! The writer's transactions, statement by statement.

use sqlx::QueryBuilder;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::{at_commit, before_commit, rows, subtrees};
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::ledger::fleet::POOL;
use crate::ledger::store::{
    Batch, EntryRow, HeadRow, LeaseKey, LeaseRequest, Leased, PayloadRow, StoreError,
};
use crate::record::{Entry, Kind};

/// Rows of one INSERT: few sizes, so that the cache of prepared statements holds them all.
const ROWS: [usize; 4] = [64, 16, 4, 1];

/// Starts a transaction that already holds the write lock.
pub(crate) async fn begin(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    run(sqlx::query("BEGIN IMMEDIATE"), conn).await
}

/// Commits a success and rolls back a failure.
pub(crate) async fn finish<T>(
    conn: &mut SqliteConnection,
    answer: Result<T, StoreError>,
) -> Result<T, StoreError> {
    match answer {
        Ok(value) => {
            let committed = sqlx::query("COMMIT").execute(conn).await;
            committed.map(|_| value).map_err(|e| at_commit(&e))
        }
        // After a lost race the connection is kept, so its rollback must have worked.
        Err(error @ StoreError::Conflict(_)) => {
            run(sqlx::query("ROLLBACK"), conn).await.and(Err(error))
        }
        // Otherwise the connection is dropped, which rolls back too. SQLite may have rolled back
        // already; an error about that must not hide the cause.
        Err(error) => {
            let _ = run(sqlx::query("ROLLBACK"), conn).await;
            Err(error)
        }
    }
}

pub(crate) type SqliteQuery<'q> =
    sqlx::query::Query<'q, sqlx::Sqlite, sqlx::sqlite::SqliteArguments>;

pub(crate) async fn run(
    query: SqliteQuery<'_>,
    conn: &mut SqliteConnection,
) -> Result<(), StoreError> {
    query.execute(conn).await.map(drop).map_err(|e| before_commit(&e))
}

/// The head row, if the key holds the lease.
pub(super) async fn held(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
) -> Result<SqliteRow, StoreError> {
    sqlx::query(
        "SELECT size, hash, frontier, checkpoint FROM head
          WHERE chain_id = ? AND epoch = ? AND secret_hash = ?",
    )
    .bind(key.chain.as_bytes().to_vec())
    .bind(rows::signed(key.epoch)?)
    .bind(hash(&key.secret))
    .fetch_optional(conn)
    .await
    .map_err(|e| before_commit(&e))?
    .ok_or_else(|| StoreError::Conflict("the lease is lost".into()))
}

pub(super) fn hash(secret: &[u8; 32]) -> Vec<u8> {
    Digest::of(&[secret]).as_bytes().to_vec()
}

/// The pool of the chain beside the fleet log; of the live chain, if others were retired.
pub(super) async fn pool(
    conn: &mut SqliteConnection,
    tenant: &str,
) -> Result<Option<String>, StoreError> {
    let found = sqlx::query(
        "SELECT pool FROM chain WHERE tenant = ?1 AND pool <> ?2 ORDER BY retired, slot, pool LIMIT 1",
    )
    .bind(tenant.to_owned())
    .bind(POOL)
    .fetch_optional(conn)
    .await
    .map_err(|e| before_commit(&e))?;
    found.map(|row| rows::get(&row, "pool")).transpose()
}

/// Takes the slot of this writer, else the lowest: the lock on the file proves its owner dead.
pub(super) async fn take(
    conn: &mut SqliteConnection,
    request: &LeaseRequest,
) -> Result<Leased, StoreError> {
    let mine = hash(&request.secret);
    let before = request.previous.as_ref().map(|key| hash(&key.secret));
    let found = sqlx::query(
        "SELECT c.chain_id,
                coalesce(h.secret_hash = ?2 OR (h.secret_hash = ?1 AND h.replaced = ?2), 0) AS same
           FROM chain c JOIN head h ON h.chain_id = c.chain_id
          WHERE tenant = ?3 AND pool = ?4 AND NOT retired
          ORDER BY h.secret_hash = ?1 DESC, coalesce(h.secret_hash = ?2, 0) DESC, slot LIMIT 1",
    )
    .bind(mine.clone())
    .bind(before)
    .bind(request.tenant.clone())
    .bind(request.pool.clone())
    .fetch_optional(&mut *conn)
    .await
    .map_err(|e| before_commit(&e))?;
    let (chain, same_writer) = match found {
        Some(row) => {
            let chain = rows::chain_id(&row)?;
            raise(conn, &chain, request).await?;
            (chain, rows::get::<i64>(&row, "same")? != 0)
        }
        None => (create(conn, request).await?, false),
    };
    leased(conn, chain, request, same_writer).await
}

async fn raise(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    request: &LeaseRequest,
) -> Result<(), StoreError> {
    let update = sqlx::query(
        "UPDATE head SET epoch = epoch + 1, writer = ?2,
                replaced = CASE WHEN secret_hash = ?3 THEN replaced ELSE secret_hash END,
                secret_hash = ?3 WHERE chain_id = ?1",
    )
    .bind(chain.as_bytes().to_vec())
    .bind(request.writer.clone())
    .bind(hash(&request.secret));
    run(update, conn).await
}

async fn create(
    conn: &mut SqliteConnection,
    request: &LeaseRequest,
) -> Result<ChainId, StoreError> {
    let id = request.chain.as_bytes().to_vec();
    // The pool has no slot yet, so this is its first; a file never needs a second one.
    let chain = sqlx::query(
        "INSERT INTO chain (chain_id, tenant, pool, slot, origin) VALUES (?1, ?2, ?3, 0,
           'wicketgate.dev/' || ?2 || '/' || CASE ?3 WHEN 'fleet' THEN 'fleet' ELSE ?3 || '/0/0' END)",
    )
    .bind(id.clone())
    .bind(request.tenant.clone())
    .bind(request.pool.clone());
    run(chain, conn).await?;
    let head = sqlx::query("INSERT INTO head VALUES (?, 1, ?, ?, NULL, 0, ?, x'', '')")
        .bind(id)
        .bind(request.writer.clone())
        .bind(hash(&request.secret))
        .bind(Entry::genesis_prev(&request.chain).as_bytes().to_vec());
    run(head, conn).await?;
    Ok(request.chain)
}

async fn leased(
    conn: &mut SqliteConnection,
    chain: ChainId,
    request: &LeaseRequest,
    same_writer: bool,
) -> Result<Leased, StoreError> {
    let row = sqlx::query(
        "SELECT epoch, pool || '/' || slot AS slot, origin, size, hash, frontier, checkpoint
           FROM chain c JOIN head h ON h.chain_id = c.chain_id WHERE c.chain_id = ?",
    )
    .bind(chain.as_bytes().to_vec())
    .fetch_one(conn)
    .await
    .map_err(|e| before_commit(&e))?;
    let epoch = rows::unsigned(rows::get(&row, "epoch")?)?;
    Ok(Leased {
        key: LeaseKey { chain, epoch, secret: request.secret },
        slot: rows::get(&row, "slot")?,
        origin: rows::get(&row, "origin")?,
        same_writer,
        head: rows::head(&row)?,
    })
}

/// The compare-and-swap, and everything that becomes durable with it.
pub(super) async fn write(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    expected: &HeadRow,
    batch: &Batch,
) -> Result<(), StoreError> {
    let now = rows::head(&held(conn, key).await?)?;
    if now == batch.head {
        return Ok(());
    }
    if now.size != expected.size || now.hash != expected.hash {
        return Err(StoreError::Conflict("the head moved".into()));
    }
    for rows in portions(&batch.entries) {
        insert_entries(conn, &key.chain, rows).await?;
    }
    for rows in portions(&batch.payloads) {
        insert_payloads(conn, &key.chain, rows).await?;
    }
    project(conn, &key.chain, &batch.entries).await?;
    subtrees::insert(conn, &key.chain, &batch.completed(expected)).await?;
    move_head(conn, key, &batch.head).await
}

/// Stores the new head, and its checkpoint among the kept ones.
pub(super) async fn move_head(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    head: &HeadRow,
) -> Result<(), StoreError> {
    let chain = key.chain.as_bytes().to_vec();
    let size = rows::signed(head.size)?;
    let checkpoint = sqlx::query("INSERT INTO checkpoint VALUES (?, ?, ?, ?)")
        .bind(chain.clone())
        .bind(size)
        .bind(rows::signed(key.epoch)?)
        .bind(head.checkpoint.clone());
    run(checkpoint, conn).await?;
    let update = sqlx::query(
        "UPDATE head SET size = ?2, hash = ?3, frontier = ?4, checkpoint = ?5 WHERE chain_id = ?1",
    )
    .bind(chain)
    .bind(size)
    .bind(head.hash.as_bytes().to_vec())
    .bind(head.frontier.clone())
    .bind(head.checkpoint.clone());
    run(update, conn).await
}

/// All rows in order, in portions of the sizes in [`ROWS`].
pub(super) fn portions<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = ROWS.into_iter().find(|size| *size <= rows.len())?;
        let (portion, rest) = rows.split_at(size);
        rows = rest;
        Some(portion)
    })
}

pub(super) async fn insert_entries(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    entries: &[EntryRow],
) -> Result<(), StoreError> {
    let mut insert = QueryBuilder::new(
        "INSERT INTO entry (chain_id, seq, leaf, prev, run_id, call_id, kind, body) ",
    );
    let entries = entries.iter().map(|e| Ok((rows::signed(e.seq)?, e)));
    let entries = entries.collect::<Result<Vec<_>, StoreError>>()?;
    insert.push_values(entries, |mut row, (seq, entry)| {
        row.push_bind(chain.as_bytes().to_vec())
            .push_bind(seq)
            .push_bind(entry.leaf.as_bytes().to_vec())
            .push_bind(entry.prev.as_bytes().to_vec())
            .push_bind(entry.run.map(|run| run.to_string()))
            .push_bind(entry.call.as_ref().map(ToString::to_string))
            .push_bind(entry.kind.clone())
            .push_bind(entry.body.clone());
    });
    run(insert.build(), conn).await
}

pub(super) async fn insert_payloads(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    payloads: &[PayloadRow],
) -> Result<(), StoreError> {
    let mut insert = QueryBuilder::new(
        "INSERT INTO payload (chain_id, commitment, salt, role, media_type, body) SELECT * FROM (",
    );
    insert.push_values(payloads, |mut row, payload| {
        row.push_bind(chain.as_bytes().to_vec())
            .push_bind(payload.commitment.as_bytes().to_vec())
            .push_bind(payload.salt.to_vec())
            .push_bind(payload.role.clone())
            .push_bind(payload.media_type.clone())
            .push_bind(payload.body.clone());
    });
    insert.push(
        ") WHERE NOT EXISTS
           (SELECT 1 FROM payload p WHERE p.chain_id = column1 AND p.commitment = column2)",
    );
    run(insert.build(), conn).await
}

/// Updates `open_run` with the entries.
async fn project(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    entries: &[EntryRow],
) -> Result<(), StoreError> {
    for entry in entries {
        let Some(run_id) = entry.run else { continue };
        let text = if entry.kind == Kind::RunOpened.as_str() {
            "INSERT OR IGNORE INTO open_run VALUES (?, ?)"
        } else if entry.kind == Kind::RunSealed.as_str() {
            "DELETE FROM open_run WHERE chain_id = ? AND run_id = ?"
        } else {
            continue;
        };
        let change = sqlx::query(text).bind(chain.as_bytes().to_vec()).bind(run_id.to_string());
        run(change, conn).await?;
    }
    Ok(())
}
