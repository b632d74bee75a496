//! The one writer of the file.

use std::fs::File;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use parking_lot::Mutex;

use super::rows::{self, sql};
use super::steps::{held, insert_payloads, pool, take, write};
use super::{
    SqliteLane, before_commit, files, fleet, migrate, on_lane, options, prune, transaction,
};
use crate::clock::Entropy;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{
    AnchorRow, Batch, EntryRange, EntryRow, FleetView, HeadRow, LeaseKey, LeaseRequest, Leased,
    LedgerStore, PayloadRow, Pruner, Pruning, Restart, StoreError,
};

/// A database file that this process alone holds until this value is dropped.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    lane: SqliteLane,
    /// Why the storage can no longer be trusted, after a failure.
    broken: Mutex<Option<String>>,
    _lock: File,
}

/// Borrows the connection for one call.
macro_rules! call {
    ($self:ident, $conn:ident => $work:expr) => {{
        $self.usable()?;
        async { on_lane!($self.lane, $conn => $work) }.await.inspect_err(|e| $self.note(e))
    }};
}

/// Borrows the connection for what only the holder of the lease may read.
macro_rules! held {
    ($self:ident, $key:ident, $conn:ident => $work:expr) => {
        call!($self, $conn => async {
            held($conn, $key).await?;
            $work.await
        })
    };
}

impl SqliteStore {
    /// Opens or creates the file, takes its lock, creates or upgrades its schema, and reads back
    /// the durability settings.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] if another process has it, [`StoreError::Broken`] if it is not a
    /// sound database, else the disk's.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, ".lock").await
    }

    /// Opens the same file for the tenant's fleet log, beside the sidecar that may be writing in it.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn open_fleet(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, ".fleet.lock").await
    }

    async fn open_with(path: &Path, suffix: &str) -> Result<Self, StoreError> {
        files::prepare(path)?;
        let lock = files::lock(path, suffix)?;
        let store = Self {
            path: path.to_owned(),
            lane: SqliteLane::writing(options(path)),
            broken: Mutex::new(None),
            _lock: lock,
        };
        match store.start().await {
            // If the disk is already full, the reserve lets open outcomes be recorded.
            Err(StoreError::Full(_) | StoreError::Unavailable(_) | StoreError::Unknown(_))
                if files::drain_reserve(path)? =>
            {
                store.start().await?;
            }
            answer => answer?,
        }
        Ok(store)
    }

    /// The pool of this file's slots: the pool of the stored chain, else a new unique name.
    ///
    /// WHY: the pool is part of a log's origin. Two files with the same pool would be two histories
    /// of one log, and a party that noted a head of the first would see a fork.
    ///
    /// # Errors
    /// The disk's.
    pub async fn pool(&self, tenant: &str, entropy: &dyn Entropy) -> Result<String, StoreError> {
        let found = call!(self, conn => pool(conn, tenant))?;
        Ok(found.unwrap_or_else(|| {
            let mut own = [0_u8; 8];
            entropy.fill(&mut own);
            format!("local-{}", hex::encode(own))
        }))
    }

    /// Closes the file in order and releases its lock. Dropping it does so too, but later, on the
    /// driver's own thread.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; every acknowledged entry is in the file all the same.
    pub async fn close(self) -> Result<(), StoreError> {
        let Some(conn) = self.lane.home.into_inner() else { return Ok(()) };
        sqlx::Connection::close(conn).await.map_err(|e| before_commit(&e))
    }

    #[cfg(test)]
    pub(super) fn lane(&self) -> &SqliteLane {
        &self.lane
    }

    async fn start(&self) -> Result<(), StoreError> {
        call!(self, conn => async {
            migrate(conn).await?;
            // WHY: the WAL of a crashed process may be in the page cache only. The checkpoint
            // writes and syncs it again before anything relies on it.
            sql("PRAGMA wal_checkpoint(TRUNCATE)").all(conn).await.map(drop)
        })
    }

    fn usable(&self) -> Result<(), StoreError> {
        self.broken.lock().clone().map_or(Ok(()), |why| Err(StoreError::Broken(why)))
    }

    fn note(&self, error: &StoreError) {
        if let StoreError::Broken(why) = error {
            *self.broken.lock() = Some(why.clone());
        }
    }
}

#[async_trait]
impl LedgerStore for SqliteStore {
    async fn lease(&self, request: &LeaseRequest) -> Result<Leased, StoreError> {
        call!(self, conn => transaction!(conn => take(conn, request)))
    }

