//! The writer's transactions, statement by statement, on the writing thread.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Params, Row, params};

use super::numbers::{call_key, entry_id, number, payload_id};
use super::result_codes::{at_commit, before_commit};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{
    AnchorRow, Batch, HeadRow, LeaseKey, LeaseRequest, Leased, PayloadRow, StoreError, Subtree,
};
use crate::record::{Entry, Kind};

/// Entries that wait for their line in `entry_call`: so many are read again by every look for a call
/// or a run.
const UNINDEXED_MAX: u64 = 1024;

/// Does this in one transaction, which holds the write lock from the beginning.
pub(super) fn transaction<T>(
    conn: &mut Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    run(conn, "BEGIN IMMEDIATE", [])?;
    match work(conn) {
        Ok(value) => {
            let commit = conn.prepare_cached("COMMIT");
            let committed = commit.and_then(|mut commit| commit.execute([]));
            committed.map(|_| value).map_err(|e| at_commit(&e))
        }
        // After a lost race the connection is kept, so its rollback must have worked.
        Err(error @ StoreError::Conflict(_)) => run(conn, "ROLLBACK", []).and(Err(error)),
        // Otherwise the connection is dropped, which rolls back too. SQLite may have rolled back
        // already; an error about that must not hide the cause.
        Err(error) => {
            let _ = run(conn, "ROLLBACK", []);
            Err(error)
        }
    }
}

/// Runs one statement: how many rows it changed.
pub(super) fn run(conn: &Connection, sql: &str, values: impl Params) -> Result<usize, StoreError> {
    let done = conn.prepare_cached(sql).and_then(|mut statement| statement.execute(values));
    done.map_err(|e| before_commit(&e))
}

/// The first row that a statement finds.
pub(super) fn first<T>(
    conn: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
) -> Result<Option<T>, StoreError> {
    let failed = |e: rusqlite::Error| before_commit(&e);
    let mut statement = conn.prepare_cached(sql).map_err(failed)?;
    let found = statement.query_row(values, |row| Ok(read(row)));
    found.optional().map_err(failed)?.transpose()
}

/// The chain of a lease, as its holder sees it.
pub(super) struct HeldChain {
    pub head: HeadRow,
    /// `chain.no`.
    pub no: i64,
    /// Entries in `entry_call`.
    pub indexed: u64,
}

/// The chain, if the key holds the lease.
pub(super) fn held(conn: &Connection, key: &LeaseKey) -> Result<HeldChain, StoreError> {
    let sql = "SELECT size, hash AS head_hash, frontier, checkpoint, indexed, no
                 FROM head h JOIN chain c ON c.chain_id = h.chain_id
                WHERE h.chain_id = ? AND epoch = ? AND secret_hash = ?";
    let values = params![key.chain.as_bytes(), number(key.epoch)?, hash(&key.secret)];
    let found = first(conn, sql, values, |row| {
        let (no, indexed) = (row.integer("no")?, row.number("indexed")?);
        Ok(HeldChain { head: row.head()?, no, indexed })
    })?;
    found.ok_or_else(|| StoreError::Conflict("the lease is lost".into()))
}

pub(super) fn hash(secret: &[u8; 32]) -> [u8; 32] {
    *Digest::of(&[secret]).as_bytes()
}

/// Takes the slot of this writer, else the lowest: the lock on the file proves its owner dead.
pub(super) fn take(conn: &Connection, request: &LeaseRequest) -> Result<Leased, StoreError> {
    let secret_hash = hash(&request.secret);
    let before = request.previous.as_ref().map(|key| hash(&key.secret));
    let sql = "SELECT c.chain_id,
                coalesce(h.secret_hash = ?2 OR (h.secret_hash = ?1 AND h.replaced = ?2), 0) AS same
           FROM chain c JOIN head h ON h.chain_id = c.chain_id
          WHERE tenant = ?3 AND pool = ?4 AND NOT retired
          ORDER BY h.secret_hash = ?1 DESC, coalesce(h.secret_hash = ?2, 0) DESC, slot LIMIT 1";
    let values = params![secret_hash, before, request.tenant, request.pool];
    let found = first(conn, sql, values, |row| Ok((row.chain_id()?, row.integer("same")? != 0)))?;
    let (chain, same_writer) = match found {
        Some((chain, same)) => {
            raise(conn, &chain, request)?;
            (chain, same)
        }
        None => (create(conn, request)?, false),
    };
    let sql = "SELECT c.chain_id, epoch, pool || '/' || slot AS slot, origin, size,
                hash AS head_hash, frontier, checkpoint
           FROM chain c JOIN head h ON h.chain_id = c.chain_id WHERE c.chain_id = ?";
    let leased = |row: &Row<'_>| row.leased(request.secret, same_writer);
    first(conn, sql, params![chain.as_bytes()], leased)?.ok_or_else(|| vanished(&chain))
}

