//! The writer alone: entries per second through the real sequencer, stores, journal and spool.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use wicketgate::clock::{SystemClock, SystemEntropy};
use wicketgate::crypto::keys::SecretKey;
use wicketgate::ledger::drafts::DraftWithPayloads;
use wicketgate::ledger::postgres::{self, PostgresStore};
use wicketgate::ledger::spool::{HeadFile, Journal, Spool};
use wicketgate::ledger::sqlite::SqliteStore;
use wicketgate::ledger::store::LedgerStore;
use wicketgate::ledger::{Ledger, LedgerParts, LedgerSettings};
use wicketgate::record::Draft;
use wicketgate::record::chain::RequestRejected;
use wicketgate::telemetry::metrics::Metrics;

use crate::load::{self, Seen};
use crate::table::{Row, Table, Target};
use crate::{Plan, floor, pg};

/// A chain that is being written.
pub struct Open {
    /// Its handle.
    pub ledger: Ledger,
    stop: CancellationToken,
    writing: tokio::task::JoinHandle<()>,
}

/// Starts a writer on this store.
pub async fn open(store: Arc<dyn LedgerStore>, journal: Box<dyn Journal>, slot: &str) -> Open {
    let parts = LedgerParts {
        store,
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        signer: Arc::new(SecretKey::generate(&SystemEntropy)),
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

/// So many callers, spread over these ledgers.
pub async fn drive(plan: &Plan, ledgers: &[Ledger], callers: usize) -> Seen {
    let callers = (0..callers).map(|n| ledgers[n % ledgers.len()].clone()).collect();
    load::drive(callers, plan.warm, plan.each, |ledger: Ledger, _| async move {
        // One that was refused is asked for again, and its time goes on.
        while ledger.record(entry()).await.is_err() {}
        ledger
    })
    .await
}

/// Prints the writer's rows.
pub async fn measure(plan: &Plan, dir: &Path, table: &mut Table) {
    let database = pg::Pg::cluster().database().await;
    let naive = floor::naive_chain(&database.admin_url, 32, plan.each).await;
    let naive_words = format!("naive chain, 32 clients: {}", naive.words("entries"));
    let open_postgres = async |slot: &str| {
        let spool = Spool::open(&dir.join(format!("spool-{slot}"))).unwrap();
        let store =
            PostgresStore::connect(&database.writer_url, postgres::Options::default()).await;
        open(Arc::new(store.unwrap()), Box::new(spool), slot).await
    };
    let file = dir.join("writer.sqlite");
    let sqlite = Arc::new(SqliteStore::open(&file).await.unwrap());
    let journal = HeadFile::open(&dir.join("writer.head")).unwrap();
    let sqlite = open(sqlite, Box::new(journal), "local").await;
    let postgres = open_postgres("local").await;
    for (name, database) in [("SQLite", &sqlite), ("Postgres", &postgres)] {
        for callers in [1, 16, 32, 128, 1024] {
            let seen = drive(plan, std::slice::from_ref(&database.ledger), callers).await;
            let target = (name == "Postgres" && callers == 32).then_some(Target::AtLeast(40.0));
            table.add(row(name, callers, &seen, &naive, &naive_words, target));
        }
    }
    sqlite.close().await;
    let mut more = vec![postgres];
    for slot in ["local2", "local3", "local4"] {
        more.push(open_postgres(slot).await);
    }
    let ledgers: Vec<_> = more.iter().map(|o| o.ledger.clone()).collect();
    let seen = drive(plan, &ledgers, 400).await;
    let name = "Postgres, 4 chains";
    table.add(row(name, 400, &seen, &naive, &naive_words, Some(Target::AtLeast(80.0))));
    for open in more {
        open.close().await;
    }
}

fn row(
    store: &str,
    callers: usize,
    seen: &Seen,
    naive: &Seen,
    words: &str,
    target: Option<Target>,
) -> Row {
    Row {
        what: format!("writer, {store}, {callers} callers, {} B entries", floor::ENTRY_BYTES),
        ours: seen.words("entries"),
        floor: words.to_owned(),
        ratio: Some(seen.per_second / naive.per_second),
        target,
    }
}
