//! The one writer of the file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;

use super::rows::{self, sql};
use super::steps::{self, held, transaction};
use super::thread::{Distrust, SqliteThread};
use super::{SqliteLane, connection, files, fleet, on_lane, prune, restart, schema};
use crate::clock::Entropy;
use crate::domain::digest::Digest;
use crate::domain::id::{ChainId, RunId, Seq};
use crate::ledger::rows::DatabaseRow;
use crate::ledger::store::{
    AnchorRow, Batch, EntryRange, EntryRow, FleetView, HeadRow, LeaseKey, LeaseRequest, Leased,
    LedgerStore, PayloadRef, PayloadRow, Pruner, Pruning, Restart, StoreError,
};

/// A database file that this process alone holds until this value is dropped.
#[derive(Debug)]
pub struct SqliteStore {
    path: PathBuf,
    writing: SqliteThread,
    reading: SqliteLane,
    distrust: Distrust,
    _lock: File,
}

/// Borrows the reading connection for what only the holder of the lease may read.
macro_rules! read {
    ($self:ident, $key:ident, $conn:ident => $work:expr) => {{
        $self.usable()?;
        async {
            on_lane!($self.reading, $conn => async {
                rows::held($conn, $key).await?;
                $work.await
            })
        }
        .await
        .inspect_err(|e| $self.note(e))
    }};
}

