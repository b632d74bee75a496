//! Erases payloads in the database, as a role that may read everything and delete only payloads.

use async_trait::async_trait;

use super::lane::{Options, PostgresLane, Purpose};
use super::rows;
use super::values::Values;
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::domain::time::Timestamp;
use crate::ledger::retention::{PayloadKeeper, Residue, StoredPayload};
use crate::ledger::store::StoreError;
use crate::ledger::vault::SEALED;

/// How long one statement may take.
const STATEMENT: std::time::Duration = std::time::Duration::from_secs(60);

/// A database, through one connection of a role that may erase (`ledger migrate --eraser`).
pub struct PostgresKeeper {
    lane: PostgresLane,
}

impl std::fmt::Debug for PostgresKeeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresKeeper")
    }
}

impl PostgresKeeper {
    /// Connects, and checks that this build knows the schema.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or has another schema.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let options = Options { statement: STATEMENT, call: STATEMENT, ..Options::default() };
        let keeper = Self { lane: PostgresLane::to(url, options)? };
        keeper.lane.anew().await?;
        Ok(keeper)
    }
}

#[async_trait]
impl PayloadKeeper for PostgresKeeper {
    async fn kept(&self) -> Result<Vec<StoredPayload>, StoreError> {
        let sql =
            "SELECT chain_id, commitment, role, media_type, octet_length(body)::bigint AS bytes,
                          (extract(epoch FROM stored_at) * 1000)::bigint AS stored
                     FROM ledger.payload ORDER BY stored_at, chain_id, commitment";
        let found = self.lane.run(sql, &Values::new(), Purpose::Read).await?;
        let kept = |row| {
            Ok(StoredPayload {
                chain: rows::chain_id(row)?,
                commitment: rows::digest(row, "commitment")?,
                role: rows::get(row, "role")?,
                stored_at: Timestamp::from_millis(rows::get(row, "stored")?),
                bytes: rows::number(row, "bytes")?,
                sealed: rows::get::<String>(row, "media_type")? == SEALED,
            })
        };
        found.iter().map(kept).collect()
    }

    async fn erase(&self, chain: &ChainId, list: &[Digest]) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FILTER (WHERE ledger.erase_payload($1, c)) AS gone FROM unnest($2) t(c)";
        let list = list.iter().map(|c| c.as_bytes().as_slice());
        let values = Values::new().bytes(chain.as_bytes()).all_bytes(list);
        let found = self.lane.run(sql, &values, Purpose::Write).await?;
        found.first().map_or(Ok(0), |row| rows::number(row, "gone"))
    }

    async fn scrub(&self, _anew: bool) -> Result<Residue, StoreError> {
        // The database's administrator must clean its files, its log and its replicas.
        Ok(Residue::Unknown)
    }
}
