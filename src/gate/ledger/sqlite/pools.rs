//! Shared pools in the ledger's file: its own connection, and a durable transaction per lease.

use std::path::Path;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use super::steps::{begin, finish, run};
use super::{SqliteLane, before_commit, bounded, options, rows};
use crate::ledger::store::StoreError;
use crate::limits::pool::{Ask, Hold, Lease, Pools, Unanswered, block};

/// The pools of one machine.
pub struct SqlitePools {
    lane: SqliteLane,
}

impl std::fmt::Debug for SqlitePools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SqlitePools")
    }
}

/// Borrows the connection for one transaction.
macro_rules! transact {
    ($self:ident, $conn:ident => $work:expr) => {{
        let mut turn = $self.lane.take().await.map_err(|e| unanswered(&e))?;
        let $conn = &mut turn.conn;
        let answer = bounded(async {
            begin($conn).await?;
            let answer = $work.await;
            finish($conn, answer).await
        })
        .await;
        turn.settle(&answer);
        answer.map_err(|e| unanswered(&e))
    }};
}

impl SqlitePools {
    /// Opens the file of a ledger that was opened before, and so has the current schema.
    ///
    /// # Errors
    /// The file does not exist, or has another schema.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        let pools = Self { lane: SqliteLane::writing(options(path).create_if_missing(false)) };
        pools.lane.check_version().await?;
        Ok(pools)
    }
}

#[async_trait]
impl Pools for SqlitePools {
    async fn lease(&self, ask: &Ask) -> Result<Lease, Unanswered> {
        transact!(self, conn => lease(conn, ask))
    }

    async fn give_back(&self, ask: &Ask, units: u64) -> Result<(), Unanswered> {
        transact!(self, conn => give_back(conn, ask, units))
    }

    async fn hold(&self, hold: &Hold) -> Result<Lease, Unanswered> {
        transact!(self, conn => held(conn, hold))
    }
}

fn unanswered(error: &StoreError) -> Unanswered {
    Unanswered(error.to_string())
}

async fn lease(conn: &mut SqliteConnection, ask: &Ask) -> Result<Lease, StoreError> {
    let forget = "DELETE FROM pool_window WHERE pool = ? AND starts < ?";
    run(sqlx::query(forget).bind(ask.pool.as_str()).bind(ask.forget), conn).await?;
    let make = "INSERT INTO pool_window VALUES (?, ?, 0) ON CONFLICT DO NOTHING";
    run(sqlx::query(make).bind(ask.pool.as_str()).bind(ask.starts), conn).await?;
    let found = sqlx::query(
        "SELECT leased, (SELECT count(*) FROM pool_gate g WHERE g.pool = w.pool
             AND g.starts = w.starts AND g.holder <> ?3) AS others,
           (SELECT granted FROM pool_gate g WHERE g.pool = w.pool AND g.starts = w.starts
             AND g.holder = ?3 AND g.serial = ?4) AS again
         FROM pool_window w WHERE pool = ?1 AND starts = ?2",
    )
    .bind(ask.pool.as_str())
    .bind(ask.starts)
    .bind(ask.holder.as_str())
    .bind(rows::signed(ask.serial)?)
    .fetch_one(&mut *conn)
    .await
    .map_err(|e| before_commit(&e))?;
    let spare = ask.size.saturating_sub(rows::unsigned(rows::get(&found, "leased")?)?);
    if let Some(again) = rows::get::<Option<i64>>(&found, "again")? {
        return Ok(Lease { granted: rows::unsigned(again)?, spare });
    }
    let gates = rows::unsigned(rows::get(&found, "others")?)?.saturating_add(1);
    let granted = block(spare, ask.need, gates);
    let take = "UPDATE pool_window SET leased = leased + ? WHERE pool = ? AND starts = ?";
    let take = sqlx::query(take).bind(rows::signed(granted)?);
    run(take.bind(ask.pool.as_str()).bind(ask.starts), conn).await?;
    let note = "INSERT INTO pool_gate VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
                SET serial = excluded.serial, granted = excluded.granted";
    let note = sqlx::query(note).bind(ask.pool.as_str()).bind(ask.starts);
    let note = note.bind(ask.holder.as_str()).bind(rows::signed(ask.serial)?);
    run(note.bind(rows::signed(granted)?), conn).await?;
    Ok(Lease { granted, spare: spare.saturating_sub(granted) })
}

async fn give_back(conn: &mut SqliteConnection, ask: &Ask, units: u64) -> Result<(), StoreError> {
    let less = "UPDATE pool_window SET leased = max(leased - ?, 0) WHERE pool = ? AND starts = ?";
    let less = sqlx::query(less).bind(rows::signed(units)?);
    run(less.bind(ask.pool.as_str()).bind(ask.starts), conn).await
}

async fn held(conn: &mut SqliteConnection, hold: &Hold) -> Result<Lease, StoreError> {
    let free = "DELETE FROM pool_hold WHERE pool = ? AND until <= ?";
    run(sqlx::query(free).bind(hold.pool.as_str()).bind(hold.now), conn).await?;
    let found = sqlx::query(
        "SELECT coalesce(sum(units) FILTER (WHERE holder <> ?2), 0) AS others,
                coalesce(sum(units) FILTER (WHERE holder = ?2), 0) AS mine
           FROM pool_hold WHERE pool = ?1",
    )
    .bind(hold.pool.as_str())
    .bind(hold.holder.as_str())
    .fetch_one(&mut *conn)
    .await
    .map_err(|e| before_commit(&e))?;
    let others = rows::unsigned(rows::get(&found, "others")?)?;
    let mine = rows::unsigned(rows::get(&found, "mine")?)?;
    let spare = hold.size.saturating_sub(others);
    if hold.want > mine && hold.want > spare {
        return Ok(Lease { granted: 0, spare: spare.saturating_sub(mine) });
    }
    if hold.want == 0 {
        let none = "DELETE FROM pool_hold WHERE pool = ? AND holder = ?";
        run(sqlx::query(none).bind(hold.pool.as_str()).bind(hold.holder.as_str()), conn).await?;
    } else {
        let until = hold.now.saturating_add(rows::signed(hold.term_ms)?);
        let keep = "INSERT INTO pool_hold VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
                    SET units = excluded.units, until = excluded.until";
        let keep = sqlx::query(keep).bind(hold.pool.as_str()).bind(hold.holder.as_str());
        run(keep.bind(rows::signed(hold.want)?).bind(until), conn).await?;
    }
    Ok(Lease { granted: hold.want, spare: spare.saturating_sub(hold.want) })
}
