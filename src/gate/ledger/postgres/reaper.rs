//! The reaper's two statements, for an operator's login.

use tokio_postgres::Row;

use super::lane::{Options, PostgresLane};
use super::values::Values;
use super::writer;
use crate::ledger::reap::Abandoned;
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{Leased, StoreError};

/// A login that may take abandoned slots.
#[derive(Debug)]
pub struct PostgresReaper {
    lane: PostgresLane,
}

impl PostgresReaper {
    /// Parses the address; connects on first use.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the address cannot be parsed.
    pub fn lazy(url: &str, options: Options) -> Result<Self, StoreError> {
        Ok(Self { lane: PostgresLane::to(url, options)? })
    }

    /// Slots of the tenant that have no live writer, by the server's clock, and are not closed.
    ///
    /// # Errors
    /// The store's.
    pub async fn abandoned(&self) -> Result<Vec<Abandoned>, StoreError> {
        let sql = "SELECT * FROM ledger.abandoned()";
        let found = self.lane.read(sql, Values::new()).await?;
        let read = |row: &Row| {
            Ok(Abandoned {
                chain: row.chain_id()?,
                slot: row.text("slot")?,
                origin: row.text("origin")?,
                epoch: row.number("epoch")?,
                size: row.number("size")?,
            })
        };
        found.iter().map(read).collect()
    }

    /// Takes a slot if it is as it was seen and its lease was not renewed for `grace`.
    ///
    /// # Errors
    /// [`StoreError::Conflict`]: another reaper or writer has it. After [`StoreError::Unknown`]
    /// this process may hold it; then the lease runs out and the slot shows up again.
    pub async fn take(
        &self,
        slot: &Abandoned,
        grace: std::time::Duration,
        (writer, secret): (&str, [u8; 32]),
        term: std::time::Duration,
    ) -> Result<Leased, StoreError> {
        let values = Values::new()
            .bytes(slot.chain.as_bytes())
            .number(slot.epoch)
            .number(slot.size)
            .millis(grace)
            .text(writer)
            .bytes(&secret)
            .millis(term);
        let sql = "SELECT * FROM ledger.reap($1, $2, $3, $4, $5, $6, $7)";
        let found = self.lane.write(sql, values).await?;
        writer::leased(writer::only(&found)?, secret)
    }
}
