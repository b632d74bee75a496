//! Retires a chain and begins the next one of its slot.

use rusqlite::{Connection, params};

use super::numbers::number;
use super::steps::{first, hash, held, insert_entries, move_head, run, vanished};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{LeaseKey, Restart, StoreError};
use crate::record::Entry;

/// Retires the chain and begins the next one of its slot; an empty chain takes the next name.
pub(super) fn restart(conn: &Connection, key: &LeaseKey, next: &Restart) -> Result<(), StoreError> {
    let head = held(conn, key)?.head;
    let before = key.chain.as_bytes();
    let sql = "SELECT n FROM chain WHERE chain_id = ?";
    let n = first(conn, sql, params![before], |row| row.number("n"))?;
    let n = n.ok_or_else(|| vanished(&key.chain))?;
    let in_place = next.key.chain == key.chain;
    let same = next.key == *key && head.size == 0;
    if n >= next.n || (in_place && !same) {
        return Err(StoreError::Unavailable("malformed restart".into()));
    }
    let (id, next_n) = (next.key.chain.as_bytes(), number(next.n)?);
    if in_place {
        let sql = "UPDATE chain SET n = ?2, origin = ?3 WHERE chain_id = ?1";
        run(conn, sql, params![id, next_n, next.origin])?;
    } else {
        run(conn, "UPDATE chain SET retired = 1 WHERE chain_id = ?", params![before])?;
        run(conn, "UPDATE head SET epoch = epoch + 1 WHERE chain_id = ?", params![before])?;
        let sql = "INSERT INTO chain (chain_id, tenant, pool, slot, origin, n, no)
             SELECT ?2, tenant, pool, slot, ?3, ?4, (SELECT max(o.no) + 1 FROM chain o
                 WHERE (o.pool = 'fleet') = (chain.pool = 'fleet'))
               FROM chain WHERE chain_id = ?1";
        run(conn, sql, params![before, id, next.origin, next_n])?;
        let sql = "INSERT INTO head (chain_id, epoch, writer, secret_hash, size, hash, frontier, checkpoint)
             SELECT ?2, ?3, writer, ?4, 0, ?5, x'', '' FROM head WHERE chain_id = ?1";
        let prev = Entry::genesis_prev(&next.key.chain);
        let (epoch, secret) = (number(next.key.epoch)?, hash(&next.key.secret));
        run(conn, sql, params![before, id, epoch, secret, prev.as_bytes()])?;
    }
    let empty = held(conn, &next.key)?;
    next.batch.check(&empty.head)?;
    insert_entries(conn, empty.no, &next.batch)?;
    move_head(conn, &next.key, &empty, &next.batch.head)
}
