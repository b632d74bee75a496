//! Opens the tenant's fleet log for a command that has something to record in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::reader::{self, Place, Source};
use crate::app::fleet::{self, Keys};
use crate::clock::{SystemClock, SystemEntropy};
use crate::config::{self, Config};
use crate::crypto::signer::{self, Signer};
use crate::ledger::fleet::{Fleet, FleetParts, OpenError};
use crate::ledger::postgres::{self, Postgres};
use crate::ledger::spool::{HeadFile, Journal, NoJournal};
use crate::ledger::sqlite::Sqlite;
use crate::ledger::store::LedgerStore;

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

/// Whose ledger it is and with which keys its fleet log is written.
#[derive(Debug)]
pub struct Recording {
    /// `default` on one machine.
    pub tenant: String,
    parts: FleetParts,
}

impl Recording {
    /// Finds store and keys; nothing is written yet.
    ///
    /// # Errors
    /// A key is not named or cannot be read, or the ledger cannot be opened for writing.
    pub async fn prepare(source: &Source, args: &FleetArgs) -> Result<Self, String> {
        let mut parts = match source.place().ok_or_else(|| reader::Error::Nowhere.to_string())? {
            Place::Config(path) => of_config(&load(path)?, args).await?,
            Place::Sqlite(path) => {
                let journal = fleet::sqlite_head_file(path);
                plain(sqlite(path).await?, args, Box::new(head_file(&journal)?))?
            }
            Place::PostgresUrlFile(path) => {
                let url = reader::url(path).map_err(|e| e.to_string())?;
                // No state directory is named, so nothing is remembered of the log here.
                plain(postgres(&url)?, args, Box::new(NoJournal))?
            }
        };
        if let Some(tenant) = &args.tenant {
            parts.tenant.clone_from(tenant);
        }
        Ok(Self { tenant: parts.tenant.clone(), parts })
    }

    /// With what the fleet log is written.
    #[must_use]
    pub fn parts(self) -> FleetParts {
        self.parts
    }

    /// Takes the fleet log's slot.
    ///
    /// # Errors
    /// It cannot be written, somebody else has been recording in it for half a minute, or it is not what
    /// was seen.
    pub async fn open(self) -> Result<Fleet, OpenError> {
        Fleet::open(self.parts).await
    }
}

/// As the configuration says; keys that are named on the command line come first.
async fn of_config(config: &Config, args: &FleetArgs) -> Result<FleetParts, String> {
    let keys = match &args.fleet_key {
        None => {
            let mut keys = Keys::of(config).map_err(|e| e.to_string())?;
            if let Some(path) = &args.enrolment_key {
                keys.enrolment = open(path)?;
            }
            keys
        }
        Some(path) => {
            let enrolment = args.enrolment_key.clone();
            let enrolment = enrolment.unwrap_or_else(|| fleet::enrolment_key(config));
            Keys { key: open(path)?, previous: None, enrolment: open(&enrolment)? }
        }
    };
    fleet::parts(config, &keys).await.map_err(|e| e.to_string())
}

/// A ledger without a configuration: no witness is known, nothing but the keys.
fn plain(
    store: Arc<dyn LedgerStore>,
    args: &FleetArgs,
    journal: Box<dyn Journal>,
) -> Result<FleetParts, String> {
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

/// Reads a configuration file; an error names it.
pub(super) fn load(path: &Path) -> Result<Config, String> {
    reader::configuration(path).map_err(|why| format!("`{}`: {why}", path.display()))
}

fn named(name: &str, path: Option<&PathBuf>) -> Result<Arc<dyn Signer>, String> {
    open(path.ok_or_else(|| {
        format!("what is done is recorded in the fleet log: name its keys (`--{name}-key FILE`)")
    })?)
}

fn open(path: &Path) -> Result<Arc<dyn Signer>, String> {
    signer::open(path, &config::environment).map_err(|e| e.to_string())
}

fn head_file(path: &Path) -> Result<HeadFile, String> {
    HeadFile::open(path).map_err(|e| format!("`{}`: {e}", path.display()))
}

async fn sqlite(path: &Path) -> Result<Arc<dyn LedgerStore>, String> {
    Ok(Arc::new(Sqlite::open_fleet(path).await.map_err(|e| e.to_string())?))
}

fn postgres(url: &str) -> Result<Arc<dyn LedgerStore>, String> {
    let store = Postgres::lazy(url, postgres::Options::default()).map_err(|e| e.to_string())?;
    Ok(Arc::new(store))
}
