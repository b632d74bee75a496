//! Statements about the fleet log: its entries about a log, its stored anchors, and restarted
//! chains.

use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{AssertSqlSafe, query};

use super::rows;
use super::steps::{held, insert_entries, portions, run};
use super::{before_commit, steps};
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, Seq};
use crate::ledger::fleet::POOL;
use crate::ledger::store::{AnchorRow, EntryRow, FleetView, LeaseKey, Restart, StoreError};

/// Newest first, over all fleet logs of the tenant. A log's name needs no escapes, so an entry
/// contains it unchanged.
const SAID: &str = "SELECT seq, prev, leaf, run_id, call_id, kind, body FROM entry
   WHERE chain_id IN (SELECT chain_id FROM chain WHERE tenant = ?1 AND pool = 'fleet')
     AND run_id IS NULL AND kind = ?2 AND instr(body, CAST(?3 AS BLOB)) > 0
   ORDER BY (SELECT n FROM chain c WHERE c.chain_id = entry.chain_id) DESC, seq DESC LIMIT 1";

/// The newest entry of this kind about a log.
pub(super) async fn said(
    conn: &mut SqliteConnection,
    tenant: &str,
    log: &str,
    kind: &str,
) -> Result<Option<EntryRow>, StoreError> {
    let found = query(SAID)
        .bind(tenant.to_owned())
        .bind(kind.to_owned())
        .bind(format!("\"log\":\"{log}\""))
        .fetch_optional(conn)
        .await
        .map_err(|e| before_commit(&e))?;
    found.as_ref().map(rows::entry).transpose()
}

async fn chain(conn: &mut SqliteConnection, id: &ChainId) -> Result<Option<SqliteRow>, StoreError> {
    query("SELECT tenant, pool, slot, n, origin FROM chain WHERE chain_id = ?")
        .bind(id.as_bytes().to_vec())
        .fetch_optional(conn)
        .await
        .map_err(|e| before_commit(&e))
}

pub(super) async fn view(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    before: Option<&ChainId>,
) -> Result<FleetView, StoreError> {
    held(conn, key).await?;
    let Some(mine) = chain(conn, &key.chain).await? else {
        return Err(StoreError::Broken(format!("chain {} vanished", key.chain)));
    };
    let (tenant, log): (String, String) =
        (rows::get(&mine, "tenant")?, rows::get(&mine, "origin")?);
    let forgotten = match before {
        Some(id) => chain(conn, id).await?.is_none(),
        None => false,
    };
    let fleet = query(
        "SELECT origin, size FROM chain c JOIN head h ON h.chain_id = c.chain_id
          WHERE tenant = ? AND pool = ? AND NOT retired",
    )
    .bind(tenant.clone())
    .bind(POOL)
    .fetch_optional(&mut *conn)
    .await
    .map_err(|e| before_commit(&e))?;
    let fleet = match fleet {
        Some(row) => Some((rows::get(&row, "origin")?, rows::unsigned(rows::get(&row, "size")?)?)),
        None => None,
    };
    let mut found = Vec::new();
    for kind in ["chain.enrolled", "chain.checkpoint", "chain.retired"] {
        found.extend(said(conn, &tenant, &log, kind).await?.map(|row| row.body));
    }
    Ok(FleetView { fleet, forgotten, said: found })
}

pub(super) async fn signed_at(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    size: Seq,
) -> Result<Option<String>, StoreError> {
    held(conn, key).await?;
    let found = query("SELECT note FROM checkpoint WHERE chain_id = ? AND size = ?")
        .bind(key.chain.as_bytes().to_vec())
        .bind(rows::signed(size)?)
        .fetch_optional(conn)
        .await
        .map_err(|e| before_commit(&e))?;
    found.as_ref().map(|row| rows::get(row, "note")).transpose()
}