fn raise(conn: &Connection, chain: &ChainId, request: &LeaseRequest) -> Result<(), StoreError> {
    let sql = "UPDATE head SET epoch = epoch + 1, writer = ?2,
                replaced = CASE WHEN secret_hash = ?3 THEN replaced ELSE secret_hash END,
                secret_hash = ?3 WHERE chain_id = ?1";
    run(conn, sql, params![chain.as_bytes(), request.writer, hash(&request.secret)]).map(drop)
}

fn create(conn: &Connection, request: &LeaseRequest) -> Result<ChainId, StoreError> {
    let id = request.chain.as_bytes();
    // The pool has no slot yet, so this is its first; a file never needs a second one.
    let sql = "INSERT INTO chain (chain_id, tenant, pool, slot, origin, no) VALUES (?1, ?2, ?3, 0,
           'wicketgate.dev/' || ?2 || '/' || CASE ?3 WHEN 'fleet' THEN 'fleet' ELSE ?3 || '/0/0' END,
           (SELECT coalesce(max(no) + 1, CASE ?3 WHEN 'fleet' THEN 0 ELSE 1 << 18 END) FROM chain
             WHERE (pool = 'fleet') = (?3 = 'fleet')))";
    run(conn, sql, params![id, request.tenant, request.pool])?;
    let prev = Entry::genesis_prev(&request.chain);
    let sql =
        "INSERT INTO head (chain_id, epoch, writer, secret_hash, size, hash, frontier, checkpoint)
               VALUES (?, 1, ?, ?, 0, ?, x'', '')";
    let secret = hash(&request.secret);
    run(conn, sql, params![id, request.writer, secret, prev.as_bytes()])?;
    Ok(request.chain)
}

pub(super) fn vanished(chain: &ChainId) -> StoreError {
    StoreError::Broken(format!("chain {chain} vanished"))
}

/// The compare-and-swap, and everything that becomes durable with it.
pub(super) fn write(
    conn: &Connection,
    key: &LeaseKey,
    expected: &HeadRow,
    batch: &Batch,
) -> Result<(), StoreError> {
    let now = held(conn, key)?;
    if now.head == batch.head {
        return Ok(());
    }
    if now.head.size != expected.size || now.head.hash != expected.hash {
        return Err(StoreError::Conflict("the head moved".into()));
    }
    insert_entries(conn, now.no, batch)?;
    insert_payloads(conn, now.no, &batch.payloads)?;
    insert_subtrees(conn, &key.chain, &batch.completed(expected))?;
    move_head(conn, key, &now, &batch.head)
}

/// Stores the new head, and indexes entries once enough of them wait.
pub(super) fn move_head(
    conn: &Connection,
    key: &LeaseKey,
    now: &HeldChain,
    head: &HeadRow,
) -> Result<(), StoreError> {
    let mut indexed = now.indexed;
    if head.size.saturating_sub(indexed) >= UNINDEXED_MAX {
        let sql = "INSERT INTO entry_call SELECT call, id FROM stored_entry
                    WHERE id >= ? AND id < ? AND call IS NOT NULL ORDER BY call, id";
        run(conn, sql, params![entry_id(now.no, indexed)?, entry_id(now.no, head.size)?])?;
        indexed = head.size;
    }
    let sql = "UPDATE head SET size = ?2, hash = ?3, frontier = ?4, checkpoint = ?5, indexed = ?6
                WHERE chain_id = ?1";
    let (size, indexed) = (number(head.size)?, number(indexed)?);
    let (chain, hash) = (key.chain.as_bytes(), head.hash.as_bytes());
    run(conn, sql, params![chain, size, hash, head.frontier, head.checkpoint, indexed]).map(drop)
}

