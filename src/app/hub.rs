//! The hub: the operator API of a tenant, in front of one database. No call passes through it.
//!
//! It keeps no state: two hubs may run. Each writes a chain of its own in the pool `hub`, which
//! records every order it took. Without a hub operators cannot give orders, and running calls go
//! on.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::certificates::ListenerTls;
use super::hub_reload::HubReload;
use super::reaper::Reaper;
use super::{Ended, Error, GateRequest, Signals, System, checked, enrolment, fleet, operators};
use crate::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::config::enrolment::Registry;
use crate::config::{self, Config};
use crate::control;
use crate::crypto::private;
use crate::ledger::enrolment::Local;
use crate::ledger::postgres::{self, PostgresReader, PostgresReaper, PostgresStore};
use crate::ledger::sequencer::Ending;
use crate::ledger::spool::{Journal, LeaseFile};
use crate::ledger::store::LedgerStore;
use crate::ledger::writer_key::Signer;
use crate::ledger::{Ledger, LedgerParts, LedgerSettings, LedgerStatus};
use crate::operator::enrolment::Registrar;
use crate::operator::operators::Operators;
use crate::operator::{self, OperatorApi};
use crate::serve::Readiness;
use crate::serve::operator as operator_listener;
use crate::serve::tls::Tls;
use crate::session::PostgresSessions;
use crate::telemetry::MetricsSource;
use crate::telemetry::metrics::Metrics;

/// The pool of the slots of hubs.
const POOL: &str = "hub";

/// Runs the hub until a signal or a fatal end.
///
/// # Errors
/// It did not start.
pub fn hub(config: Config, json_logs: bool) -> Result<Ended, Error> {
    super::to_the_end(config, json_logs, run)
}

async fn run(config: Config, exported: MetricsSource) -> Result<Ended, Error> {
    let mut signals = Signals::install().map_err(System::from)?;
    if config.enrolment.is_some() {
        let why = "enrolment: remove this section; a hub certifies itself and others, so it needs `fleet.enrolment_key`";
        return Err(Error::wrong(why));
    }
    let operators = Operators::load(&config.operators)
        .map_err(|problems| Error::Config(problems.iter().map(ToString::to_string).collect()))?;
    if operators.is_empty() {
        return Err(Error::wrong(
            "operators: none is configured, so the hub would answer no request",
        ));
    }
    let hook = operators::webhook(&config)?;
    let metrics = Arc::new(Metrics::new([], env!("CARGO_PKG_VERSION"), "source"));
    exported.set(&metrics);
    let writers = HubWriters::of(&config, &metrics)?;
    let (ledger, writer) = open_ledger(&config, &writers)?;
    let reader = reader(&config).await?;
    let enrols = Arc::<PostgresReader>::clone(&reader);
    let api = Arc::new(operator_api(&config, operators, &ledger, (&writers, &reader)).await?);
    let stop = CancellationToken::new();
    let reaping = reaper(&config, &writers, reader, &api)?;
    let reaping = tokio::spawn(Arc::new(reaping).run(stop.clone()));
    let (ready_out, readiness) = watch::channel(Readiness::default());
    let settings = config.operator.listener(&config.console).map_err(Error::wrong)?;
    let tls = settings.tls.clone();
    let view = operator_listener::OperatorView { readiness, metrics };
    let parts = |registry: &Registry| enrolling(registry, &writers, (&ledger, enrols));
    let registry = config.hub.enrolment.as_ref();
    let registry = enrolment::registry(registry, view.clone(), parts, stop.clone())?;
    let enrolled = registry.as_ref().and_then(|open| open.tls.clone());
    let listeners = [("operator.tls", tls.clone()), ("hub.enrolment.tls", enrolled)];
    let certificates = certified(&api, listeners, &writers);
    let listener =
        operator_listener::serve_with(settings, view, Some(Arc::clone(&api)), stop.clone());
    let listener = listener.map_err(System::from)?;
    tracing::info!(addr = %listener.address(), tls = tls.is_some(), "operator API listening");
    let (recovered_out, _recovered) = oneshot::channel();
    let mut writing = tokio::spawn(writer.run(stop.clone(), recovered_out));
    let tasks = operators::tasks(&api, (hook, config.evidence.sealed.clone()), &stop);
    let watch = HubWatch {
        readiness: ready_out,
        certificates,
        reload: HubReload::new(config),
        api,
        registrar: registry.as_ref().map(|open| Arc::clone(&open.registrar)),
        metrics: Arc::clone(&writers.metrics),
    };
    let ended = watch.until_end(&ledger, &mut signals, (&mut writing, &stop)).await;
    stop.cancel();
    for task in tasks {
        drop(task.await);
    }
    // The reaper finishes the slot it is closing, or leaves it to the next visit; no receiver waits
    // long for it.
    drop(tokio::time::timeout(Duration::from_secs(5), reaping).await);
    let closing = move || {
        let registry = registry.map(|open| open.running);
        std::iter::once(listener).chain(registry).for_each(operator_listener::Running::join);
    };
    drop(tokio::task::spawn_blocking(closing).await);
    Ok(ended)
}

