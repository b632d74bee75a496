//! Erases payloads in the database, as a role that may read everything and delete only payloads.

use async_trait::async_trait;

use super::lane::PostgresLane;
use super::values::Values;
use crate::domain::id::ChainId;
use crate::ledger::retention::{PayloadEraser, Residue, StoredPayload};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::StoreError;

/// How long one statement may take.
const STATEMENT: std::time::Duration = std::time::Duration::from_secs(60);

/// A database, through one connection of a role that may erase (`ledger migrate --eraser`).
#[derive(Debug)]
pub struct PostgresEraser {
    lane: PostgresLane,
}

impl PostgresEraser {
    /// Connects, and checks that this build knows the schema.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] if the server does not answer or has another schema.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        Ok(Self { lane: PostgresLane::connect(url, STATEMENT).await? })
    }
}

#[async_trait]
impl PayloadEraser for PostgresEraser {
    async fn kept(&self) -> Result<Vec<StoredPayload>, StoreError> {
        let sql =
            "SELECT chain_id, commitment, role, media_type, octet_length(body)::bigint AS bytes,
                          (extract(epoch FROM stored_at) * 1000)::bigint AS stored
                     FROM ledger.payload ORDER BY stored_at, chain_id, commitment";
        let found = self.lane.read(sql, Values::new()).await?;
        found.iter().map(DatabaseRow::stored_payload).collect()
    }

    async fn erase(&self, chain: &ChainId, list: &[StoredPayload]) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FILTER (WHERE ledger.erase_payload($1, c)) AS gone FROM unnest($2) t(c)";
        let list = list.iter().map(|kept| kept.commitment.as_bytes().as_slice());
        let values = Values::new().bytes(chain.as_bytes()).all_bytes(list);
        let found = self.lane.write(sql, values).await?;
        found.first().map_or(Ok(0), |row| row.number("gone"))
    }

    async fn scrub(&self, _anew: bool) -> Result<Residue, StoreError> {
        // The database's administrator must clean its files, its log and its replicas.
        Ok(Residue::Unknown)
    }
}