/// Stores the entries, the last with the checkpoint of the batch.
pub(super) fn insert_entries(
    conn: &Connection,
    chain: i64,
    batch: &Batch,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO stored_entry (id, call, call_id, kind, leaf, prev, note, body)
               VALUES (?, ?, ?, ?, ?, ?, ?, ?)";
    let mut insert = conn.prepare_cached(sql).map_err(|e| before_commit(&e))?;
    let mut runs: BTreeMap<RunId, i64> = BTreeMap::new();
    let last = batch.entries.last().map(|entry| entry.seq);
    for entry in &batch.entries {
        let call = match &entry.run {
            Some(run) => {
                let no = run_number(conn, chain, run, &mut runs)?;
                mark_open(conn, no, &entry.kind)?;
                Some(call_key(no, entry.call.as_ref())?)
            }
            None => None,
        };
        let note = (Some(entry.seq) == last).then_some(&batch.head.checkpoint);
        let call_id = entry.call.as_ref().map(|call| call.as_str());
        let (leaf, prev) = (entry.leaf.as_bytes(), entry.prev.as_bytes());
        let id = entry_id(chain, entry.seq)?;
        let values = params![id, call, call_id, entry.kind, leaf, prev, note, entry.body];
        insert.execute(values).map_err(|e| before_commit(&e))?;
    }
    Ok(())
}

/// The number of a run, which its first entry gives it.
fn run_number(
    conn: &Connection,
    chain: i64,
    run_id: &RunId,
    known: &mut BTreeMap<RunId, i64>,
) -> Result<i64, StoreError> {
    if let Some(no) = known.get(run_id) {
        return Ok(*no);
    }
    let values = params![run_id.to_string(), chain];
    let sql = "SELECT no FROM run WHERE run_id = ? AND chain = ?";
    let no = match first(conn, sql, values, |row| row.integer("no"))? {
        Some(no) => no,
        None => {
            run(conn, "INSERT INTO run (run_id, chain) VALUES (?, ?)", values)?;
            conn.last_insert_rowid()
        }
    };
    known.insert(*run_id, no);
    Ok(no)
}

fn mark_open(conn: &Connection, run_no: i64, kind: &str) -> Result<(), StoreError> {
    let open = kind == Kind::RunOpened.as_str();
    if open || kind == Kind::RunSealed.as_str() {
        run(conn, "UPDATE run SET open = ? WHERE no = ?", params![open, run_no])?;
    }
    Ok(())
}

fn insert_payloads(
    conn: &Connection,
    chain: i64,
    payloads: &[(Seq, PayloadRow)],
) -> Result<(), StoreError> {
    let sql = "INSERT INTO stored_payload (id, commitment, salt, role, media_type, body)
               VALUES (?, ?, ?, ?, ?, ?)";
    let mut insert = conn.prepare_cached(sql).map_err(|e| before_commit(&e))?;
    let (mut entry, mut k) = (None, 0_usize);
    for (seq, row) in payloads {
        k = if entry == Some(*seq) { k.saturating_add(1) } else { 0 };
        entry = Some(*seq);
        let Some(id) = payload_id(entry_id(chain, *seq)?, k) else {
            insert_large(conn, chain, row)?;
            continue;
        };
        let PayloadRow { commitment, salt, role, media_type, body } = row;
        let values = params![id, commitment.as_bytes(), salt, role, media_type, body];
        insert.execute(values).map_err(|e| before_commit(&e))?;
    }
    Ok(())
}

/// Stores a payload by its commitment, unless it is there.
pub(super) fn insert_large(
    conn: &Connection,
    chain: i64,
    row: &PayloadRow,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO large_payload (chain, commitment, salt, role, media_type, body)
               SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE NOT EXISTS
                 (SELECT 1 FROM large_payload WHERE chain = ?1 AND commitment = ?2)";
    let PayloadRow { commitment, salt, role, media_type, body } = row;
    let values = params![chain, commitment.as_bytes(), salt, role, media_type, body];
    run(conn, sql, values).map(drop)
}

/// Stores these; existing ones stay.
fn insert_subtrees(conn: &Connection, chain: &ChainId, done: &[Subtree]) -> Result<(), StoreError> {
    for Subtree { node, hash } in done {
        let (height, index) = (i64::from(node.height), number(node.index)?);
        let values = params![chain.as_bytes(), height, index, hash.as_bytes()];
        run(conn, "INSERT OR IGNORE INTO subtree VALUES (?, ?, ?, ?)", values)?;
    }
    Ok(())
}

/// Keeps an anchor; replaces the one of the same size.
pub(super) fn put_anchor(
    conn: &Connection,
    key: &LeaseKey,
    anchor: &AnchorRow,
) -> Result<(), StoreError> {
    held(conn, key)?;
    let sql = "INSERT INTO anchor VALUES (?, ?, ?, ?)
               ON CONFLICT DO UPDATE SET note = excluded.note, tokens = excluded.tokens";
    let (size, tokens) = (number(anchor.size)?, anchor.tokens_text());
    run(conn, sql, params![key.chain.as_bytes(), size, anchor.note, tokens]).map(drop)
}
