//! Statements about the fleet log: its entries about a log, and its stored anchors.

use sqlx::AssertSqlSafe;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::rows::{ENTRY, sql};
use crate::domain::id::{ChainId, Seq};
use crate::ledger::fleet::POOL;
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{AnchorRow, EntryRow, FleetView, LeaseKey, StoreError};

/// Newest first, over all fleet logs of the tenant. A log's name needs no escapes, so an entry
/// contains it unchanged.
const SAID: &str = "JOIN chain c ON c.no = e.id >> 40 AND c.tenant = ?1 AND c.pool = 'fleet'
  WHERE e.call IS NULL AND e.kind = ?2 AND instr(e.body, CAST(?3 AS BLOB)) > 0
  ORDER BY c.n DESC, e.id DESC LIMIT 1";

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
