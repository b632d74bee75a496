//! Shared pools in the ledger's file: its own connection, and a durable transaction per lease.

use std::path::Path;

use async_trait::async_trait;
use sqlx::sqlite::SqliteConnection;

use super::rows::sql;
use super::{SqliteLane, on_lane, options, transaction};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::StoreError;
use crate::limits::pool::{Hold, Lease, PoolRequest, Pools, Unanswered, block};

/// The pools of one machine.
#[derive(Debug)]
pub struct SqlitePools {
    lane: SqliteLane,
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
    async fn lease(&self, ask: &PoolRequest) -> Result<Lease, Unanswered> {
        Ok(on_lane!(self.lane, conn => transaction!(conn => lease(conn, ask)))?)
    }

    async fn give_back(&self, ask: &PoolRequest, units: u64) -> Result<(), Unanswered> {
        Ok(on_lane!(self.lane, conn => transaction!(conn => give_back(conn, ask, units)))?)
    }

    async fn hold(&self, hold: &Hold) -> Result<Lease, Unanswered> {
        Ok(on_lane!(self.lane, conn => transaction!(conn => held(conn, hold)))?)
    }
}

async fn lease(conn: &mut SqliteConnection, ask: &PoolRequest) -> Result<Lease, StoreError> {
    let forget = "DELETE FROM pool_window WHERE pool = ? AND starts < ?";
    sql(forget).text(&ask.pool).integer(ask.forget).run(conn).await?;
    let make = "INSERT INTO pool_window VALUES (?, ?, 0) ON CONFLICT DO NOTHING";
    sql(make).text(&ask.pool).integer(ask.starts).run(conn).await?;
    let query = sql("SELECT leased, (SELECT count(*) FROM pool_gate g WHERE g.pool = w.pool
             AND g.starts = w.starts AND g.holder <> ?3) AS others,
           (SELECT granted FROM pool_gate g WHERE g.pool = w.pool AND g.starts = w.starts
             AND g.holder = ?3 AND g.serial = ?4) AS again
         FROM pool_window w WHERE pool = ?1 AND starts = ?2");
    let query = query.text(&ask.pool).integer(ask.starts).text(&ask.holder).number(ask.serial);
    let found = query.one(conn).await?;
    let spare = ask.size.saturating_sub(found.number("leased")?);
    if found.maybe_integer("again")?.is_some() {
        return Ok(Lease { granted: found.number("again")?, spare });
    }
    let gates = found.number("others")?.saturating_add(1);
    let granted = block(spare, ask.need, gates);
    let take = "UPDATE pool_window SET leased = leased + ? WHERE pool = ? AND starts = ?";
    sql(take).number(granted).text(&ask.pool).integer(ask.starts).run(conn).await?;
    let note = "INSERT INTO pool_gate VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE
                SET serial = excluded.serial, granted = excluded.granted";
    let note = sql(note).text(&ask.pool).integer(ask.starts).text(&ask.holder);
    note.number(ask.serial).number(granted).run(conn).await?;
    Ok(Lease { granted, spare: spare.saturating_sub(granted) })
}

async fn give_back(
    conn: &mut SqliteConnection,
    ask: &PoolRequest,
    units: u64,
) -> Result<(), StoreError> {
    let less = "UPDATE pool_window SET leased = max(leased - ?, 0) WHERE pool = ? AND starts = ?";
    sql(less).number(units).text(&ask.pool).integer(ask.starts).run(conn).await
}

async fn held(conn: &mut SqliteConnection, hold: &Hold) -> Result<Lease, StoreError> {
    let free = "DELETE FROM pool_hold WHERE pool = ? AND until <= ?";
    sql(free).text(&hold.pool).integer(hold.now).run(conn).await?;
    let query = sql("SELECT coalesce(sum(units) FILTER (WHERE holder <> ?2), 0) AS others,
                coalesce(sum(units) FILTER (WHERE holder = ?2), 0) AS mine
           FROM pool_hold WHERE pool = ?1");
    let found = query.text(&hold.pool).text(&hold.holder).one(conn).await?;
    let (others, mine) = (found.number("others")?, found.number("mine")?);
    let spare = hold.size.saturating_sub(others);
    if hold.want > mine && hold.want > spare {
        return Ok(Lease { granted: 0, spare: spare.saturating_sub(mine) });
    }
    if hold.want == 0 {
        let none = "DELETE FROM pool_hold WHERE pool = ? AND holder = ?";
        sql(none).text(&hold.pool).text(&hold.holder).run(conn).await?;
    } else {
        let until = hold.now.saturating_add_unsigned(hold.term_ms);
        let keep = "INSERT INTO pool_hold VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE
                    SET units = excluded.units, until = excluded.until";
        let keep = sql(keep).text(&hold.pool).text(&hold.holder).number(hold.want);
        keep.integer(until).run(conn).await?;
    }
    Ok(Lease { granted: hold.want, spare: spare.saturating_sub(hold.want) })
}
