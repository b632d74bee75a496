//! The fleet log and those who see it from outside, from the configuration.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::clock::{SystemClock, SystemEntropy};
use crate::config::{self, Config};
use crate::crypto::keys::PublicKey;
use crate::crypto::note::VerifierKey;
use crate::crypto::signer::{self, Signer, agent_key};
use crate::crypto::tsp;
use crate::ledger::fleet::anchor::Outside;
use crate::ledger::fleet::port::{Sight, TimeStamp, Witness};
use crate::ledger::fleet::{Fleet, FleetParts};
use crate::ledger::postgres::{self, Postgres};
use crate::ledger::spool::HeadFile;
use crate::ledger::sqlite::Sqlite;
use crate::ledger::store::LedgerStore;
use crate::witness::client;
use crate::witness::tsa::Tsa;

/// Seconds the clock of a witness may differ from ours.
const SKEW: u64 = 300;

/// Opens the fleet log that this configuration names, to record something in it.
///
/// # Errors
/// There is no `fleet.key`, a key cannot be used, or the log cannot be opened.
pub async fn open(config: &Config) -> Result<Fleet, String> {
    let parts = parts(config, &Keys::of(config)?).await?;
    Fleet::open(parts).await.map_err(|e| e.to_string())
}

/// The keys the fleet log is written with.
#[derive(Clone, Debug)]
pub struct Keys {
    /// The fleet key.
    pub key: Arc<dyn Signer>,
    /// The one before, during a rotation.
    pub previous: Option<Arc<dyn Signer>>,
    /// Certifies them.
    pub enrolment: Arc<dyn Signer>,
}

impl Keys {
    /// The keys this configuration names.
    ///
    /// # Errors
    /// One is missing or cannot be used.
    pub fn of(config: &Config) -> Result<Self, String> {
        let open =
            |path: &PathBuf| signer::open(path, &config::environment).map_err(|e| e.to_string());
        let key = config.fleet.key.as_ref().ok_or_else(|| {
            "the configuration has no `fleet.key`: `wicketgate config keygen --out keys/fleet.pem` makes \
             one, then set `fleet: {key: keys/fleet.pem}`"
                .to_owned()
        })?;
        if config.enrolment.is_some() {
            let why = "this machine is enrolled by a hub (`enrolment`) and has no enrolment key: do this \
                       where `fleet.enrolment_key` is";
            return Err(why.to_owned());
        }
        let key = open(key)?;
        let previous = config.fleet.previous_key.as_ref().map(&open).transpose()?;
        Ok(Self { key, previous, enrolment: open(&enrolment_key(config))? })
    }
}

/// Where the key that certifies writers is.
#[must_use]
pub fn enrolment_key(config: &Config) -> PathBuf {
    let own = || config.state.join("enrolment.key");
    config.fleet.enrolment_key.clone().unwrap_or_else(own)
}

/// `default` on one machine.
#[must_use]
pub fn tenant(config: &Config) -> String {
    match &config.ledger {
        config::Ledger::Sqlite(_) => "default".to_owned(),
        config::Ledger::Postgres(postgres) => postgres.tenant.clone(),
    }
}

/// What this machine remembers of the fleet log.
#[must_use]
pub fn head_file(config: &Config) -> PathBuf {
    match &config.ledger {
        config::Ledger::Sqlite(sqlite) => sqlite_head_file(&sqlite.path),
        config::Ledger::Postgres(_) => config.state.join("fleet.head"),
    }
}

/// What this machine remembers of the fleet log in a SQLite ledger: a file beside it.
#[must_use]
pub fn sqlite_head_file(ledger: &Path) -> PathBuf {
    let mut path = ledger.as_os_str().to_owned();
    path.push(".fleet.head");
    path.into()
}

