//! The three stores behind one way to make them.

use std::sync::Arc;

use wicketgate::ledger::postgres::{Options, PostgresReader, PostgresStore};
use wicketgate::ledger::sqlite::{SqliteReader, SqliteStore};
use wicketgate::ledger::store::{LedgerReader, LedgerStore};
use wicketgate_support::memory::MemoryStore;

use wicketgate_support::pg::{Pg, TestDb};

/// One empty store, the ways into it, and whether several writers may share it.
pub enum Rig {
    Memory(MemoryStore),
    Sqlite(Arc<SqliteStore>, tempfile::TempDir),
    Postgres(TestDb),
}

impl Rig {
    pub fn memory() -> Rig {
        Rig::Memory(MemoryStore::new())
    }

    pub async fn sqlite() -> Rig {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(&dir.path().join("ledger.db")).await.unwrap();
        Rig::Sqlite(Arc::new(store), dir)
    }

    pub async fn postgres() -> Rig {
        Rig::Postgres(Pg::cluster().database().await)
    }

    pub async fn store(&self) -> Arc<dyn LedgerStore> {
        match self {
            Rig::Memory(memory) => Arc::new(memory.clone()),
            Rig::Sqlite(store, _) => Arc::<SqliteStore>::clone(store),
            Rig::Postgres(db) => {
                Arc::new(PostgresStore::connect(&db.writer_url, Options::default()).await.unwrap())
            }
        }
    }

    pub async fn reader(&self) -> Arc<dyn LedgerReader> {
        match self {
            Rig::Memory(memory) => Arc::new(memory.clone()),
            Rig::Sqlite(_, dir) => {
                Arc::new(SqliteReader::open(&dir.path().join("ledger.db")).await.unwrap())
            }
            Rig::Postgres(db) => Arc::new(PostgresReader::connect(&db.reader_url).await.unwrap()),
        }
    }

    /// SQLite's file lock proves every earlier holder dead: it never needs a second slot.
    pub fn many_writers(&self) -> bool {
        !matches!(self, Rig::Sqlite(..))
    }
}