    async fn append(
        &self,
        key: &LeaseKey,
        expected: &HeadRow,
        batch: &Batch,
    ) -> Result<(), StoreError> {
        batch.check(expected)?;
        call!(self, conn => transaction!(conn => write(conn, key, expected, batch)))
    }

    async fn put_payload(&self, key: &LeaseKey, payload: &PayloadRow) -> Result<(), StoreError> {
        call!(self, conn => transaction!(conn => async {
            held(conn, key).await?;
            insert_payloads(conn, &key.chain, std::slice::from_ref(payload)).await
        }))
    }

    async fn release(&self, key: &LeaseKey) -> Result<(), StoreError> {
        // The lock on the file is the lease, so there is nothing to release; only check it.
        call!(self, conn => async { held(conn, key).await.map(drop) })
    }

    async fn head(&self, key: &LeaseKey) -> Result<HeadRow, StoreError> {
        call!(self, conn => async { held(conn, key).await?.head() })
    }

    async fn select(
        &self,
        key: &LeaseKey,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        held!(self, key, conn => rows::entries(conn, &key.chain, range))
    }

    async fn open_runs(&self, key: &LeaseKey) -> Result<Vec<RunId>, StoreError> {
        held!(self, key, conn => rows::open_runs(conn, &key.chain))
    }

    async fn payload(&self, key: &LeaseKey, c: &Digest) -> Result<Option<PayloadRow>, StoreError> {
        let list = std::slice::from_ref(c);
        Ok(held!(self, key, conn => rows::payloads(conn, &key.chain, list))?.pop())
    }

    async fn fleet_view(
        &self,
        key: &LeaseKey,
        before: Option<&ChainId>,
    ) -> Result<FleetView, StoreError> {
        held!(self, key, conn => fleet::view(conn, key, before))
    }

    async fn signed_at(&self, key: &LeaseKey, size: Seq) -> Result<Option<String>, StoreError> {
        let query = sql("SELECT note FROM checkpoint WHERE chain_id = ? AND size = ?");
        let query = query.bytes(key.chain.as_bytes()).number(size);
        held!(self, key, conn => query.maybe(conn))?.map(|row| row.text("note")).transpose()
    }

    async fn fleet_leaves(
        &self,
        key: &LeaseKey,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<Digest>, StoreError> {
        let query = sql("SELECT leaf FROM entry WHERE seq >= ?2 AND chain_id =
               (SELECT f.chain_id FROM chain f JOIN chain c ON c.tenant = f.tenant
                 WHERE c.chain_id = ?1 AND f.pool = 'fleet' AND NOT f.retired)
              ORDER BY seq LIMIT ?3");
        let query = query.bytes(key.chain.as_bytes()).number(from).number(limit.into());
        let found = held!(self, key, conn => query.all(conn))?;
        found.iter().map(|row| row.digest("leaf")).collect()
    }

    async fn put_anchor(&self, key: &LeaseKey, anchor: &AnchorRow) -> Result<(), StoreError> {
        let insert = sql("INSERT INTO anchor VALUES (?, ?, ?, ?)
             ON CONFLICT DO UPDATE SET note = excluded.note, tokens = excluded.tokens");
        let insert = insert.bytes(key.chain.as_bytes()).number(anchor.size).text(&anchor.note);
        let insert = insert.text(&anchor.tokens_text());
        call!(self, conn => transaction!(conn => async {
            held(conn, key).await?;
            insert.run(conn).await
        }))
    }

    async fn restart(&self, key: &LeaseKey, next: &Restart) -> Result<(), StoreError> {
        call!(self, conn => transaction!(conn => fleet::restart(conn, key, next)))
    }

    async fn relieve(&self) -> bool {
        files::drain_reserve(&self.path).unwrap_or(false)
    }

    async fn replenish(&self) -> Result<bool, StoreError> {
        files::fill_reserve(&self.path)
    }
}

#[async_trait]
impl Pruner for SqliteStore {
    async fn prune(&self, pruning: &Pruning) -> Result<u64, StoreError> {
        let mut dropped = 0_u64;
        call!(self, conn => transaction!(conn => prune::record(conn, pruning)))?;
        for (from, to) in prune::portions(pruning) {
            let gone = call!(self, conn => transaction!(conn =>
                prune::portion(conn, pruning, from, to)))?;
            dropped = dropped.saturating_add(gone);
        }
        Ok(dropped)
    }
}
