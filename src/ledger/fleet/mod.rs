//! The tenant's log of logs: what is done to ledgers from outside the call path, on the books.
//!
//! One chain per tenant in the same ledger, `wicketgate.dev/<tenant>/fleet`: which chains there are,
//! their heads from time to time, keys that changed, evidence that was exported, payloads that were
//! erased. It is small, its key is stable, and it is the only log that witnesses and time stamping
//! authorities see. Whoever has something to record opens it, records, and closes it again.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::drafts::Written;
use super::entry::Draft;
use super::permit::Receipt;
use super::sequencer::Ending;
use super::store::LedgerStore;
use super::writer_key::{LogKeys, Signer};
use super::{Ledger, Parts, Settings, Status, spool};
use crate::clock::{Clock, Entropy};
use crate::telemetry::metrics::Metrics;

/// The pool whose only slot is the fleet log.
pub const POOL: &str = "fleet";
/// How long somebody waits for the fleet log: another may be recording in it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Name of a tenant's fleet log.
#[must_use]
pub fn origin(tenant: &str) -> String {
    format!("wicketgate.dev/{tenant}/{POOL}")
}

/// What the fleet log is written with.
pub struct FleetParts {
    /// Where the ledger is. On SQLite: opened by `Sqlite::open_fleet`.
    pub store: Arc<dyn LedgerStore>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness for ids.
    pub entropy: Arc<dyn Entropy>,
    /// Signs the certificate of the fleet key.
    pub enrolment: Arc<dyn Signer>,
    /// The fleet key, which signs every checkpoint of this log.
    pub key: Arc<dyn Signer>,
    /// During a rotation: the key before, which signs along.
    pub previous: Option<Arc<dyn Signer>>,
    /// What this machine remembers of the log, so that one that was rolled back is not continued.
    pub journal: Box<dyn spool::Journal>,
    /// `default` on one machine.
    pub tenant: String,
}

impl std::fmt::Debug for FleetParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FleetParts").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

/// The fleet log, open for recording.
#[derive(Debug)]
pub struct Fleet {
    ledger: Ledger,
    stop: CancellationToken,
    writer: JoinHandle<Ending>,
}

impl Fleet {
    /// Takes the fleet log's slot, makes the log if there is none, and waits until it can be written.
    ///
    /// # Errors
    /// It cannot be written, or somebody else has been recording in it for half a minute.
    pub async fn open(parts: FleetParts) -> Result<Self, super::Error> {
        let settings =
            Settings { tenant: parts.tenant, pool: POOL.to_owned(), ..Settings::default() };
        let (ledger, writer) = Ledger::new(
            settings,
            Parts {
                store: parts.store,
                clock: parts.clock,
                entropy: parts.entropy,
                signer: parts.enrolment,
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
        let fleet = Self { ledger, stop, writer };
        let ready = status.wait_for(|now| !matches!(now, Status::Starting(_)));
        let why = match tokio::time::timeout(PATIENCE, ready).await {
            Ok(Ok(now)) if *now == Status::Ready => None,
            Ok(Ok(now)) => Some(format!("the fleet log: {now:?}")),
            Ok(Err(_gone)) => Some("the fleet log's writer ended".to_owned()),
            Err(_late) => {
                Some(format!("the fleet log is not ready: {:?}", *fleet.ledger.status().borrow()))
            }
        };
        match why {
            None => Ok(fleet),
            Some(why) => {
                fleet.stop.cancel();
                Err(super::Error::Unavailable(why))
            }
        }
    }

    /// Name of the log.
    #[must_use]
    pub fn origin(&self) -> &str {
        self.ledger.leased().map_or("", |leased| leased.origin.as_str())
    }

    /// Puts something on the books and returns once it is durable.
    ///
    /// # Errors
    /// As [`Ledger::record`].
    pub async fn record(&self, draft: Draft) -> Result<Receipt, super::Error> {
        self.ledger.record(Written::bare(draft)).await
    }

    /// Ends in order and gives the slot back.
    ///
    /// # Errors
    /// Another writer took the slot, or the storage failed; what was recorded is durable all the same.
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
    use crate::crypto::keys::SecretKey;
    use crate::clock::{SystemClock, SystemEntropy};
    use crate::domain::json::Json;
    use crate::ledger::entry::Kind;
    use crate::ledger::sqlite::{Sqlite, SqliteReader};
    use crate::ledger::store::LedgerReader as _;
    use crate::ledger::verify::chain_of;

    #[tokio::test]
    async fn it_is_opened_again_and_again_under_one_key_and_stays_one_chain() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger.db");
        let _sidecar = Sqlite::open(&path).await.unwrap();
        let (enrolment, key) =
            (SecretKey::generate(&SystemEntropy), SecretKey::generate(&SystemEntropy));
        for _ in 0..3 {
            let fleet = Fleet::open(FleetParts {
                store: Arc::new(Sqlite::open_fleet(&path).await.unwrap()),
                clock: Arc::new(SystemClock::new()),
                entropy: Arc::new(SystemEntropy),
                enrolment: Arc::new(enrolment.clone()),
                key: Arc::new(key.clone()),
                previous: None,
                journal: Box::new(spool::NoJournal),
                tenant: "default".to_owned(),
            })
            .await
            .unwrap();
            assert_eq!(fleet.origin(), "wicketgate.dev/default/fleet");
            let public = base64::Engine::encode(
                &base64::engine::general_purpose::STANDARD,
                key.public().to_bytes(),
            );
            let data = Json::object([
                ("use", Json::from("evidence")),
                ("old", Json::from(public.as_str())),
                ("new", Json::from(public.as_str())),
            ]);
            fleet.record(Draft::of(Kind::KeyRotated, data)).await.unwrap();
            fleet.close().await.unwrap();
        }
        let reader = SqliteReader::open(&path).await.unwrap();
        let row = reader.chains().await.unwrap().remove(0);
        crate::crypto::note::Checkpoint::open(&row.head.checkpoint, &key.public()).unwrap();
        let report = chain_of(&reader, &row, &[enrolment.public()], &|_| ()).await.unwrap();
        assert_eq!((report.damage, report.entries), (None, 10));
    }
}
