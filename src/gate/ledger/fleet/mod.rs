//! The tenant's log of logs: records what happens to ledgers outside the call path.
//!
//! One chain per tenant in the same ledger, `wicketgate.dev/<tenant>/fleet`. It records the
//! tenant's chains and, from time to time, their heads; changed keys; exported evidence; erased
//! payloads. It is small, its key is stable, and it is the only log that witnesses and time
//! stamping authorities see. A process opens it to record something and then closes it again.

pub mod anchor;
pub mod file;
pub mod observed_heads;
pub mod port;
pub mod restart;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::drafts::DraftWithPayloads;
use super::enrolment::Local;
use super::permit::Receipt;
use super::sequencer::Ending;
use super::store::{AnchorRow, LedgerStore};
use super::writer_key::{LogKeys, Signer};
use super::{Ledger, LedgerParts, LedgerSettings, LedgerStatus, spool};
use crate::clock::{Clock, Entropy};
use crate::record::Draft;
use crate::record::debug_by;
use crate::telemetry::metrics::Metrics;

/// The pool whose only slot is the fleet log.
pub const POOL: &str = "fleet";
/// How long a process waits for the fleet log while another one records in it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Name of a tenant's fleet log.
pub fn origin(tenant: &str) -> String {
    format!("wicketgate.dev/{tenant}/{POOL}")
}

/// What a process needs to write the fleet log.
pub struct FleetParts {
    /// The ledger. On SQLite: opened by `Sqlite::open_fleet`.
    pub store: Arc<dyn LedgerStore>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids.
    pub entropy: Arc<dyn Entropy>,
    /// Signs the certificate of the fleet key.
    pub enrolment: Arc<dyn Signer>,
    /// The fleet key, which signs every checkpoint of this log.
    pub key: Arc<dyn Signer>,
    /// During a rotation: the previous key, which signs too.
    pub previous: Option<Arc<dyn Signer>>,
    /// The file with the newest head that others have seen, if configured.
    pub anchor_file: Option<PathBuf>,
    /// Witnesses to ask what they have seen of the log before anything is written to it.
    pub sights: Vec<port::WitnessSight>,
    /// What this machine remembers of the log, so that it does not continue one that was rolled
    /// back.
    pub journal: Box<dyn spool::Journal>,
    /// `default` on one machine.
    pub tenant: String,
}

debug_by!(FleetParts: tenant);

/// Why the fleet log is not open.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The log differs from what others saw: it was set back, replaced or damaged. Nothing was
    /// written.
    #[error("the fleet log: {0}")]
    Distrusted(String),
    /// It cannot be written, or another process has been recording in it for half a minute.
    #[error("the fleet log is not ready: {0}")]
    Unavailable(String),
}

/// The fleet log, open for recording.
pub struct OpenFleetLog {
    ledger: Ledger,
    store: Arc<dyn LedgerStore>,
    stop: CancellationToken,
    writer: JoinHandle<Ending>,
}

debug_by!(OpenFleetLog: ledger);

impl OpenFleetLog {
    /// Takes the fleet log's slot, creates the log if necessary, and waits until it is writable.
    ///
    /// # Errors
    /// [`OpenError`].
    pub async fn open(parts: FleetParts) -> Result<Self, OpenError> {
        let settings = LedgerSettings {
            tenant: parts.tenant,
            pool: POOL.to_owned(),
            anchor_file: parts.anchor_file,
            sights: parts.sights,
            ..LedgerSettings::default()
        };
        let store = Arc::clone(&parts.store);
        let (ledger, writer) = Ledger::new(
            settings,
            LedgerParts {
                store: parts.store,
                clock: parts.clock,
                entropy: parts.entropy,
                signer: Arc::new(Local(parts.enrolment)),
                log_key: Some(LogKeys { key: parts.key, also: parts.previous }),
                journal: parts.journal,
                lease_file: None,
                metrics: Arc::new(Metrics::new([], env!("CARGO_PKG_VERSION"), "source")),
            },
        );
        let stop = CancellationToken::new();
        let (runs, _no_runs_here) = oneshot::channel();
        let writer = writer.spawn(stop.clone(), runs);
        let mut status = ledger.status();
        let fleet = Self { ledger, store, stop, writer };
        let ready = status.wait_for(|now| !matches!(now, LedgerStatus::Starting(_)));
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        let found = match ready {
            Ok(Ok(now)) => now.clone(),
            Ok(Err(_)) | Err(_) => fleet.ledger.status().borrow().clone(),
        };
        let failed = match found {
            LedgerStatus::Ready => return Ok(fleet),
            LedgerStatus::Broken(why) => OpenError::Distrusted(why),
            LedgerStatus::Starting(why)
            | LedgerStatus::Fenced(why)
            | LedgerStatus::Failing(why) => OpenError::Unavailable(why),
            LedgerStatus::Full => OpenError::Unavailable("no space".to_owned()),
            LedgerStatus::Stopped => OpenError::Unavailable("its writer ended".to_owned()),
        };
        fleet.stop.cancel();
        Err(failed)
    }

