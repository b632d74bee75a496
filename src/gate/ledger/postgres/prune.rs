//! Prunes as `ledger_eraser`: exactly what the fleet log records.

use async_trait::async_trait;

use super::lane::PostgresLane;
use super::values::Values;
use crate::domain::id::{ChainId, Seq};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{Pruner, Pruning, StoreError};

/// Entries of one transaction: a multiple of 256.
const PORTION: u64 = 2048;
/// How long one portion may take.
const STATEMENT: std::time::Duration = std::time::Duration::from_secs(30);

/// A login that may prune.
#[derive(Debug)]
pub struct PostgresPruner {
    lane: PostgresLane,
}

impl PostgresPruner {
    /// Connects, and checks that this build knows the schema.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or has another schema.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Ok(Self { lane: PostgresLane::connect(url, STATEMENT).await? })
    }
}

#[async_trait]
impl Pruner for PostgresPruner {
    async fn prune(&self, pruning: &Pruning) -> Result<u64, StoreError> {
        let chain = &pruning.chain;
        let values = portion(chain, pruning.from, pruning.to)
            .bytes(pruning.fleet.as_bytes())
            .number(pruning.entry);
        let sql = "SELECT ledger.record_pruning($1, $2, $3, $4, $5)";
        self.lane.write(sql, values).await?;
        let (mut from, mut dropped) = (pruning.from, 0_u64);
        while from < pruning.to {
            let end = self.block_end(chain, from).await?;
            let whole = end.filter(|end| *end <= pruning.to);
            let deleted = match whole {
                Some(end) => self.drop_block(chain, from, end).await?,
                None => None,
            };
            let end = end.unwrap_or(pruning.to).min(pruning.to);
            let deleted = match deleted {
                Some(deleted) => deleted,
                None => self.delete(chain, from, end).await?,
            };
            dropped = dropped.saturating_add(deleted);
            from = end;
        }
        Ok(dropped)
    }
}

/// `$1`, `$2` and `$3`: a range of a chain.
fn portion(chain: &ChainId, from: Seq, end: Seq) -> Values<'_> {
    Values::new().bytes(chain.as_bytes()).number(from).number(end)
}

impl PostgresPruner {
    /// The end of this entry's block.
    async fn block_end(&self, chain: &ChainId, seq: Seq) -> Result<Option<Seq>, StoreError> {
        let values = Values::new().bytes(chain.as_bytes()).number(seq);
        let sql = "SELECT high FROM ledger.block_of($1, $2)";
        let found = self.lane.read(sql, values).await?;
        found.first().map(|row| row.number("high")).transpose()
    }

    /// Drops a whole block as one table; `None` if its rows must be deleted instead.
    async fn drop_block(
        &self,
        chain: &ChainId,
        from: Seq,
        end: Seq,
    ) -> Result<Option<u64>, StoreError> {
        let prune_beside = "SELECT ledger.prune_beside($1, $2, $3), 0::bigint AS n";
        self.portions(chain, from, end, prune_beside).await?;
        let values = Values::new().bytes(chain.as_bytes()).number(from);
        let sql = "SELECT coalesce(ledger.drop_block($1, $2), -1) AS n";
        let found = self.lane.write(sql, values).await?;
        let deleted = found.first().map(|row| row.integer("n")).transpose()?;
        let Some(deleted) = deleted.and_then(|n| u64::try_from(n).ok()) else { return Ok(None) };
        self.thin(chain, from, end).await?;
        Ok(Some(deleted))
    }

    async fn delete(&self, chain: &ChainId, from: Seq, end: Seq) -> Result<u64, StoreError> {
        let deleted =
            self.portions(chain, from, end, "SELECT ledger.prune($1, $2, $3) AS n").await?;
        self.thin(chain, from, end).await?;
        Ok(deleted)
    }

    async fn thin(&self, chain: &ChainId, from: Seq, end: Seq) -> Result<(), StoreError> {
        self.portions(chain, from, end, "SELECT ledger.thin($1, $2, $3) AS n").await.map(drop)
    }

    /// Runs a statement on one portion after the other; returns the sum of the results.
    async fn portions(
        &self,
        chain: &ChainId,
        mut from: Seq,
        to: Seq,
        sql: &str,
    ) -> Result<u64, StoreError> {
        let mut sum = 0_u64;
        while from < to {
            // Every portion ends at the end of a tile.
            let end = (from / PORTION).saturating_add(1).saturating_mul(PORTION).min(to);
            let found = self.lane.write(sql, portion(chain, from, end)).await?;
            let n = found.first().map(|row| row.number("n")).transpose()?;
            sum = sum.saturating_add(n.unwrap_or(0));
            from = end;
        }
        Ok(sum)
    }
}
