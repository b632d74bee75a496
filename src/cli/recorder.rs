//! Opens the tenant's fleet log for a command that has something to record in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::reader::{self, ConfigError, LedgerLocation, LedgerSource};
use super::{Cause, FileError};
use crate::app::fleet::{self, FleetKeys};
use crate::clock::{SystemClock, SystemEntropy};
use crate::config::{self, Config};
use crate::crypto::signer::{self, Signer};
use crate::ledger::fleet::{FleetParts, OpenError, OpenFleetLog};
use crate::ledger::postgres::{self, PostgresStore};
use crate::ledger::spool::{HeadFile, Journal, NoJournal};
use crate::ledger::sqlite::SqliteStore;
use crate::ledger::store::{LedgerStore, StoreError};

/// With what the fleet log is written, where the configuration does not say it.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
pub struct FleetArgs {
    /// Fleet key, which signs the fleet log: a PKCS#8 PEM file of mode 0600
    #[arg(long, value_name = "FILE")]
    pub fleet_key: Option<PathBuf>,
    /// Enrolment key, which certifies the fleet key: a PKCS#8 PEM file of mode 0600
    #[arg(long, value_name = "FILE")]
    pub enrolment_key: Option<PathBuf>,
    /// Tenant of the chains and the fleet log; if omitted, the tenant of the configuration
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
}

/// What is missing to record in a fleet log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The ledger is not named, or cannot be read.
    #[error(transparent)]
    Ledger(#[from] reader::Error),
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A key is not named.
    #[error("this command records what it does in the fleet log: name its keys (`--{0}-key FILE`)")]
    NoKey(&'static str),
    /// A key cannot be used.
    #[error(transparent)]
    Key(#[from] signer::Error),
    /// The configuration lacks the keys of a fleet log.
    #[error(transparent)]
    Fleet(Cause),
    /// What this machine remembers of the fleet log.
    #[error(transparent)]
    Head(#[from] FileError),
    /// The ledger cannot be opened for writing.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The ledger's tenant and the keys of its fleet log.
#[derive(Debug)]
pub struct Recording {
    /// `default` on one machine.
    pub tenant: String,
    parts: FleetParts,
}

impl Recording {
    /// Finds store and keys; writes nothing yet.
    ///
    /// # Errors
    /// A key is not named or cannot be read, or the ledger cannot be opened for writing.
    pub async fn prepare(source: &LedgerSource, args: &FleetArgs) -> Result<Self, Error> {
        let mut parts = match source.place().ok_or(reader::Error::Nowhere)? {
            LedgerLocation::Config(path) => of_config(&reader::configuration(path)?, args).await?,
            LedgerLocation::Sqlite(path) => {
                let journal = fleet::sqlite_head_file(path);
                let head = HeadFile::open(&journal).map_err(FileError::at(&journal))?;
                plain(Arc::new(SqliteStore::open_fleet(path).await?), args, Box::new(head))?
            }
            LedgerLocation::PostgresUrlFile(path) => {
                let url = reader::url(path)?;
                // Without a state directory, this machine remembers nothing of the log.
                let store = PostgresStore::lazy(&url, postgres::Options::default())?;
                plain(Arc::new(store), args, Box::new(NoJournal))?
            }
        };
        if let Some(tenant) = &args.tenant {
            parts.tenant.clone_from(tenant);
        }
        Ok(Self { tenant: parts.tenant.clone(), parts })
    }

    /// The parts to write the fleet log.
    pub fn parts(self) -> FleetParts {
        self.parts
    }

    /// Takes the fleet log's slot.
    ///
    /// # Errors
    /// It cannot be written, another process has been recording in it for half a minute, or it is
    /// not what was seen.
    pub async fn open(self) -> Result<OpenFleetLog, OpenError> {
        OpenFleetLog::open(self.parts).await
    }
}

/// From the configuration; keys on the command line take precedence.
async fn of_config(config: &Config, args: &FleetArgs) -> Result<FleetParts, Error> {
    let keys = match &args.fleet_key {
        None => {
            let mut keys = FleetKeys::of(config).map_err(fleet_error)?;
            if let Some(path) = &args.enrolment_key {
                keys.enrolment = open(path)?;
            }
            keys
        }
        Some(path) => {
            let enrolment = args.enrolment_key.clone();
            let enrolment = enrolment.unwrap_or_else(|| fleet::enrolment_key(config));
            FleetKeys { key: open(path)?, previous: None, enrolment: open(&enrolment)? }
        }
    };
    fleet::parts(config, &keys).await.map_err(fleet_error)
}

/// A ledger without a configuration: only keys, and no witness.
fn plain(
    store: Arc<dyn LedgerStore>,
    args: &FleetArgs,
    journal: Box<dyn Journal>,
) -> Result<FleetParts, Error> {
    Ok(FleetParts {
        store,
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        enrolment: named("enrolment", args.enrolment_key.as_ref())?,
        key: named("fleet", args.fleet_key.as_ref())?,
        previous: None,
        anchor_file: None,
        sights: Vec::new(),
        journal,
        tenant: "default".to_owned(),
    })
}

fn fleet_error(cause: impl Into<Cause>) -> Error {
    Error::Fleet(cause.into())
}

fn named(name: &'static str, path: Option<&PathBuf>) -> Result<Arc<dyn Signer>, Error> {
    open(path.ok_or(Error::NoKey(name))?)
}

fn open(path: &Path) -> Result<Arc<dyn Signer>, Error> {
    Ok(signer::open(path, &config::environment)?)
}