/// Does this on the writing thread, in one transaction.
macro_rules! transact {
    ($self:ident, move |$conn:ident| $work:expr) => {
        $self.writing.call(move |conn| transaction(conn, |$conn| $work)).await
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
        Self::open_with(path, ".lock", true).await
    }

    /// Opens the same file for the tenant's fleet log, beside the sidecar that may be writing in it,
    /// and so upgrades nothing.
    ///
    /// # Errors
    /// As [`Self::open`]; [`StoreError::Broken`] if the schema is that of an earlier build.
    pub async fn open_fleet(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, ".fleet.lock", false).await
    }

    async fn open_with(path: &Path, suffix: &str, upgrades: bool) -> Result<Self, StoreError> {
        files::prepare(path)?;
        let lock = files::lock(path, suffix)?;
        let distrust = Arc::new(Mutex::new(None));
        let store = Self {
            path: path.to_owned(),
            writing: SqliteThread::start(path, &distrust)?,
            reading: SqliteLane::reading(connection(path)),
            distrust,
            _lock: lock,
        };
        match store.start(upgrades).await {
            // If the disk is already full, the reserve lets open outcomes be recorded.
            Err(StoreError::Full(_) | StoreError::Unavailable(_) | StoreError::Unknown(_))
                if files::drain_reserve(path)? =>
            {
                store.start(upgrades).await?;
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
        self.usable()?;
        let found = async { on_lane!(self.reading, conn => fleet::pool(conn, tenant)) }.await?;
        Ok(found.unwrap_or_else(|| {
            let mut own = [0_u8; 8];
            entropy.fill(&mut own);
            format!("local-{}", hex::encode(own))
        }))
    }

    /// Closes the file in order and releases its lock. Dropping it releases the lock at once, and
    /// closes the file after the request that the writing thread has begun.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]; every acknowledged entry is in the file all the same.
    pub async fn close(self) -> Result<(), StoreError> {
        let Self { writing, reading, .. } = self;
        reading.close().await?;
        let lost = |_| StoreError::Unavailable("the storage's thread was lost".into());
        tokio::task::spawn_blocking(move || writing.join()).await.map_err(lost)
    }

    #[cfg(test)]
    pub(super) const fn writing(&self) -> &SqliteThread {
        &self.writing
    }

    async fn start(&self, upgrades: bool) -> Result<(), StoreError> {
        let start = move |conn: &mut _| {
            schema::migrate(conn, upgrades)?;
            // WHY: the WAL of a crashed process may be in the page cache only. The checkpoint
            // writes and syncs it again before anything relies on it.
            steps::first(conn, "PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map(drop)
        };
        self.writing.call_at_length(start).await
    }

    fn usable(&self) -> Result<(), StoreError> {
        self.distrust.lock().clone().map_or(Ok(()), |why| Err(StoreError::Broken(why)))
    }

    fn note(&self, error: &StoreError) {
        if let StoreError::Broken(why) = error {
            *self.distrust.lock() = Some(why.clone());
        }
    }
}

#[async_trait]
impl LedgerStore for SqliteStore {
    async fn lease(&self, request: &LeaseRequest) -> Result<Leased, StoreError> {
        let request = request.clone();
        transact!(self, move |conn| steps::take(conn, &request))
    }

    async fn append(
        &self,
        key: &LeaseKey,
        expected: &HeadRow,
        batch: &Arc<Batch>,
    ) -> Result<(), StoreError> {
        batch.check(expected)?;
        let (key, expected, batch) = (key.clone(), expected.clone(), Arc::clone(batch));
        transact!(self, move |conn| steps::write(conn, &key, &expected, &batch))
    }

    async fn put_payload(&self, key: &LeaseKey, payload: &PayloadRow) -> Result<(), StoreError> {
        let (key, payload) = (key.clone(), payload.clone());
        transact!(self, move |conn| steps::insert_large(conn, held(conn, &key)?.no, &payload))
    }

    async fn release(&self, key: &LeaseKey) -> Result<(), StoreError> {
        // The lock on the file is the lease, so there is nothing to release; only check it.
        read!(self, key, conn => async { Ok(()) })
    }

    async fn head(&self, key: &LeaseKey) -> Result<HeadRow, StoreError> {
        read!(self, key, conn => async { rows::held(conn, key).await?.head() })
    }

    async fn select(
        &self,
        key: &LeaseKey,
        range: EntryRange<'_>,
    ) -> Result<Vec<EntryRow>, StoreError> {
        read!(self, key, conn => rows::entries(conn, &key.chain, range))
    }

    async fn open_runs(&self, key: &LeaseKey) -> Result<Vec<RunId>, StoreError> {
        read!(self, key, conn => rows::open_runs(conn, &key.chain))
    }

    async fn payload(
        &self,
        key: &LeaseKey,
        at: &PayloadRef,
    ) -> Result<Option<PayloadRow>, StoreError> {
        let list = std::slice::from_ref(at);
        Ok(read!(self, key, conn => rows::payloads(conn, &key.chain, list))?.pop())
    }

    async fn fleet_view(
        &self,
        key: &LeaseKey,
        before: Option<&ChainId>,
    ) -> Result<FleetView, StoreError> {
        read!(self, key, conn => fleet::view(conn, key, before))
    }

    async fn signed_at(&self, key: &LeaseKey, size: Seq) -> Result<Option<String>, StoreError> {
        let found = read!(self, key, conn => rows::checkpoints(conn, &key.chain, size, 1))?.pop();
        Ok(found.filter(|(at, _)| *at == size).map(|(_, note)| note))
    }

    async fn fleet_leaves(
        &self,
        key: &LeaseKey,
        from: Seq,
        limit: u32,
    ) -> Result<Vec<Digest>, StoreError> {
        let query = sql("WITH fleet AS MATERIALIZED (SELECT f.no << 40 AS base FROM chain f
                 JOIN chain c ON c.tenant = f.tenant
                WHERE c.chain_id = ?1 AND f.pool = 'fleet' AND NOT f.retired)
              SELECT e.leaf FROM stored_entry e WHERE e.id >= (SELECT base + ?2 FROM fleet)
                 AND e.id < (SELECT base + (1 << 40) FROM fleet) ORDER BY e.id LIMIT ?3");
        let query = query.bytes(key.chain.as_bytes()).number(from).number(limit.into());
        let found = read!(self, key, conn => query.all(conn))?;
        found.iter().map(|row| row.digest("leaf")).collect()
    }

    async fn put_anchor(&self, key: &LeaseKey, anchor: &AnchorRow) -> Result<(), StoreError> {
        let (key, anchor) = (key.clone(), anchor.clone());
        transact!(self, move |conn| steps::put_anchor(conn, &key, &anchor))
    }

    async fn restart(&self, key: &LeaseKey, next: &Restart) -> Result<(), StoreError> {
        let (key, next) = (key.clone(), next.clone());
        transact!(self, move |conn| restart::restart(conn, &key, &next))
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
        let recorded = pruning.clone();
        transact!(self, move |conn| prune::record(conn, &recorded))?;
        for range in prune::portions(pruning) {
            let pruning = pruning.clone();
            let gone = transact!(self, move |conn| prune::portion(conn, &pruning, range))?;
            dropped = dropped.saturating_add(gone);
        }
        Ok(dropped)
    }
}
