//! Which store, journal and settings the writer works with, from the configuration.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::checked::{self, Checked};
use super::control::OrderList;
use super::{Error, LedgerError, System, fleet};
use crate::clock::Entropy;
use crate::config;
use crate::ledger::postgres::PostgresStore;
use crate::ledger::spool::{HeadFile, Journal, LeaseFile, Spool};
use crate::ledger::sqlite::SqliteStore;
use crate::ledger::store::LedgerStore;
use crate::ledger::{LedgerParts, LedgerSettings, TrustRule, postgres};

/// The writer's parts.
pub(super) struct WriterSetup {
    pub settings: LedgerSettings,
    pub parts: LedgerParts,
    pub list: OrderList,
}

struct Chosen {
    store: Arc<dyn LedgerStore>,
    journal: Box<dyn Journal>,
    durability: Vec<(String, String)>,
    tenant: String,
    slots: String,
    lease: Duration,
}

pub(super) async fn open(checked: &Checked) -> Result<WriterSetup, Error> {
    let config = &checked.config;
    let chosen = match &config.ledger {
        config::Ledger::Sqlite(sqlite) => sqlite_writer(sqlite, &*checked.entropy).await?,
        config::Ledger::Postgres(postgres) => postgres_writer(postgres)?,
    };
    let list = OrderList::open(config).await?;
    let host = checked::host();
    let settings = LedgerSettings {
        tenant: chosen.tenant,
        pool: chosen.slots,
        writer: checked.writer(),
        pod: host,
        queue_wait: Duration::from_millis(config.limits.queue_wait_ms),
        commit_wait: Duration::from_millis(config.limits.commit_wait_ms),
        durability: chosen.durability,
        configured: configured(config),
        lease_term: chosen.lease,
        // An idle writer commits well within its lease: every 10 s of 15.
        heartbeat: chosen.lease.saturating_mul(2) / 3,
        vault: config.vault().map_err(Error::wrong)?,
        anchor_file: config.fleet.anchor_file.clone(),
        alerts: config.alerts.rules(),
        accept_clock_step: config.accept_clock_step,
        marks: Some(Arc::clone(&checked.tokens)),
        trust: Some(TrustRule { window: config.trust.score_window(), input: config.trust.input }),
        sights: fleet::sights(config).map_err(Error::wrong)?,
        ..LedgerSettings::default()
    };
    let signer = Arc::clone(&checked.enrolment);
    let parts = LedgerParts {
        store: chosen.store,
        clock: Arc::clone(&checked.clock),
        entropy: Arc::clone(&checked.entropy),
        signer,
        log_key: None,
        journal: chosen.journal,
        lease_file: Some(LeaseFile::at(config.state.join("lease"))),
        metrics: Arc::clone(&checked.metrics),
    };
    Ok(WriterSetup { settings, parts, list })
}

/// What an auditor should know of the configuration: the archive that it is from.
pub(super) fn configured(config: &config::Config) -> Vec<(String, String)> {
    let archived = config.archived.as_ref();
    archived.map(|one| ("archive".to_owned(), one.digest().prefixed())).into_iter().collect()
}

async fn sqlite_writer(sqlite: &config::Sqlite, entropy: &dyn Entropy) -> Result<Chosen, Error> {
    let path = || Some(sqlite.path.display().to_string());
    let unopened = |source| LedgerError { source, path: path() };
    let store = SqliteStore::open(&sqlite.path).await.map_err(unopened)?;
    let tenant = "default".to_owned();
    let slots = store.pool(&tenant, entropy).await.map_err(unopened)?;
    let mut mark = sqlite.path.clone().into_os_string();
    mark.push(".head");
    let journal = HeadFile::open(mark.as_ref()).map_err(System::from)?;
    let durability = [("engine", "sqlite"), ("journal_mode", "wal"), ("synchronous", "full")];
    Ok(Chosen {
        store: Arc::new(store),
        journal: Box::new(journal),
        durability: durability.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec(),
        tenant,
        slots,
        lease: LedgerSettings::default().lease_term,
    })
}

/// Waits for the database for as long as it takes: a sidecar may start before it.
fn postgres_writer(config: &config::Postgres) -> Result<Chosen, Error> {
    let spool = spool(&config.spool)?;
    let store = PostgresStore::lazy(config.connect.expose(), postgres::Options::default())
        .map_err(|source| LedgerError { source, path: None })?;
    let accepted_loss = config.accept_failover_loss.to_string();
    Ok(Chosen {
        store: Arc::new(store),
        journal: Box::new(spool),
        durability: vec![
            ("engine".to_owned(), "postgres".to_owned()),
            ("spool".to_owned(), "on".to_owned()),
            ("accept_failover_loss".to_owned(), accepted_loss),
        ],
        tenant: config.tenant.clone(),
        slots: config.slots.clone(),
        lease: Duration::from_secs(config.lease_seconds),
    })
}

/// The spool of a writer.
pub(super) fn spool(path: &Path) -> Result<Spool, System> {
    let shown = || path.display().to_string();
    let opened = Spool::open(path);
    opened.map_err(|source| System::Directory { what: "spool", path: shown(), source })
}
