//! Opens the tenant's fleet log for a command that has something to record in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::reader::{self, Place, Source};
use crate::clock::{SystemClock, SystemEntropy};
use crate::config::{self, Config};
use crate::crypto::keys::SecretKey;
use crate::ledger::fleet::{Fleet, FleetParts};
use crate::ledger::postgres::{self, Postgres};
use crate::ledger::sqlite::Sqlite;
use crate::ledger::store::LedgerStore;

/// With what the fleet log is written, where the configuration does not say it.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct FleetArgs {
    /// The fleet key, which signs the fleet log: a PKCS#8 PEM file of mode 0600
    #[arg(long, value_name = "FILE")]
    pub fleet_key: Option<PathBuf>,
    /// The enrolment key, which certifies the fleet key: a PKCS#8 PEM file of mode 0600
    #[arg(long, value_name = "FILE")]
    pub enrolment_key: Option<PathBuf>,
    /// Whose chains and fleet log; with `--config`, the configuration's
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
}

/// Whose ledger it is and with which keys its fleet log is written.
pub struct Recording {
    /// `default` on one machine.
    pub tenant: String,
    store: Arc<dyn LedgerStore>,
    key: SecretKey,
    enrolment: SecretKey,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl Recording {
    /// Finds store and keys; nothing is written yet.
    ///
    /// # Errors
    /// A key is not named or cannot be read, or the ledger cannot be opened for writing.
    pub async fn prepare(source: &Source, args: &FleetArgs) -> Result<Self, String> {
        let config = match source.place() {
            Some(Place::Config(path)) => Some(load(path)?),
            Some(Place::Sqlite(_) | Place::PostgresUrlFile(_)) | None => None,
        };
        let named = config.as_ref().map(|config| config.state.join("enrolment.key"));
        let enrolment = key("enrolment", args.enrolment_key.clone().or(named))?;
        let key = key("fleet", args.fleet_key.clone())?;
        let (store, of_config): (Arc<dyn LedgerStore>, _) = match (source.place(), &config) {
            (Some(Place::Sqlite(path)), _) => (sqlite(path).await?, None),
            (Some(Place::PostgresUrlFile(path)), _) => {
                let url = reader::url(path).map_err(|e| e.to_string())?;
                (postgres(&url)?, None)
            }
            (_, Some(Config { ledger: config::Ledger::Sqlite(ledger), .. })) => {
                (sqlite(&ledger.path).await?, None)
            }
            (_, Some(Config { ledger: config::Ledger::Postgres(ledger), .. })) => {
                (postgres(ledger.connect.expose())?, Some(ledger.tenant.clone()))
            }
            (Some(Place::Config(_)) | None, None) => return Err(reader::Error::Nowhere.to_string()),
        };
        let tenant = args.tenant.clone().or(of_config).unwrap_or_else(|| "default".to_owned());
        Ok(Self { tenant, store, key, enrolment })
    }

    /// Takes the fleet log's slot.
    ///
    /// # Errors
    /// It cannot be written, or somebody else has been recording in it for half a minute.
    pub async fn open(self) -> Result<Fleet, crate::ledger::Error> {
        Fleet::open(FleetParts {
            store: self.store,
            clock: Arc::new(SystemClock::new()),
            entropy: Arc::new(SystemEntropy),
            enrolment: Arc::new(self.enrolment),
            key: self.key,
            tenant: self.tenant,
        })
        .await
    }
}

fn load(path: &Path) -> Result<Config, String> {
    Config::load(path, &config::environment).map_err(|problems| {
        let why: Vec<String> = problems.iter().map(ToString::to_string).collect();
        format!("`{}`: {}", path.display(), why.join("\n"))
    })
}

fn key(name: &str, path: Option<PathBuf>) -> Result<SecretKey, String> {
    let path = path.ok_or_else(|| {
        format!("what is done is recorded in the fleet log: name its keys (`--{name}-key FILE`)")
    })?;
    SecretKey::load(&path).map_err(|e| e.to_string())
}

async fn sqlite(path: &Path) -> Result<Arc<dyn LedgerStore>, String> {
    Ok(Arc::new(Sqlite::open_fleet(path).await.map_err(|e| e.to_string())?))
}

fn postgres(url: &str) -> Result<Arc<dyn LedgerStore>, String> {
    let store = Postgres::lazy(url, postgres::Options::default()).map_err(|e| e.to_string())?;
    Ok(Arc::new(store))
}