pub(super) async fn leaves(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    from: Seq,
    limit: u32,
) -> Result<Vec<Digest>, StoreError> {
    held(conn, key).await?;
    let found = query(
        "SELECT leaf FROM entry WHERE seq >= ?2 AND chain_id =
           (SELECT f.chain_id FROM chain f JOIN chain c ON c.tenant = f.tenant
             WHERE c.chain_id = ?1 AND f.pool = 'fleet' AND NOT f.retired)
          ORDER BY seq LIMIT ?3",
    )
    .bind(key.chain.as_bytes().to_vec())
    .bind(rows::signed(from)?)
    .bind(i64::from(limit))
    .fetch_all(conn)
    .await
    .map_err(|e| before_commit(&e))?;
    found.iter().map(|row| rows::digest(row, "leaf")).collect()
}

pub(super) async fn put_anchor(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    anchor: &AnchorRow,
) -> Result<(), StoreError> {
    held(conn, key).await?;
    let put = query(
        "INSERT INTO anchor VALUES (?, ?, ?, ?)
         ON CONFLICT DO UPDATE SET note = excluded.note, tokens = excluded.tokens",
    )
    .bind(key.chain.as_bytes().to_vec())
    .bind(rows::signed(anchor.size)?)
    .bind(anchor.note.clone())
    .bind(anchor.tokens_text());
    run(put, conn).await
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
    let found = query(AssertSqlSafe(text))
        .bind(origin.to_owned())
        .bind(rows::signed(from)?)
        .bind(i64::from(limit))
        .fetch_all(conn)
        .await
        .map_err(|e| before_commit(&e))?;
    let read = |row: &SqliteRow| {
        let size = rows::unsigned(rows::get(row, "size")?)?;
        AnchorRow::read(size, rows::get(row, "note")?, &rows::get::<String>(row, "tokens")?)
    };
    found.iter().map(read).collect()
}

/// Retires the chain and begins the next one of its slot; an empty chain takes the next name.
pub(super) async fn restart(
    conn: &mut SqliteConnection,
    key: &LeaseKey,
    next: &Restart,
) -> Result<(), StoreError> {
    let head = rows::head(&held(conn, key).await?)?;
    let old = chain(conn, &key.chain).await?;
    let old = old.ok_or_else(|| StoreError::Broken(format!("chain {} vanished", key.chain)))?;
    let in_place = next.key.chain == key.chain;
    let same = next.key == *key && head.size == 0;
    if rows::unsigned(rows::get(&old, "n")?)? >= next.n || (in_place && !same) {
        return Err(StoreError::Unavailable("malformed restart".into()));
    }
    let id = next.key.chain.as_bytes().to_vec();
    let number = rows::signed(next.n)?;
    if in_place {
        let rename = query("UPDATE chain SET n = ?2, origin = ?3 WHERE chain_id = ?1");
        run(rename.bind(id.clone()).bind(number).bind(next.origin.clone()), conn).await?;
    } else {
        let before = key.chain.as_bytes().to_vec();
        let retire = query("UPDATE chain SET retired = 1 WHERE chain_id = ?").bind(before.clone());
        run(retire, conn).await?;
        let fence =
            query("UPDATE head SET epoch = epoch + 1 WHERE chain_id = ?").bind(before.clone());
        run(fence, conn).await?;
        let make = query(
            "INSERT INTO chain (chain_id, tenant, pool, slot, origin, n)
             SELECT ?2, tenant, pool, slot, ?3, ?4 FROM chain WHERE chain_id = ?1",
        );
        let make = make.bind(before.clone()).bind(id.clone()).bind(next.origin.clone());
        run(make.bind(number), conn).await?;
        let first = query(
            "INSERT INTO head SELECT ?2, ?3, writer, ?4, NULL, 0, ?5, x'', '' FROM head WHERE chain_id = ?1",
        );
        let first = first.bind(before).bind(id).bind(rows::signed(next.key.epoch)?);
        let prev = crate::record::Entry::genesis_prev(&next.key.chain);
        let first = first.bind(steps::hash(&next.key.secret)).bind(prev.as_bytes().to_vec());
        run(first, conn).await?;
    }
    let empty = rows::head(&held(conn, &next.key).await?)?;
    next.batch.check(&empty)?;
    for rows in portions(&next.batch.entries) {
        insert_entries(conn, &next.key.chain, rows).await?;
    }
    steps::move_head(conn, &next.key, &next.batch.head).await
}
