//! The list in Postgres beside the ledger, on a connection of its own.
//!
//! A gate reads the list, and publishes its reports and presence with the lease of its chain. Only
//! a login made by `ledger migrate --operator` adds orders. The tenant is that of the login.

use std::sync::OnceLock;

use async_trait::async_trait;

use super::wire::{self, Columns};
use super::{Order, OrderOrigin, OrderReport, Orders, Presence, Row};
use crate::domain::canonical;
use crate::domain::time::Timestamp;
use crate::ledger::postgres::Options;
use crate::ledger::postgres::lane::PostgresLane;
use crate::ledger::postgres::values::Values;
use crate::ledger::postgres::writer;
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{LeaseKey, StoreError};

/// The list of one login's tenant.
#[derive(Debug)]
pub struct PostgresControl {
    lane: PostgresLane,
    key: OnceLock<LeaseKey>,
}

impl PostgresControl {
    /// Parses the address; connects on first use.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the address cannot be understood.
    pub fn lazy(url: &str, options: Options) -> Result<Self, StoreError> {
        Ok(Self { lane: PostgresLane::to(url, options)?, key: OnceLock::new() })
    }

    /// As [`Self::lazy`], then connects and checks that the schema is the one of this build.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or has another schema.
    pub async fn connect(url: &str, options: Options) -> Result<Self, StoreError> {
        let list = Self::lazy(url, options)?;
        list.lane.anew().await?;
        Ok(list)
    }

    /// Sets the lease under which this gate publishes. Only the first call has an effect.
    pub fn speak_for(&self, key: &LeaseKey) {
        drop(self.key.set(key.clone()));
    }

    /// `$1`, `$2` and `$3`: the lease of the gate's chain.
    fn of_lease(&self) -> Result<Values<'_>, StoreError> {
        let none = || StoreError::Unavailable("no slot is held".into());
        self.key.get().map(Values::of_lease).ok_or_else(none)
    }
}

#[async_trait]
impl Orders for PostgresControl {
    async fn put(
        &self,
        at: Timestamp,
        given: &OrderOrigin,
        order: &Order,
    ) -> Result<u64, StoreError> {
        let new = Columns::of(at, given, order);
        let values = Values::new()
            .integer(new.at)
            .text(&new.kind)
            .text(&new.body)
            .text(&new.subject)
            .text(&new.roles)
            .text(&new.auth)
            .text(&new.reason)
            .maybe_integer(new.expires);
        let sql = "SELECT ledger.control_put($1, $2, $3, $4, $5, $6, $7, $8) AS seq";
        writer::only(&self.lane.write(sql, values).await?)?.number("seq")
    }

    async fn since(&self, seq: u64, most: usize) -> Result<Vec<Row>, StoreError> {
        let most = u64::try_from(most).unwrap_or(u64::MAX);
        let sql = "SELECT * FROM ledger.control_since($1, $2) ORDER BY seq";
        let found = self.lane.read(sql, Values::new().number(seq).number(most)).await?;
        found.iter().map(wire::order).collect()
    }

    async fn report(&self, report: &OrderReport) -> Result<(), StoreError> {
        let done = canonical::text(&report.done);
        let values = self
            .of_lease()?
            .number(report.seq)
            .text(&report.origin)
            .integer(report.at.millis())
            .text(&done);
        let sql = "SELECT ledger.control_report($1, $2, $3, $4, $5, $6, $7)";
        self.lane.write(sql, values).await.map(drop)
    }

    async fn reports(&self, seq: u64) -> Result<Vec<OrderReport>, StoreError> {
        let sql = "SELECT * FROM ledger.control_reports($1)";
        let found = self.lane.read(sql, Values::new().number(seq)).await?;
        found.iter().map(wire::report).collect()
    }

    async fn show(&self, presence: &Presence) -> Result<(), StoreError> {
        let state = canonical::text(&presence.state);
        let values = self
            .of_lease()?
            .text(&presence.origin)
            .text(&presence.writer)
            .number(presence.seq)
            .text(&state);
        let sql = "SELECT ledger.control_show($1, $2, $3, $4, $5, $6, $7)";
        self.lane.write(sql, values).await.map(drop)
    }

    async fn shown(&self) -> Result<Vec<Presence>, StoreError> {
        let sql = "SELECT * FROM ledger.control_shown()";
        self.lane.read(sql, Values::new()).await?.iter().map(wire::presence).collect()
    }
}
