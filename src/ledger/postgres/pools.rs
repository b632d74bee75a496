//! Shared pools in the database, for all gates of one tenant.

use async_trait::async_trait;

use super::lane::{Lane, Options, Purpose, connect_options};
use super::literal::text;
use super::rows;
use crate::ledger::store::StoreError;
use crate::limits::pool::{Ask, Hold, Lease, Pools, Unanswered};

/// The pools, through one connection of a writer's role.
pub struct PostgresPools {
    lane: Lane,
}

impl std::fmt::Debug for PostgresPools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresPools")
    }
}

impl PostgresPools {
    /// Reads the address and connects when there is something to lease.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the address cannot be understood.
    pub fn lazy(url: &str, options: Options) -> Result<Self, StoreError> {
        Ok(Self { lane: Lane::new(connect_options(url)?, options) })
    }

    async fn lease_by(&self, call: &str) -> Result<Lease, Unanswered> {
        let sql = format!("SELECT granted, spare FROM ledger.{call}");
        let found = self.lane.run(&sql, Purpose::Write).await.map_err(unanswered)?;
        let row = found.first().ok_or_else(|| Unanswered("the server sent no row".into()))?;
        Ok(Lease {
            granted: rows::number(row, "granted").map_err(unanswered)?,
            spare: rows::number(row, "spare").map_err(unanswered)?,
        })
    }
}

fn unanswered(error: StoreError) -> Unanswered {
    Unanswered(error.to_string())
}

#[async_trait]
impl Pools for PostgresPools {
    async fn lease(&self, ask: &Ask) -> Result<Lease, Unanswered> {
        let Ask { pool, starts, forget, size, need, holder, serial } = ask;
        self.lease_by(&format!(
            "lease_pool({}, {starts}::bigint, ({forget})::bigint, {size}::bigint, {need}::bigint, {}, {serial}::bigint)",
            text(pool),
            text(holder)
        ))
        .await
    }

    async fn give_back(&self, ask: &Ask, units: u64) -> Result<(), Unanswered> {
        let (pool, starts) = (text(&ask.pool), ask.starts);
        let sql = format!("SELECT ledger.return_pool({pool}, {starts}::bigint, {units}::bigint)");
        self.lane.run(&sql, Purpose::Write).await.map(drop).map_err(unanswered)
    }

    async fn hold(&self, hold: &Hold) -> Result<Lease, Unanswered> {
        let Hold { pool, size, holder, want, term_ms, .. } = hold;
        self.lease_by(&format!(
            "hold_pool({}, {size}::bigint, {}, {want}::bigint, {term_ms}::bigint)",
            text(pool),
            text(holder)
        ))
        .await
    }
}
