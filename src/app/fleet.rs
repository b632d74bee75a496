//! The fleet log and its witnesses, from the configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::{SystemClock, SystemEntropy};
use crate::config::{self, Config};
use crate::crypto::keys::{self, PublicKey, SecretKey};
use crate::crypto::note::{self, VerifierKey};
use crate::crypto::signer::{self, Signer, agent_key};
use crate::crypto::tsp;
use crate::ledger::fleet::anchor::Outside;
use crate::ledger::fleet::port::{TimeStamp, Witness, WitnessSight};
use crate::ledger::fleet::{FleetParts, OpenError, OpenFleetLog};
use crate::ledger::postgres::{self, PostgresStore};
use crate::ledger::spool::HeadFile;
use crate::ledger::sqlite::SqliteStore;
use crate::ledger::store::{LedgerStore, StoreError};
use crate::witness::client;
use crate::witness::tsa::{self, Tsa};

/// Seconds the clock of a witness may differ from ours.
const SKEW: u64 = 300;

/// Why the fleet log, or one of its witnesses, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration names no fleet key.
    #[error(
        "the configuration has no `fleet.key`: `wicketgate config keygen --out keys/fleet.pem` makes one, then set \
         `fleet: {{key: keys/fleet.pem}}`"
    )]
    NoKey,
    /// The enrolment key is elsewhere.
    #[error(
        "a hub enrols this machine (`enrolment`), so it has no enrolment key: run this command on the machine where \
         `fleet.enrolment_key` is"
    )]
    Enrolled,
    /// A key that signs.
    #[error(transparent)]
    Signer(#[from] signer::Error),
    /// The public half of a key.
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// The store the log is in.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log itself.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// What this machine remembers of the log.
    #[error("`{path}`: {source}")]
    HeadFile {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The key of a witness.
    #[error(transparent)]
    WitnessKey(#[from] note::Error),
    /// The authorities of a witness's certificate.
    #[error(transparent)]
    WitnessAuthorities(std::io::Error),
    /// A witness.
    #[error(transparent)]
    Witness(#[from] client::Error),
    /// The file of the authorities that certify the time stamping authority.
    #[error("fleet.timestamp: `{path}`: {source}")]
    StampFile {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The authorities that certify the time stamping authority.
    #[error("fleet.timestamp: {0}")]
    StampAuthorities(#[from] tsp::Error),
    /// The time stamping authority.
    #[error("fleet.timestamp: {0}")]
    Stamp(#[from] tsa::Error),
}

/// Opens the fleet log that this configuration names, to record something in it.
///
/// # Errors
/// There is no `fleet.key`, a key cannot be used, or the log cannot be opened.
pub async fn open(config: &Config) -> Result<OpenFleetLog, Error> {
    let parts = parts(config, &FleetKeys::of(config)?).await?;
    Ok(OpenFleetLog::open(parts).await?)
}

/// The keys the fleet log is written with.
#[derive(Clone, Debug)]
pub struct FleetKeys {
    /// The fleet key.
    pub key: Arc<dyn Signer>,
    /// The one before, during a rotation.
    pub previous: Option<Arc<dyn Signer>>,
    /// Certifies them.
    pub enrolment: Arc<dyn Signer>,
}

impl FleetKeys {
    /// The keys this configuration names.
    ///
    /// # Errors
    /// One is missing or cannot be used.
    pub fn of(config: &Config) -> Result<Self, Error> {
        let open = |path: &PathBuf| signer::open(path, &config::environment);
        let key = config.fleet.key.as_ref().ok_or(Error::NoKey)?;
        if config.enrolment.is_some() {
            return Err(Error::Enrolled);
        }
        let key = open(key)?;
        let previous = config.fleet.previous_key.as_ref().map(&open).transpose()?;
        Ok(Self { key, previous, enrolment: open(&enrolment_key(config))? })
    }
}

/// Where the key that certifies writers is.
pub fn enrolment_key(config: &Config) -> PathBuf {
    let own = || config.state.join("enrolment.key");
    config.fleet.enrolment_key.clone().unwrap_or_else(own)
}

/// `default` on one machine.
pub fn tenant(config: &Config) -> String {
    match &config.ledger {
        config::Ledger::Sqlite(_) => "default".to_owned(),
        config::Ledger::Postgres(postgres) => postgres.tenant.clone(),
    }
}

/// What this machine remembers of the fleet log.
pub fn head_file(config: &Config) -> PathBuf {
    match &config.ledger {
        config::Ledger::Sqlite(sqlite) => sqlite_head_file(&sqlite.path),
        config::Ledger::Postgres(_) => config.state.join("fleet.head"),
    }
}

/// What this machine remembers of the fleet log in a SQLite ledger: a file beside it.
pub fn sqlite_head_file(ledger: &Path) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(".fleet.head");
    path.into()
}

/// The store the fleet log is in, opened for writing it.
///
/// # Errors
/// It cannot be opened.
pub async fn store(config: &Config) -> Result<Arc<dyn LedgerStore>, StoreError> {
    match &config.ledger {
        config::Ledger::Sqlite(sqlite) => {
            Ok(Arc::new(SqliteStore::open_fleet(&sqlite.path).await?))
        }
        config::Ledger::Postgres(postgres) => {
            let url = postgres.connect.expose();
            Ok(Arc::new(PostgresStore::connect(url, postgres::Options::default()).await?))
        }
    }
}

/// Everything the fleet log is written with.
///
/// # Errors
/// The store cannot be opened, or the file system's.
pub async fn parts(config: &Config, keys: &FleetKeys) -> Result<FleetParts, Error> {
    let head = head_file(config);
    let journal = HeadFile::open(&head)
        .map_err(|source| Error::HeadFile { path: head.display().to_string(), source })?;
    Ok(FleetParts {
        store: store(config).await?,
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        enrolment: Arc::clone(&keys.enrolment),
        key: Arc::clone(&keys.key),
        previous: keys.previous.clone(),
        tenant: tenant(config),
        anchor_file: config.fleet.anchor_file.clone(),
        sights: sights_of(config, &publics(keys))?,
        journal: Box::new(journal),
    })
}

fn publics(keys: &FleetKeys) -> Vec<PublicKey> {
    std::iter::once(&keys.key).chain(&keys.previous).map(|key| key.public()).collect()
}

/// The witnesses and time stamping authority of the fleet log, and how many of them must answer.
///
/// # Errors
/// An address or a key is wrong.
pub fn outside(config: &Config) -> Result<Outside, Error> {
    let fleet = &config.fleet;
    Ok(Outside {
        witnesses: witnesses(config)?,
        quorum: fleet.quorum(),
        stamps: stamps(config)?,
        anchor_file: fleet.anchor_file.clone(),
    })
}

fn witnesses(config: &Config) -> Result<Vec<Arc<dyn Witness>>, Error> {
    let mut all: Vec<Arc<dyn Witness>> = Vec::new();
    for witness in &config.fleet.witnesses {
        let key = VerifierKey::parse(&witness.key)?;
        let ca = witness.ca.as_ref().map(std::fs::read).transpose();
        let ca = ca.map_err(Error::WitnessAuthorities)?;
        all.push(Arc::new(client::WitnessClient::new(&witness.url, key, ca.as_deref(), SKEW)?));
    }
    Ok(all)
}

fn stamps(config: &Config) -> Result<Option<Arc<dyn TimeStamp>>, Error> {
    let Some(at) = &config.fleet.timestamp else { return Ok(None) };
    let pem = std::fs::read(&at.ca)
        .map_err(|source| Error::StampFile { path: at.ca.display().to_string(), source })?;
    let authorities = tsp::authorities(&pem)?;
    let skew = i64::try_from(SKEW).unwrap_or(i64::MAX).saturating_mul(1000);
    Ok(Some(Arc::new(Tsa::new(&at.url, authorities, None, skew)?)))
}

/// Witnesses that a starting writer asks for their newest head, if it knows the fleet key.
///
/// # Errors
/// An address or a key is wrong.
pub fn sights(config: &Config) -> Result<Vec<WitnessSight>, Error> {
    let files = [&config.fleet.key, &config.fleet.previous_key];
    let mut keys = Vec::new();
    for file in files.into_iter().flatten() {
        // WHY: only the public half is needed, and no agent has to be there for that.
        let key = match agent_key(file) {
            Some(public) => PublicKey::load_ssh(&public),
            None => SecretKey::load(file).map(|key| key.public()),
        };
        keys.push(key?);
    }
    sights_of(config, &keys)
}

fn sights_of(config: &Config, keys: &[PublicKey]) -> Result<Vec<WitnessSight>, Error> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let seen = |witness| WitnessSight { witness, keys: keys.to_vec() };
    Ok(witnesses(config)?.into_iter().map(seen).collect())
}
