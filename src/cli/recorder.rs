//! Opens the tenant's fleet log for a command that has something to record in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::reader::{self, Place, Source};
use crate::app::fleet::{self, Keys};
use crate::clock::{SystemClock, SystemEntropy};
use crate::config::{self, Config};
use crate::crypto::signer;
use crate::ledger::fleet::{Fleet, FleetParts};
use crate::ledger::postgres::{self, Postgres};
use crate::ledger::spool::{HeadFile, Journal, NoJournal};
use crate::ledger::sqlite::Sqlite;
use crate::ledger::store::LedgerStore;

/// With what the fleet log is written, where no configuration says it.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
pub struct FleetArgs {
    /// The fleet key, which signs the fleet log (a PKCS#8 PEM file of mode 0600); with `--config`, its
    /// `fleet.key`
    #[arg(long, value_name = "FILE")]
    pub fleet_key: Option<PathBuf>,
    /// The enrolment key, which certifies the fleet key (a PKCS#8 PEM file of mode 0600); with
    /// `--config`, that of the sidecar
    #[arg(long, value_name = "FILE")]
    pub enrolment_key: Option<PathBuf>,
    /// Whose chains and fleet log (`default`); with `--config`, its tenant
    #[arg(long, value_name = "NAME")]
    pub tenant: Option<String>,
}

/// Where a ledger is, when only its place is named.
#[derive(Debug)]
enum Bare {
    Sqlite(PathBuf),
    Postgres(String),
}

/// What the fleet log is opened from.
#[derive(Debug)]
enum Ground {
    Config(Box<Config>),
    Bare(Bare),
}

/// Whose ledger it is and with which keys its fleet log is written. Nothing is opened before
/// [`Self::open`], so that nobody is kept out of the log while a bundle is made.
#[derive(Debug)]
pub struct Recording {
    /// `default` on one machine.
    pub tenant: String,
    keys: Keys,
    ground: Ground,
}

impl Recording {
    /// Finds the place and reads the keys.
    ///
    /// # Errors
    /// A key is not named or cannot be read, or the configuration is wrong.
    pub fn prepare(source: &Source, args: &FleetArgs) -> Result<Self, String> {
        let (mut config, bare) = match source.place() {
            Some(Place::Config(path)) => (Some(load(path)?), None),
            Some(Place::Sqlite(path)) => (None, Some(Bare::Sqlite(path.to_owned()))),
            Some(Place::PostgresUrlFile(path)) => {
                let url = reader::url(path).map_err(|e| e.to_string())?;
                (None, Some(Bare::Postgres(url)))
            }
            None => return Err(reader::Error::Nowhere.to_string()),
        };
        if let Some(config) = &mut config {
            config.fleet.key = args.fleet_key.clone().or_else(|| config.fleet.key.clone());
            let enrolment = args.enrolment_key.clone();
            config.fleet.enrolment_key = enrolment.or_else(|| config.fleet.enrolment_key.clone());
        }
        let keys = match &config {
            Some(config) => Keys::of(config)?,
            None => bare_keys(args)?,
        };
        let of_config = config.as_ref().map(fleet::tenant);
        let tenant = args.tenant.clone().or(of_config).unwrap_or_else(|| "default".to_owned());
        let ground = match (config, bare) {
            (Some(config), _) => Ground::Config(Box::new(config)),
            (None, Some(bare)) => Ground::Bare(bare),
            (None, None) => return Err(reader::Error::Nowhere.to_string()),
        };
        Ok(Self { tenant, keys, ground })
    }

    /// Takes the fleet log's slot.
    ///
    /// # Errors
    /// It cannot be written, it is not what was seen before, or somebody else has been recording in it
    /// for half a minute.
    pub async fn open(self) -> Result<Fleet, String> {
        let parts = match &self.ground {
            Ground::Config(config) => fleet::parts(config, &self.keys).await?,
            Ground::Bare(bare) => bare_parts(bare, &self.keys, &self.tenant).await?,
        };
        Fleet::open(parts).await.map_err(|e| e.to_string())
    }
}

fn load(path: &Path) -> Result<Config, String> {
    Config::load(path, &config::environment).map_err(|problems| {
        let why: Vec<String> = problems.iter().map(ToString::to_string).collect();
        format!("`{}`: {}", path.display(), why.join("\n"))
    })
}

fn bare_keys(args: &FleetArgs) -> Result<Keys, String> {
    let open = |name: &str, path: &Option<PathBuf>| {
        let path = path.as_ref().ok_or_else(|| {
            format!(
                "what is done is recorded in the fleet log: name its keys (`--{name}-key FILE`)"
            )
        })?;
        signer::open(path, &config::environment).map_err(|e| e.to_string())
    };
    let key = open("fleet", &args.fleet_key)?;
    Ok(Keys { key, previous: None, enrolment: open("enrolment", &args.enrolment_key)? })
}

async fn bare_parts(bare: &Bare, keys: &Keys, tenant: &str) -> Result<FleetParts, String> {
    let (store, journal): (Arc<dyn LedgerStore>, Box<dyn Journal>) = match bare {
        Bare::Sqlite(path) => {
            let mut head = path.clone().into_os_string();
            head.push(".fleet.head");
            let journal = HeadFile::open(head.as_ref())
                .map_err(|e| format!("`{}`: {e}", Path::new(&head).display()))?;
            let store = Sqlite::open_fleet(path).await.map_err(|e| e.to_string())?;
            (Arc::new(store), Box::new(journal))
        }
        Bare::Postgres(url) => {
            let store = Postgres::connect(url, postgres::Options::default()).await;
            (Arc::new(store.map_err(|e| e.to_string())?), Box::new(NoJournal))
        }
    };
    Ok(FleetParts {
        store,
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        enrolment: Arc::clone(&keys.enrolment),
        key: Arc::clone(&keys.key),
        previous: None,
        anchor_file: None,
        sights: Vec::new(),
        journal,
        tenant: tenant.to_owned(),
    })
}
