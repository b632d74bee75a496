//! Where the rows of the index are: a SQLite file of a sidecar, or the database of a hub. The queries are the same.

use std::collections::BTreeMap;

use super::Error;
use super::columns::{IndexStatement, ReadRow};
use super::fold::{Cursor, EntryBatch};
use super::postgres::PostgresIndex;
use super::sqlite::SqliteIndex;
use crate::domain::id::ChainId;

/// One of the two.
#[derive(Clone, Debug)]
pub(super) enum IndexStore {
    Sqlite(SqliteIndex),
    Postgres(PostgresIndex),
}

impl IndexStore {
    /// How far each chain is.
    pub async fn cursors(&self) -> Result<BTreeMap<ChainId, Cursor>, Error> {
        match self {
            Self::Sqlite(store) => store.cursors().await,
            Self::Postgres(store) => store.cursors().await,
        }
    }

    /// Takes everything of these chains out of the index.
    pub async fn forget(&self, chains: Vec<ChainId>) -> Result<(), Error> {
        match self {
            Self::Sqlite(store) => store.forget(chains).await,
            Self::Postgres(store) => store.forget(&chains).await,
        }
    }

    /// Puts a batch into the index and moves the cursor of its chain from this place, all or nothing. Returns where the
    /// chain is then: elsewhere if another process has put entries there.
    pub async fn put(
        &self,
        chain: ChainId,
        from: Cursor,
        batch: EntryBatch,
    ) -> Result<Cursor, Error> {
        match self {
            Self::Sqlite(store) => store.put(chain, from, batch).await,
            Self::Postgres(store) => store.put(&chain, from, batch).await,
        }
    }

    /// The rows of a statement that only reads.
    pub async fn find<T: Send + 'static>(
        &self,
        statement: IndexStatement,
        read: ReadRow<T>,
    ) -> Result<Vec<T>, Error> {
        match self {
            Self::Sqlite(store) => store.find(statement, read).await,
            Self::Postgres(store) => store.find(&statement, read).await,
        }
    }

    /// Whether this process fills the index while no request waits: of the replicas of a hub, one does.
    pub async fn turn(&self) -> Result<bool, Error> {
        match self {
            Self::Sqlite(_) => Ok(true),
            Self::Postgres(store) => store.turn().await,
        }
    }
}