/// The certificates of the listeners; operators see when each ends.
fn certified(
    api: &OperatorApi,
    listeners: [(&'static str, Option<Tls>); 2],
    writers: &HubWriters,
) -> ListenerTls {
    let certificates = ListenerTls::new(listeners, &writers.clock, &writers.metrics);
    api.allow_expirations(Arc::new(certificates.ends()));
    certificates
}

/// What the registrar works with.
fn enrolling(
    registry: &Registry,
    writers: &HubWriters,
    (ledger, reader): (&Ledger, Arc<PostgresReader>),
) -> operator::enrolment::RegistrarParts {
    let counted = Arc::clone(&writers.metrics);
    operator::enrolment::RegistrarParts {
        pools: registry.pools(),
        reviewer: registry.reviewer(),
        term: registry.term(),
        signer: Arc::clone(&writers.signer),
        ledger: ledger.clone(),
        reader,
        clock: Arc::clone(&writers.clock),
        reject: Arc::new(move |code| counted.rejected(code.as_str())),
        tenant: writers.settings.tenant.clone(),
    }
}

/// What a running hub looks after.
struct HubWatch {
    readiness: watch::Sender<Readiness>,
    certificates: ListenerTls,
    reload: HubReload,
    api: Arc<OperatorApi>,
    registrar: Option<Arc<Registrar>>,
    metrics: Arc<Metrics>,
}

impl HubWatch {
    /// Until a signal, or the end of the writer.
    async fn until_end(
        mut self,
        ledger: &Ledger,
        signals: &mut Signals,
        (writing, stop): (&mut JoinHandle<Ending>, &CancellationToken),
    ) -> Ended {
        let mut interval = tokio::time::interval(super::running::LOOK);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut status = ledger.status();
        loop {
            self.report(&status.borrow_and_update());
            tokio::select! {
                biased;
                ending = &mut *writing => return super::running::ended(ending),
                ask = signals.next() => match ask {
                    GateRequest::Stop => {
                        stop.cancel();
                        let within = Duration::from_secs(5);
                        let ending = tokio::time::timeout(within, writing).await;
                        return ending.map_or(Ended::Stopped, super::running::ended);
                    }
                    GateRequest::Reload => self.reload.begin(),
                },
                changed = status.changed() => if changed.is_err() { return Ended::Stopped },
                read = self.reload.outcome() => {
                    self.reload.finish(read, (&self.api, self.registrar.as_deref()), &self.metrics);
                }
                _ = interval.tick() => {
                    self.certificates.look();
                    self.reload.look();
                }
            }
        }
    }

    /// A hub is ready when it can record enrolments and orders.
    fn report(&self, status: &LedgerStatus) {
        let of_ledger = (*status != LedgerStatus::Ready).then(|| format!("ledger: {status:?}"));
        let reasons: Vec<String> =
            of_ledger.into_iter().chain(self.certificates.reasons()).collect();
        let mut notes = self.certificates.notes();
        notes.extend_from_slice(self.reload.notes());
        let next = Readiness { started: true, ready: reasons.is_empty(), reasons, notes };
        super::health::publish(&self.readiness, next);
    }
}

fn postgres_of(config: &Config) -> Result<&config::Postgres, Error> {
    match &config.ledger {
        config::Ledger::Postgres(postgres) => Ok(postgres),
        config::Ledger::Sqlite(_) => {
            let why =
                "ledger: a hub needs `postgres`; on SQLite the sidecar answers operators itself";
            Err(Error::wrong(why))
        }
    }
}

/// What every writer of the hub is made from.
#[derive(Clone)]
pub(super) struct HubWriters {
    pub store: Arc<dyn LedgerStore>,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub signer: Arc<dyn Signer>,
    pub metrics: Arc<Metrics>,
    pub settings: LedgerSettings,
}

impl HubWriters {
    fn of(config: &Config, metrics: &Arc<Metrics>) -> Result<Self, Error> {
        let at = postgres_of(config)?;
        checked::private_dir(&config.state)?;
        let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
        let store = PostgresStore::lazy(at.connect.expose(), postgres::Options::default());
        let store = store.map_err(System::ledger)?;
        let host = checked::host();
        let lease = Duration::from_secs(at.lease_seconds);
        let settings = LedgerSettings {
            tenant: at.tenant.clone(),
            pool: POOL.to_owned(),
            writer: format!("{host}/{}", std::process::id()),
            pod: host,
            durability: vec![("engine".to_owned(), "postgres".to_owned())],
            configured: super::writer::configured(config),
            lease_term: lease,
            heartbeat: lease.saturating_mul(2) / 3,
            anchor_file: config.fleet.anchor_file.clone(),
            sights: fleet::sights(config).map_err(Error::wrong)?,
            ..LedgerSettings::default()
        };
        Ok(Self {
            store: Arc::new(store),
            clock: Arc::new(SystemClock::new()),
            signer: checked::enrolment_key(config, &*entropy)?,
            entropy,
            metrics: Arc::clone(metrics),
            settings,
        })
    }

    /// The parts of one writer.
    pub fn parts(&self, journal: Box<dyn Journal>, lease_file: Option<LeaseFile>) -> LedgerParts {
        LedgerParts {
            store: Arc::clone(&self.store),
            clock: Arc::clone(&self.clock),
            signer: Arc::new(Local(Arc::clone(&self.signer))),
            entropy: Arc::clone(&self.entropy),
            log_key: None,
            journal,
            lease_file,
            metrics: Arc::clone(&self.metrics),
        }
    }
}

fn open_ledger(
    config: &Config,
    writers: &HubWriters,
) -> Result<(Ledger, crate::ledger::sequencer::Writer), Error> {
    let at = postgres_of(config)?;
    let spool = super::writer::spool(&at.spool)?;
    let lease_file = LeaseFile::at(config.state.join("lease"));
    let parts = writers.parts(Box::new(spool), Some(lease_file));
    Ok(Ledger::new(writers.settings.clone(), parts))
}

/// Reads as the role that only reads.
async fn reader(config: &Config) -> Result<Arc<PostgresReader>, Error> {
    let Some(file) = &config.hub.reader_url_file else {
        let why = "hub.reader_url_file: set it: the hub reads held calls with the role that may only read";
        return Err(Error::wrong(why));
    };
    let url = private::line(file).map_err(|e| Error::wrong(format!("hub.reader_url_file: {e}")))?;
    let accepted = postgres_of(config)?.accept_unverified_server;
    if let Some(why) = postgres::unprotected(&url).filter(|_| !accepted) {
        return Err(Error::wrong(format!("hub.reader_url_file: {why}")));
    }
    let reader = PostgresReader::connect(&url).await;
    Ok(reader.map(Arc::new).map_err(System::ledger)?)
}

async fn operator_api(
    config: &Config,
    operators: Operators,
    ledger: &Ledger,
    (writers, reader): (&HubWriters, &Arc<PostgresReader>),
) -> Result<OperatorApi, Error> {
    let at = postgres_of(config)?;
    let options = postgres::Options::default();
    let orders = control::postgres::PostgresControl::connect(at.connect.expose(), options).await;
    let counted = Arc::clone(&writers.metrics);
    let api = OperatorApi::new(operator::OperatorParts {
        operators,
        reader: Arc::<PostgresReader>::clone(reader),
        orders: Arc::new(orders.map_err(System::ledger)?),
        ledger: ledger.clone(),
        vault: config.vault().map_err(Error::wrong)?,
        clock: Arc::clone(&writers.clock),
        entropy: Arc::clone(&writers.entropy),
        reject: Arc::new(move |code| counted.rejected(code.as_str())),
        tenant: at.tenant.clone(),
    });
    api.score_within(config.trust.score_window());
    if let Some(break_glass) = super::break_glass::operator_part(config, &writers.metrics)? {
        api.allow_break_glass(break_glass);
    }
    if let Some(evidence) = super::evidence::operator_part(config)? {
        api.allow_evidence(evidence);
        api.allow_backtests(Arc::new(super::backtest::ChildBacktester::of(config)));
    }
    if let Some(index) = super::index::operator_part(config) {
        api.allow_index(index);
    }
    let sessions = PostgresSessions::lazy(at.connect.expose()).map_err(System::ledger)?;
    api.share_sessions(Arc::new(sessions));
    if let Some(list) = super::approvers::operator_part(config)? {
        api.allow_approvers(list);
    }
    Ok(api)
}

/// Closes what dead sidecars of the tenant left open.
fn reaper(
    config: &Config,
    writers: &HubWriters,
    reader: Arc<PostgresReader>,
    api: &Arc<OperatorApi>,
) -> Result<Reaper, Error> {
    let at = postgres_of(config)?;
    let slots = PostgresReaper::lazy(at.connect.expose(), postgres::Options::default());
    let store = PostgresStore::lazy(at.connect.expose(), postgres::Options::default());
    Ok(Reaper {
        slots: slots.map_err(System::ledger)?,
        writers: HubWriters {
            // A connection of its own: a slot that takes long to close does not hold up the hub's
            // orders.
            store: Arc::new(store.map_err(System::ledger)?),
            settings: LedgerSettings { reaping: true, ..writers.settings.clone() },
            ..writers.clone()
        },
        reader,
        operator_api: Arc::clone(api),
        grace: config.hub.grace(writers.settings.lease_term),
        foreign: parking_lot::Mutex::default(),
    })
}
