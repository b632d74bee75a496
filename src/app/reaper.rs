//! The reaper of the hub: closes what a dead sidecar left open.
//!
//! Only a sidecar that comes back on its own state can take up its runs and held calls again. So
//! the reaper waits: for the grace after the lease ran out, and for as long as a held call of the
//! slot may still be approved. Then open calls become unknown, held ones expired, runs are sealed,
//! and the next sidecar that starts may take the slot.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::hub::HubWriters;
use crate::clock::random32;
use crate::domain::id::ChainId;
use crate::ledger::postgres::PostgresReaper;
use crate::ledger::reap::{self, Abandoned, Closed, SlotWatch};
use crate::ledger::spool;
use crate::ledger::store::{LedgerReader, StoreError};
use crate::ledger::writer_key::Certificate;
use crate::operator::OperatorApi;
use crate::record::chain::WriterStarted;
use crate::record::{Entry, Kind};
use crate::serve::problem::Problem;

/// Slots that are closed at the same time.
const AT_ONCE: usize = 4;
/// The longest pause between two looks.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// What the reaper works with.
pub(super) struct Reaper {
    pub slots: PostgresReaper,
    /// Close slots: their entries are written like those of any writer.
    pub writers: HubWriters,
    pub reader: Arc<dyn LedgerReader>,
    pub operator_api: Arc<OperatorApi>,
    /// How long a slot lies abandoned after its lease ran out.
    pub grace: Duration,
    /// Chains about which the log already says that another key certifies their writers.
    pub foreign: Mutex<BTreeSet<ChainId>>,
}

/// Why the reaper leaves a slot alone for now.
enum KeepReason {
    /// A held call of it may still be approved.
    Held,
    /// Its writers are certified by another enrolment key: an entry of ours would not verify.
    OtherKey,
}

/// Why the state of a slot is unknown.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{}", .0.message)]
    Operators(Problem),
}

impl Reaper {
    /// Looks until `stop`.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        // Often enough to notice every writer that comes back within the grace.
        let pause = (self.grace / 8).clamp(Duration::from_millis(100), LOOK_MAX);
        let mut watch = SlotWatch::new(self.grace, pause.saturating_mul(4));
        let mut closing = JoinSet::new();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(pause) => {}
            }
            while closing.try_join_next().is_some() {}
            let now = self.writers.clock.monotonic();
            let found = match self.slots.abandoned().await {
                Ok(found) => found,
                Err(error) => {
                    tracing::warn!(%error, "the list of abandoned slots cannot be read");
                    watch.missed();
                    continue;
                }
            };
            let free = AT_ONCE.saturating_sub(closing.len());
            for slot in watch.look(now, found, free) {
                let (reaper, stop) = (Arc::clone(&self), stop.clone());
                closing.spawn(async move { reaper.visit(&slot, &stop).await });
            }
        }
        // Each task stops with this loop, its slot closed or left to the next visit.
        while closing.join_next().await.is_some() {}
    }

    /// Closes one slot, unless its sidecar may still come back for it, and logs the outcome.
    async fn visit(&self, slot: &Abandoned, stop: &CancellationToken) {
        let origin = slot.origin.as_str();
        let closed = match self.left(slot).await {
            Ok(None) => self.close(slot, stop).await,
            Ok(Some(KeepReason::Held)) => {
                self.writers.metrics.reaped("held");
                tracing::info!(
                    origin,
                    "an abandoned slot stays open while one of its held calls may still be approved"
                );
                return;
            }
            Ok(Some(KeepReason::OtherKey)) => {
                self.writers.metrics.reaped("other_key");
                if self.foreign.lock().insert(slot.chain) {
                    tracing::warn!(
                        origin,
                        "an abandoned slot stays open: a different enrolment key certifies its writers; \
                         give the hub that key (`fleet.enrolment_key`)"
                    );
                }
                return;
            }
            Err(unseen) => Closed::Later(unseen.to_string()),
        };
        match closed {
            Closed::Whole => {
                self.writers.metrics.reaped("closed");
                tracing::warn!(origin, epoch = slot.epoch, "closed an abandoned slot");
            }
            Closed::Lost(why) => {
                self.writers.metrics.reaped("lost");
                tracing::info!(origin, why, "another process took an abandoned slot");
            }
            Closed::Later(why) => {
                self.writers.metrics.reaped("later");
                tracing::warn!(origin, why, "an abandoned slot could not be closed yet");
            }
            Closed::Distrusted(why) => {
                self.writers.metrics.reaped("distrusted");
                tracing::error!(origin, why, "an abandoned slot cannot be closed");
            }
        }
    }

    /// Whether to leave the slot alone, and why.
    async fn left(&self, slot: &Abandoned) -> Result<Option<KeepReason>, LookError> {
        let kinds = [Kind::WriterStarted.as_str()];
        let rows = self.reader.entries_of(&slot.chain, &kinds).await?;
        let last = rows.last().and_then(|row| Entry::parse(&row.body).ok());
        let certificate = last.as_ref().and_then(|entry| entry.draft.get::<WriterStarted>());
        let ours = |started: &WriterStarted| {
            Certificate::open(&started.certificate, &self.writers.signer.public()).is_some()
        };
        if !certificate.is_some_and(ours) {
            return Ok(Some(KeepReason::OtherKey));
        }
        let until = self.operator_api.held_until(&slot.chain, slot.size).await;
        let until = until.map_err(LookError::Operators)?;
        Ok(until.is_some_and(|until| until >= self.writers.clock.now()).then_some(KeepReason::Held))
    }

    async fn close(&self, slot: &Abandoned, stop: &CancellationToken) -> Closed {
        let settings = &self.writers.settings;
        let (writer, term) = (settings.writer.as_str(), settings.lease_term);
        let secret = random32(&*self.writers.entropy);
        let leased = match self.slots.take(slot, self.grace, (writer, secret), term).await {
            Ok(leased) => leased,
            Err(StoreError::Conflict(why)) => return Closed::Lost(why),
            Err(error) => return Closed::Later(error.to_string()),
        };
        // The slot is not this machine's own, so this machine keeps no journal of it.
        let parts = self.writers.parts(Box::new(spool::NoJournal), None);
        reap::close(settings.clone(), parts, leased, stop).await
    }
}
