//! The writer's transactions, statement by statement.

use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::rows::{Statement, sql};
use super::{at_commit, subtrees};
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::ledger::fleet::POOL;
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{
    Batch, EntryRow, HeadRow, LeaseKey, LeaseRequest, Leased, PayloadRow, StoreError,
};
use crate::record::{Entry, Kind};

/// Rows of one INSERT: few sizes, so that the cache of prepared statements holds them all.
const ROWS: [usize; 4] = [64, 16, 4, 1];

/// Starts a transaction that already holds the write lock.
pub(crate) async fn begin(conn: &mut SqliteConnection) -> Result<(), StoreError> {
    sql("BEGIN IMMEDIATE").run(conn).await
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
        Err(error @ StoreError::Conflict(_)) => sql("ROLLBACK").run(conn).await.and(Err(error)),
        // Otherwise the connection is dropped, which rolls back too. SQLite may have rolled back
        // already; an error about that must not hide the cause.
        Err(error) => {
            let _ = sql("ROLLBACK").run(conn).await;
            Err(error)
        }
    }
}

/// The head row, if the key holds the lease.
pub(super) async fn held(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
) -> Result<SqliteRow, StoreError> {
    let query = sql("SELECT size, hash AS head_hash, frontier, checkpoint FROM head
                      WHERE chain_id = ? AND epoch = ? AND secret_hash = ?");
    let query = query.bytes(key.chain.as_bytes()).number(key.epoch).bytes(&hash(&key.secret));
    let found = query.maybe(conn).await?;
    found.ok_or_else(|| StoreError::Conflict("the lease is lost".into()))
}

pub(super) fn hash(secret: &[u8; 32]) -> [u8; 32] {
    *Digest::of(&[secret]).as_bytes()
}

/// The pool of the chain beside the fleet log; of the live chain, if others were retired.
pub(super) async fn pool(
    conn: &mut SqliteConnection,
    tenant: &str,
) -> Result<Option<String>, StoreError> {
    let query = sql(
        "SELECT pool FROM chain WHERE tenant = ?1 AND pool <> ?2 ORDER BY retired, slot, pool LIMIT 1",
    );
    let found = query.text(tenant).text(POOL).maybe(conn).await?;
    found.map(|row| row.text("pool")).transpose()
}

/// Takes the slot of this writer, else the lowest: the lock on the file proves its owner dead.
pub(super) async fn take(
    conn: &mut SqliteConnection,
    request: &LeaseRequest,
) -> Result<Leased, StoreError> {
    let secret_hash = hash(&request.secret);
    let before = request.previous.as_ref().map(|key| hash(&key.secret));
    let query = sql("SELECT c.chain_id,
                coalesce(h.secret_hash = ?2 OR (h.secret_hash = ?1 AND h.replaced = ?2), 0) AS same
           FROM chain c JOIN head h ON h.chain_id = c.chain_id
          WHERE tenant = ?3 AND pool = ?4 AND NOT retired
          ORDER BY h.secret_hash = ?1 DESC, coalesce(h.secret_hash = ?2, 0) DESC, slot LIMIT 1");
    let query = query.bytes(&secret_hash).maybe_bytes(before.as_ref().map(<[u8; 32]>::as_slice));
    let found = query.text(&request.tenant).text(&request.pool).maybe(conn).await?;
    let (chain, same_writer) = match found {
        Some(row) => {
            let chain = row.chain_id()?;
            raise(conn, &chain, request).await?;
            (chain, row.integer("same")? != 0)
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
    let update = sql("UPDATE head SET epoch = epoch + 1, writer = ?2,
                replaced = CASE WHEN secret_hash = ?3 THEN replaced ELSE secret_hash END,
                secret_hash = ?3 WHERE chain_id = ?1");
    let update = update.bytes(chain.as_bytes()).text(&request.writer);
    update.bytes(&hash(&request.secret)).run(conn).await
}

async fn create(
    conn: &mut SqliteConnection,
    request: &LeaseRequest,
) -> Result<ChainId, StoreError> {
    let id = request.chain.as_bytes();
    // The pool has no slot yet, so this is its first; a file never needs a second one.
    let chain = sql(
        "INSERT INTO chain (chain_id, tenant, pool, slot, origin) VALUES (?1, ?2, ?3, 0,
           'wicketgate.dev/' || ?2 || '/' || CASE ?3 WHEN 'fleet' THEN 'fleet' ELSE ?3 || '/0/0' END)",
    );
    chain.bytes(id).text(&request.tenant).text(&request.pool).run(conn).await?;
    let head = sql("INSERT INTO head VALUES (?, 1, ?, ?, NULL, 0, ?, x'', '')");
    let head = head.bytes(id).text(&request.writer).bytes(&hash(&request.secret));
    head.bytes(Entry::genesis_prev(&request.chain).as_bytes()).run(conn).await?;
    Ok(request.chain)
}

async fn leased(
    conn: &mut SqliteConnection,
    chain: ChainId,
    request: &LeaseRequest,
    same_writer: bool,
) -> Result<Leased, StoreError> {
    let query = sql(
        "SELECT c.chain_id, epoch, pool || '/' || slot AS slot, origin, size, hash AS head_hash,
                frontier, checkpoint
           FROM chain c JOIN head h ON h.chain_id = c.chain_id WHERE c.chain_id = ?",
    );
    query.bytes(chain.as_bytes()).one(conn).await?.leased(request.secret, same_writer)
}

/// The compare-and-swap, and everything that becomes durable with it.
pub(super) async fn write(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    expected: &HeadRow,
    batch: &Batch,
) -> Result<(), StoreError> {
    let now = held(conn, key).await?.head()?;
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
    let (chain, note) = (key.chain.as_bytes(), &head.checkpoint);
    let checkpoint = sql("INSERT INTO checkpoint VALUES (?, ?, ?, ?)");
    let checkpoint = checkpoint.bytes(chain).number(head.size).number(key.epoch);
    checkpoint.text(note).run(conn).await?;
    let update = sql(
        "UPDATE head SET size = ?2, hash = ?3, frontier = ?4, checkpoint = ?5 WHERE chain_id = ?1",
    );
    let update = update.bytes(chain).number(head.size).bytes(head.hash.as_bytes());
    update.bytes(&head.frontier).text(note).run(conn).await
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
    let rows = vec!["(?, ?, ?, ?, ?, ?, ?, ?)"; entries.len()].join(", ");
    let insert = sql(AssertSqlSafe(format!(
        "INSERT INTO entry (chain_id, seq, leaf, prev, run_id, call_id, kind, body) VALUES {rows}"
    )));
    let row = |insert: Statement, entry: &EntryRow| {
        let insert = insert.bytes(chain.as_bytes()).number(entry.seq);
        let insert = insert.bytes(entry.leaf.as_bytes()).bytes(entry.prev.as_bytes());
        let insert = insert.maybe_text(entry.run.map(|run| run.to_string()));
        let insert = insert.maybe_text(entry.call.as_ref().map(ToString::to_string));
        insert.text(&entry.kind).bytes(&entry.body)
    };
    entries.iter().fold(insert, row).run(conn).await
}

pub(super) async fn insert_payloads(
    conn: &mut SqliteConnection,
    chain: &ChainId,
    payloads: &[PayloadRow],
) -> Result<(), StoreError> {
    let rows = vec!["(?, ?, ?, ?, ?, ?)"; payloads.len()].join(", ");
    let insert = sql(AssertSqlSafe(format!(
        "INSERT INTO payload (chain_id, commitment, salt, role, media_type, body)
         SELECT * FROM (VALUES {rows}) WHERE NOT EXISTS
           (SELECT 1 FROM payload p WHERE p.chain_id = column1 AND p.commitment = column2)"
    )));
    let row = |insert: Statement, payload: &PayloadRow| {
        let insert = insert.bytes(chain.as_bytes()).bytes(payload.commitment.as_bytes());
        let insert = insert.bytes(&payload.salt).text(&payload.role);
        insert.text(&payload.media_type).bytes(&payload.body)
    };
    payloads.iter().fold(insert, row).run(conn).await
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
        sql(text).bytes(chain.as_bytes()).text(&run_id.to_string()).run(conn).await?;
    }
    Ok(())
}