    /// Name of the log.
    pub fn origin(&self) -> &str {
        self.ledger.leased().map_or("", |leased| leased.origin.as_str())
    }

    /// Records an entry and returns once it is durable.
    ///
    /// # Errors
    /// As [`Ledger::record`]. An entry that violates its schema is refused before it is written: no
    /// verifier could read the log after it, and the log never drops an entry.
    pub async fn record(&self, draft: Draft) -> Result<Receipt, super::Error> {
        self.ledger.record(DraftWithPayloads::bare(draft)).await
    }

    /// Stores cosignatures and stamps over one of this log's heads, where exports find them.
    ///
    /// # Errors
    /// The store failed.
    pub async fn keep(&self, anchor: &AnchorRow) -> Result<(), super::Error> {
        let unavailable = |why: String| super::Error::Unavailable(why);
        let key = self.ledger.leased().map(|leased| &leased.key);
        let key = key.ok_or_else(|| unavailable("the fleet log is not open".into()))?;
        self.store.put_anchor(key, anchor).await.map_err(|e| unavailable(e.to_string()))
    }

    /// Ends in order and releases the slot.
    ///
    /// # Errors
    /// Another writer took the slot, or the storage failed; recorded entries are durable all the
    /// same.
    pub async fn close(self) -> Result<(), super::Error> {
        self.stop.cancel();
        match self.writer.await {
            Ok(Ending::Stopped) => Ok(()),
            Ok(Ending::Fenced(why) | Ending::Broken(why)) => Err(super::Error::Unavailable(why)),
            Err(_panicked) => Err(super::Error::Unknown),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{SystemClock, SystemEntropy};
    use crate::crypto::keys::SecretKey;
    use crate::ledger::sqlite::{SqliteReader, SqliteStore};
    use crate::ledger::store::LedgerReader as _;
    use crate::ledger::verify::chain_of;
    use crate::record::Base64;
    use crate::record::fleet::{KeyRotated, KeyUse};

    #[tokio::test]
    async fn it_is_opened_again_and_again_under_one_key_and_stays_one_chain() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let _sidecar = SqliteStore::open(&path).await.unwrap();
        let (enrolment, key) =
            (SecretKey::generate(&SystemEntropy), SecretKey::generate(&SystemEntropy));
        for _ in 0..3 {
            let fleet = OpenFleetLog::open(FleetParts {
                store: Arc::new(SqliteStore::open_fleet(&path).await.unwrap()),
                clock: Arc::new(SystemClock::new()),
                entropy: Arc::new(SystemEntropy),
                enrolment: Arc::new(enrolment.clone()),
                key: Arc::new(key.clone()),
                previous: None,
                anchor_file: None,
                sights: Vec::new(),
                journal: Box::new(spool::NoJournal),
                tenant: "default".to_owned(),
            })
            .await
            .unwrap();
            assert_eq!(fleet.origin(), "wicketgate.dev/default/fleet");
            let same = Base64(key.public().to_bytes());
            let rotated = KeyRotated { new: same, old: same, r#use: KeyUse::Evidence };
            fleet.record(Draft::of(rotated)).await.unwrap();
            fleet.close().await.unwrap();
        }
        let reader = SqliteReader::open(&path).await.unwrap();
        let row = reader.chains().await.unwrap().remove(0);
        crate::crypto::note::Checkpoint::open(&row.head.checkpoint, &key.public()).unwrap();
        let report = chain_of(&reader, &row, &[enrolment.public()], &|_| ()).await.unwrap();
        assert_eq!((report.damage, report.entries), (None, 10));
    }
}
