//! Pruning as `ledger_eraser`: what the fleet log says may go, and nothing else.

use async_trait::async_trait;

use super::lane::{Lane, Options, Purpose, connect_options};
use super::literal::bytes;
use super::rows;
use super::writer::check_version;
use crate::ledger::store::{Pruner, Pruning, StoreError};

/// Entries of one transaction: a multiple of 256.
const PORTION: u64 = 2048;
/// How long one portion may take.
const STATEMENT: std::time::Duration = std::time::Duration::from_secs(30);

/// A login that may prune.
pub struct PostgresPruner {
    lane: Lane,
}

impl std::fmt::Debug for PostgresPruner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresPruner")
    }
}

impl PostgresPruner {
    /// Connects, and checks that the schema is the one this build knows.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or the schema is another.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options = Options { statement: STATEMENT, call: STATEMENT, ..Options::default() };
        let pruner = Self { lane: Lane::new(connect_options(url)?, options) };
        check_version(&pruner.lane).await?;
        Ok(pruner)
    }
}

#[async_trait]
impl Pruner for PostgresPruner {
    async fn prune(&self, pruning: &Pruning) -> Result<u64, StoreError> {
        let chain = bytes(pruning.chain.as_bytes());
        let sql = format!(
            "SELECT ledger.record_pruning({chain}, {}, {}, {}, {})",
            pruning.from,
            pruning.to,
            bytes(pruning.fleet.as_bytes()),
            pruning.entry,
        );
        self.lane.run(&sql, Purpose::Write).await?;
        let (mut from, mut dropped) = (pruning.from, 0_u64);
        while from < pruning.to {
            // Every portion ends where a tile does.
            let end = (from / PORTION).saturating_add(1).saturating_mul(PORTION).min(pruning.to);
            let sql = format!("SELECT ledger.prune({chain}, {from}, {end}) AS n");
            let found = self.lane.run(&sql, Purpose::Write).await?;
            let gone = found.first().map(|row| rows::number(row, "n")).transpose()?;
            dropped = dropped.saturating_add(gone.unwrap_or(0));
            let sql = format!("SELECT ledger.thin({chain}, {from}, {end})");
            self.lane.run(&sql, Purpose::Write).await?;
            from = end;
        }
        Ok(dropped)
    }
}
