//! Pruning as `ledger_eraser`: what the fleet log says may go, and nothing else.

use async_trait::async_trait;

use super::lane::{Lane, Options, Purpose, connect_options};
use super::literal::bytes;
use super::rows;
use crate::domain::id::Seq;
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
        pruner.lane.anew().await?;
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
            let end = self.block_end(&chain, from).await?;
            let whole = end.filter(|end| *end <= pruning.to);
            let gone = match whole {
                Some(end) => self.drop_block(&chain, from, end).await?,
                None => None,
            };
            let end = end.unwrap_or(pruning.to).min(pruning.to);
            let gone = match gone {
                Some(gone) => gone,
                None => self.delete(&chain, from, end).await?,
            };
            dropped = dropped.saturating_add(gone);
            from = end;
        }
        Ok(dropped)
    }
}

impl PostgresPruner {
    /// Where the block of this entry ends.
    async fn block_end(&self, chain: &str, seq: Seq) -> Result<Option<Seq>, StoreError> {
        let sql = format!("SELECT high FROM ledger.block_of({chain}, {seq})");
        let found = self.lane.run(&sql, Purpose::Read).await?;
        found.first().map(|row| rows::number(row, "high")).transpose()
    }

    /// Drops a whole block as one table; `None` if its rows have to be deleted.
    async fn drop_block(
        &self,
        chain: &str,
        from: Seq,
        end: Seq,
    ) -> Result<Option<u64>, StoreError> {
        self.portions(from, end, |from, end| {
            format!("SELECT ledger.prune_beside({chain}, {from}, {end}), 0::bigint AS n")
        })
        .await?;
        let sql = format!("SELECT coalesce(ledger.drop_block({chain}, {from}), -1) AS n");
        let found = self.lane.run(&sql, Purpose::Write).await?;
        let gone: Option<i64> = found.first().map(|row| rows::get(row, "n")).transpose()?;
        let Some(gone) = gone.and_then(|n| u64::try_from(n).ok()) else { return Ok(None) };
        self.thin(chain, from, end).await?;
        Ok(Some(gone))
    }

    async fn delete(&self, chain: &str, from: Seq, end: Seq) -> Result<u64, StoreError> {
        let prune = |from, end| format!("SELECT ledger.prune({chain}, {from}, {end}) AS n");
        let gone = self.portions(from, end, prune).await?;
        self.thin(chain, from, end).await?;
        Ok(gone)
    }

    async fn thin(&self, chain: &str, from: Seq, end: Seq) -> Result<(), StoreError> {
        let thin = |from, end| format!("SELECT ledger.thin({chain}, {from}, {end}) AS n");
        self.portions(from, end, thin).await.map(drop)
    }

    /// Runs a statement on one portion after the other; the sum of what they say.
    async fn portions(
        &self,
        mut from: Seq,
        to: Seq,
        sql: impl Fn(Seq, Seq) -> String,
    ) -> Result<u64, StoreError> {
        let mut sum = 0_u64;
        while from < to {
            // Every portion ends where a tile does.
            let end = (from / PORTION).saturating_add(1).saturating_mul(PORTION).min(to);
            let found = self.lane.run(&sql(from, end), Purpose::Write).await?;
            let n = found.first().map(|row| rows::number(row, "n")).transpose()?;
            sum = sum.saturating_add(n.unwrap_or(0));
            from = end;
        }
        Ok(sum)
    }
}
