//! What the operator API exports evidence and erases payloads with.
//!
//! Each request opens its own readers and closes them at its end, so that a long export delays no
//! order. The tenant's fleet log records both, under the name of the operator who asked.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::operators::Operator;
use super::{Cause, OperatorApi, exports};
use crate::approval::Approvers;
use crate::crypto::signer::Signer;
use crate::domain::code::Code;
use crate::evidence::artifacts::Artifacts;
use crate::evidence::trust::Trust;
use crate::ledger::fleet::FleetParts;
use crate::ledger::retention::PayloadEraser;
use crate::ledger::store::{LedgerReader, StoreError};
use crate::serve::problem::Problem;

/// When a client refused because of another's export may try again.
const RETRY: Duration = Duration::from_secs(5);

/// Opens the ledger that the operator API exports from and erases in.
#[async_trait]
pub trait Archive: Send + Sync {
    /// Opens the ledger for reading; closed when it is dropped.
    async fn reader(&self) -> Result<Arc<dyn LedgerReader>, StoreError>;

    /// Opens the payloads for deleting. `None`: this process may not.
    async fn eraser(&self) -> Result<Option<Arc<dyn PayloadEraser>>, StoreError>;

    /// The current list of approvers whose orders to erase and to end a hold count; it is kept for
    /// evidence.
    ///
    /// # Errors
    /// No list is configured, or no approver on it counts.
    async fn approvers(&self) -> Result<Approvers, Cause>;

    /// The parts to write the fleet log; opening it is left to the caller.
    ///
    /// # Errors
    /// A key or the store cannot be used.
    async fn fleet(&self) -> Result<FleetParts, Cause>;

    /// The keys whose signatures this process trusts in its ledger, for a verification of it.
    ///
    /// # Errors
    /// A key cannot be read.
    async fn trust(&self) -> Result<Trust, Cause> {
        Ok(Trust::default())
    }
}

/// What the operator API needs for evidence and erasure.
pub struct Evidence {
    /// The ledger.
    pub archive: Arc<dyn Archive>,
    /// The evidence key: signs bundles and receipts.
    pub key: Arc<dyn Signer>,
    /// Policy bundles and manifests by digest.
    pub artifacts: Artifacts,
    /// A directory that only this process uses, for a bundle until it is sent.
    pub scratch: PathBuf,
    /// How long backups keep erased payloads.
    pub backups: Duration,
    /// `sqlite` or `postgres`.
    pub store: &'static str,
}

crate::record::debug_by!(Evidence: store);

/// The evidence, with semaphores that limit its use.
#[derive(Debug)]
pub(super) struct EvidenceService {
    pub(super) evidence: Evidence,
    /// One export at a time: each holds its bundle in memory until it is written.
    pub(super) exporting: Arc<Semaphore>,
    /// One erasure or hold at a time: each holds the fleet log.
    erasing: Arc<Semaphore>,
    /// Operators whose verification of the ledger runs.
    pub(super) auditing: parking_lot::Mutex<BTreeSet<String>>,
}

impl OperatorApi {
    /// Enables exports and erasures. The first call counts; later ones change nothing.
    pub fn allow_evidence(&self, evidence: Evidence) {
        // A crash can leave a bundle in the clear: remove it now rather than at the next export.
        if let Err(error) = exports::sweep(&evidence.scratch, |_| true) {
            tracing::warn!(%error, "the temporary files of an export cannot be removed");
        }
        let one = || Arc::new(Semaphore::new(1));
        let auditing = parking_lot::Mutex::default();
        let service = EvidenceService { evidence, exporting: one(), erasing: one(), auditing };
        drop(self.evidence.set(Arc::new(service)));
    }

    /// Whether exports, erasures and verifications are possible here.
    pub(crate) fn has_evidence(&self) -> bool {
        self.evidence.get().is_some()
    }

    pub(super) fn evidence(&self) -> Result<Arc<EvidenceService>, Problem> {
        self.evidence.get().map(Arc::clone).ok_or_else(|| {
            let message = "no evidence key is configured here (`evidence.key`)";
            self.refused(Code::RequestMalformed, "evidence.none", message)
        })
    }

    /// The only place to export.
    pub(super) fn export_place(
        &self,
        service: &EvidenceService,
    ) -> Result<OwnedSemaphorePermit, Problem> {
        self.place(&service.exporting, "export.busy", "another export is being made or sent")
    }

    /// The only place to erase and to hold.
    pub(super) fn erasure_place(
        &self,
        service: &EvidenceService,
    ) -> Result<OwnedSemaphorePermit, Problem> {
        self.place(&service.erasing, "erasure.busy", "another erasure or hold is being recorded")
    }

    fn place(
        &self,
        permits: &Arc<Semaphore>,
        detail: &str,
        message: &str,
    ) -> Result<OwnedSemaphorePermit, Problem> {
        Arc::clone(permits).try_acquire_owned().map_err(|_taken| {
            let problem = Problem::new(Code::LimitExceeded, detail, message);
            self.refuse(problem.after(RETRY))
        })
    }
}

/// The requester's name in the fleet log and in bundles: proved by a credential, unlike the name in
/// a command.
pub(super) fn by(who: &Operator) -> String {
    format!("operator:{}", who.subject)
}
