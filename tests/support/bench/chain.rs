//! A ledger that a bench writes to: the real sequencer, store and journal.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wicketgate_crypto::keys::SecretKey;
use wicketgate_gate::ledger::drafts::DraftWithPayloads;
use wicketgate_gate::ledger::spool::Journal;
use wicketgate_gate::ledger::store::LedgerStore;
use wicketgate_gate::ledger::{Ledger, LedgerParts, LedgerSettings};
use wicketgate_gate::telemetry::metrics::Metrics;
use wicketgate_record::Draft;
use wicketgate_record::chain::RequestRejected;
use wicketgate_record::clock::{SystemClock, SystemEntropy};

use super::floor;
use super::load::{self, Seen};

/// A chain that is being written.
pub struct Open {
    /// Its handle.
    pub ledger: Ledger,
    stop: CancellationToken,
    writing: tokio::task::JoinHandle<()>,
}

/// Starts a writer on this store, under a key of its own.
pub async fn open(store: Arc<dyn LedgerStore>, journal: Box<dyn Journal>, slot: &str) -> Open {
    open_under(SecretKey::generate(&SystemEntropy), store, journal, slot).await
}

/// Starts a writer on this store that this key certifies.
pub async fn open_under(
    enrolment: SecretKey,
    store: Arc<dyn LedgerStore>,
    journal: Box<dyn Journal>,
    slot: &str,
) -> Open {
    let parts = LedgerParts {
        store,
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        signer: Arc::new(enrolment),
        log_key: None,
        journal,
        lease_file: None,
        metrics: Arc::new(Metrics::new([], "0", "bench")),
    };
    let settings =
        LedgerSettings { queue_max: 4096, pool: slot.to_owned(), ..LedgerSettings::default() };
    let (ledger, writer) = Ledger::new(settings, parts);
    let stop = CancellationToken::new();
    let (recovered, ready) = oneshot::channel();
    let until = stop.clone();
    let writing = tokio::spawn(async move { drop(writer.run(until, recovered).await) });
    drop(ready.await.expect("the writer starts"));
    Open { ledger, stop, writing }
}

impl Open {
    /// Ends it in order.
    pub async fn close(self) {
        self.stop.cancel();
        drop(self.writing.await);
    }
}

/// An entry whose canonical bytes are about `floor::ENTRY_BYTES`.
pub fn entry() -> DraftWithPayloads {
    let padding = "x".repeat(floor::ENTRY_BYTES - 330);
    let (code, first, last) = (padding.into(), "".into(), "".into());
    DraftWithPayloads::bare(Draft::of(RequestRejected { code, count: 1_u64.into(), first, last }))
}

/// Records so many entries, many at a time.
pub async fn fill(ledger: &Ledger, entries: u64) {
    const AT_ONCE: u64 = 2048;
    let mut writing = tokio::task::JoinSet::new();
    for one in 0..AT_ONCE.min(entries) {
        let ledger = ledger.clone();
        writing.spawn(async move {
            for _ in (one..entries).step_by(AT_ONCE as usize) {
                while ledger.record(entry()).await.is_err() {}
            }
        });
    }
    writing.join_all().await;
}

/// Measures so many callers, spread over these ledgers, for `each` after `warm`.
pub async fn drive(warm: Duration, each: Duration, ledgers: &[Ledger], callers: usize) -> Seen {
    let callers = (0..callers).map(|n| ledgers[n % ledgers.len()].clone()).collect();
    load::drive(callers, warm, each, |ledger: Ledger, _| async move {
        // One that was refused is asked for again, and its time goes on.
        while ledger.record(entry()).await.is_err() {}
        ledger
    })
    .await
}
