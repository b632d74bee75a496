//! Statements about the fleet log: its entries about a log, its stored anchors, and restarted
//! chains.

use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::rows::{ENTRY, sql};
use super::steps;
use super::steps::{held, insert_entries, portions};
use crate::domain::id::{ChainId, Seq};
use crate::ledger::fleet::POOL;
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{AnchorRow, EntryRow, FleetView, LeaseKey, Restart, StoreError};

/// Newest first, over all fleet logs of the tenant. A log's name needs no escapes, so an entry
/// contains it unchanged.
const SAID: &str =
    "WHERE chain_id IN (SELECT chain_id FROM chain WHERE tenant = ?1 AND pool = 'fleet')
     AND run_id IS NULL AND kind = ?2 AND instr(body, CAST(?3 AS BLOB)) > 0
   ORDER BY (SELECT n FROM chain c WHERE c.chain_id = entry.chain_id) DESC, seq DESC LIMIT 1";

/// The newest entry of this kind about a log.
pub(super) async fn newest_about(
    conn: &mut SqliteConnection,
    tenant: &str,
    log: &str,
    kind: &str,
) -> Result<Option<EntryRow>, StoreError> {
    let query = sql(AssertSqlSafe(format!("{ENTRY} {SAID}"))).text(tenant).text(kind);
    let found = query.text(&format!("\"log\":\"{log}\"")).maybe(conn).await?;
    found.as_ref().map(DatabaseRow::entry).transpose()
}

async fn chain(conn: &mut SqliteConnection, id: &ChainId) -> Result<Option<SqliteRow>, StoreError> {
    let query = sql("SELECT tenant, pool, slot, n, origin FROM chain WHERE chain_id = ?");
    query.bytes(id.as_bytes()).maybe(conn).await
}

pub(super) async fn view(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    before: Option<&ChainId>,
) -> Result<FleetView, StoreError> {
    let Some(own) = chain(conn, &key.chain).await? else {
        return Err(StoreError::Broken(format!("chain {} vanished", key.chain)));
    };
    let (tenant, log) = (own.text("tenant")?, own.text("origin")?);
    let forgotten = match before {
        Some(id) => chain(conn, id).await?.is_none(),
        None => false,
    };
    let fleet = sql("SELECT origin, size FROM chain c JOIN head h ON h.chain_id = c.chain_id
          WHERE tenant = ? AND pool = ? AND NOT retired");
    let fleet = match fleet.text(&tenant).text(POOL).maybe(conn).await? {
        Some(row) => Some((row.text("origin")?, row.number("size")?)),
        None => None,
    };
    let mut found = Vec::new();
    for kind in ["chain.enrolled", "chain.checkpoint", "chain.retired"] {
        found.extend(newest_about(conn, &tenant, &log, kind).await?.map(|row| row.body));
    }
    Ok(FleetView { fleet, forgotten, entries: found })
}

/// Anchors of a log, ascending or newest first.
pub(super) async fn anchors(
    conn: &mut SqliteConnection,
    origin: &str,
    from: Seq,
    limit: u32,
    newest: bool,
) -> Result<Vec<AnchorRow>, StoreError> {
    let order = if newest { "DESC" } else { "ASC" };
    let text = format!(
        "SELECT size, note, tokens FROM anchor a JOIN chain c ON c.chain_id = a.chain_id
          WHERE origin = ? AND size >= ? ORDER BY size {order} LIMIT ?"
    );
    let query = sql(AssertSqlSafe(text)).text(origin).number(from).number(limit.into());
    query.all(conn).await?.iter().map(DatabaseRow::anchor).collect()
}

/// Retires the chain and begins the next one of its slot; an empty chain takes the next name.
pub(super) async fn restart(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    next: &Restart,
) -> Result<(), StoreError> {
    let head = held(conn, key).await?.head()?;
    let old = chain(conn, &key.chain).await?;
    let old = old.ok_or_else(|| StoreError::Broken(format!("chain {} vanished", key.chain)))?;
    let in_place = next.key.chain == key.chain;
    let same = next.key == *key && head.size == 0;
    if old.number("n")? >= next.n || (in_place && !same) {
        return Err(StoreError::Unavailable("malformed restart".into()));
    }
    let id = next.key.chain.as_bytes();
    if in_place {
        let rename = sql("UPDATE chain SET n = ?2, origin = ?3 WHERE chain_id = ?1");
        rename.bytes(id).number(next.n).text(&next.origin).run(conn).await?;
    } else {
        let before = key.chain.as_bytes();
        let retire = sql("UPDATE chain SET retired = 1 WHERE chain_id = ?");
        retire.bytes(before).run(conn).await?;
        let fence = sql("UPDATE head SET epoch = epoch + 1 WHERE chain_id = ?");
        fence.bytes(before).run(conn).await?;
        let make = sql("INSERT INTO chain (chain_id, tenant, pool, slot, origin, n)
             SELECT ?2, tenant, pool, slot, ?3, ?4 FROM chain WHERE chain_id = ?1");
        make.bytes(before).bytes(id).text(&next.origin).number(next.n).run(conn).await?;
        let first = sql(
            "INSERT INTO head SELECT ?2, ?3, writer, ?4, NULL, 0, ?5, x'', '' FROM head WHERE chain_id = ?1",
        );
        let first = first.bytes(before).bytes(id).number(next.key.epoch);
        let prev = crate::record::Entry::genesis_prev(&next.key.chain);
        let first = first.bytes(&steps::hash(&next.key.secret)).bytes(prev.as_bytes());
        first.run(conn).await?;
    }
    let empty = held(conn, &next.key).await?.head()?;
    next.batch.check(&empty)?;
    for rows in portions(&next.batch.entries) {
        insert_entries(conn, &next.key.chain, rows).await?;
    }
    steps::move_head(conn, &next.key, &next.batch.head).await
}