/// The store the fleet log is in, opened for writing it.
///
/// # Errors
/// It cannot be opened.
pub async fn store(config: &Config) -> Result<Arc<dyn LedgerStore>, String> {
    match &config.ledger {
        config::Ledger::Sqlite(sqlite) => {
            let store = Sqlite::open_fleet(&sqlite.path).await.map_err(|e| e.to_string())?;
            Ok(Arc::new(store))
        }
        config::Ledger::Postgres(postgres) => {
            let url = postgres.connect.expose();
            let store = Postgres::connect(url, postgres::Options::default()).await;
            Ok(Arc::new(store.map_err(|e| e.to_string())?))
        }
    }
}

/// Everything the fleet log is written with.
///
/// # Errors
/// The store cannot be opened, or the file system's.
pub async fn parts(config: &Config, keys: &Keys) -> Result<FleetParts, String> {
    let journal = HeadFile::open(&head_file(config))
        .map_err(|e| format!("`{}`: {e}", head_file(config).display()))?;
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

fn publics(keys: &Keys) -> Vec<PublicKey> {
    std::iter::once(&keys.key).chain(&keys.previous).map(|key| key.public()).collect()
}

/// Who sees heads of the fleet log, and what is enough.
///
/// # Errors
/// An address or a key is wrong.
pub fn outside(config: &Config) -> Result<Outside, String> {
    let fleet = &config.fleet;
    Ok(Outside {
        witnesses: witnesses(config)?,
        quorum: fleet.quorum(),
        stamps: stamps(config)?,
        anchor_file: fleet.anchor_file.clone(),
    })
}

fn witnesses(config: &Config) -> Result<Vec<Arc<dyn Witness>>, String> {
    let mut all: Vec<Arc<dyn Witness>> = Vec::new();
    for witness in &config.fleet.witnesses {
        let key = VerifierKey::parse(&witness.key).map_err(|e| e.to_string())?;
        let ca = witness.ca.as_ref().map(std::fs::read).transpose().map_err(|e| e.to_string())?;
        let one = client::Witness::new(&witness.url, key, ca.as_deref(), SKEW);
        all.push(Arc::new(one.map_err(|e| e.to_string())?));
    }
    Ok(all)
}

fn stamps(config: &Config) -> Result<Option<Arc<dyn TimeStamp>>, String> {
    let Some(at) = &config.fleet.timestamp else { return Ok(None) };
    let failed = |why: String| format!("fleet.timestamp: {why}");
    let pem = std::fs::read(&at.ca).map_err(|e| failed(format!("`{}`: {e}", at.ca.display())))?;
    let authorities = tsp::authorities(&pem).map_err(|e| failed(e.to_string()))?;
    let skew = i64::try_from(SKEW).unwrap_or(i64::MAX).saturating_mul(1000);
    let tsa = Tsa::new(&at.url, authorities, None, skew).map_err(|e| failed(e.to_string()))?;
    Ok(Some(Arc::new(tsa)))
}

/// Witnesses that a starting writer asks what they have seen, if it knows the fleet key.
///
/// # Errors
/// An address or a key is wrong.
pub fn sights(config: &Config) -> Result<Vec<Sight>, String> {
    let files = [&config.fleet.key, &config.fleet.previous_key];
    let mut keys = Vec::new();
    for file in files.into_iter().flatten() {
        // WHY: only the public half is needed, and no agent has to be there for that.
        let key = match agent_key(file) {
            Some(public) => PublicKey::load_ssh(&public),
            None => crate::crypto::keys::SecretKey::load(file).map(|key| key.public()),
        };
        keys.push(key.map_err(|e| e.to_string())?);
    }
    sights_of(config, &keys)
}

fn sights_of(config: &Config, keys: &[PublicKey]) -> Result<Vec<Sight>, String> {
    if keys.is_empty() {
        return Ok(Vec::new());
    }
    let seen = |witness| Sight { witness, keys: keys.to_vec() };
    Ok(witnesses(config)?.into_iter().map(seen).collect())
}
