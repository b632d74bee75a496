//! Shared pools in the database, for all gates of one tenant.

use async_trait::async_trait;

use super::lane::{Options, PostgresLane};
use super::values::Values;
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::StoreError;
use crate::limits::pool::{Hold, Lease, PoolRequest, Pools, Unanswered};

/// The pools, through one connection of a writer's role.
#[derive(Debug)]
pub struct PostgresPools {
    lane: PostgresLane,
}

impl PostgresPools {
    /// Parses the address; connects on the first lease.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the address cannot be parsed.
    pub fn lazy(url: &str, options: Options) -> Result<Self, StoreError> {
        Ok(Self { lane: PostgresLane::to(url, options)? })
    }

    async fn lease_by(&self, call: &str, values: Values<'_>) -> Result<Lease, Unanswered> {
        let sql = format!("SELECT granted, spare FROM ledger.{call}");
        let found = self.lane.write(&sql, values).await?;
        let row = found.first().ok_or_else(|| Unanswered("the server sent no row".into()))?;
        Ok(Lease { granted: row.number("granted")?, spare: row.number("spare")? })
    }
}

impl From<StoreError> for Unanswered {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

#[async_trait]
impl Pools for PostgresPools {
    async fn lease(&self, ask: &PoolRequest) -> Result<Lease, Unanswered> {
        let values = Values::new()
            .text(&ask.pool)
            .integer(ask.starts)
            .integer(ask.forget)
            .number(ask.size)
            .number(ask.need)
            .text(&ask.holder)
            .number(ask.serial);
        self.lease_by("lease_pool($1, $2, $3, $4, $5, $6, $7)", values).await
    }

    async fn give_back(&self, ask: &PoolRequest, units: u64) -> Result<(), Unanswered> {
        let values = Values::new().text(&ask.pool).integer(ask.starts).number(units);
        let sql = "SELECT ledger.return_pool($1, $2, $3)";
        Ok(self.lane.write(sql, values).await.map(drop)?)
    }

    async fn hold(&self, hold: &Hold) -> Result<Lease, Unanswered> {
        let values = Values::new()
            .text(&hold.pool)
            .number(hold.size)
            .text(&hold.holder)
            .number(hold.want)
            .number(hold.term_ms);
        self.lease_by("hold_pool($1, $2, $3, $4, $5)", values).await
    }
}
