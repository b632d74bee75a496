//! Opens the ledger for these commands: to read, to delete payloads, and its configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Access, Failure};
use crate::cli::Exit;
use crate::cli::reader::{self, LedgerLocation, LedgerSource};
use crate::config::{self, Config};
use crate::domain::id::ChainId;
use crate::evidence::erasure::{self, ErasureStore};
use crate::ledger::postgres::{PostgresEraser, PostgresReader};
use crate::ledger::retention::PayloadEraser;
use crate::ledger::sqlite::SqliteEraser;
use crate::ledger::store::{ChainRow, LedgerReader};

/// A ledger, open.
pub struct PayloadLedger {
    /// Reads it.
    pub reader: Arc<dyn LedgerReader>,
    /// Deletes in it.
    pub eraser: Arc<dyn PayloadEraser>,
    /// Its chains by id.
    pub chains: BTreeMap<ChainId, ChainRow>,
    /// The configuration, if it was named.
    pub config: Option<Config>,
    /// `sqlite` or `postgres`.
    pub store: &'static str,
}

impl PayloadLedger {
    /// Opens the ledger.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn open(access: &Access) -> Result<Self, Failure> {
        let config = configuration(&access.source)?;
        let eraser = access.eraser_url_file.as_ref().map(|path| reader::url(path));
        let eraser = eraser.transpose().map_err(Failure::usage)?;
        let url = match (access.source.place(), &config) {
            (Some(LedgerLocation::PostgresUrlFile(path)), _) => {
                Some(reader::url(path).map_err(Failure::usage)?)
            }
            (_, Some(Config { ledger: config::Ledger::Postgres(ledger), .. })) => {
                Some(ledger.connect.expose().to_owned())
            }
            (_, _) => None,
        };
        let (reader, eraser, store) = match eraser.or(url) {
            Some(url) => postgres(&url).await.map_err(Failure::unverifiable)?,
            None => sqlite(&access.source, config.as_ref()).await?,
        };
        let chains = reader.chains().await?;
        let chains = chains.into_iter().map(|row| (row.chain, row)).collect();
        Ok(Self { reader, eraser, chains, config, store })
    }

    /// To erase in, for this tenant.
    pub fn erasure_store<'a>(&'a self, tenant: &'a str) -> ErasureStore<'a> {
        let (reader, eraser) = (self.reader.as_ref(), self.eraser.as_ref());
        ErasureStore { reader, eraser, chains: &self.chains, tenant }
    }
}

type Opened = (Arc<dyn LedgerReader>, Arc<dyn PayloadEraser>, &'static str);

async fn postgres(url: &str) -> Result<Opened, crate::ledger::store::StoreError> {
    let reader = Arc::new(PostgresReader::connect(url).await?);
    Ok((reader, Arc::new(PostgresEraser::connect(url).await?), "postgres"))
}

async fn sqlite(source: &LedgerSource, config: Option<&Config>) -> Result<Opened, Failure> {
    let path = match (source.place(), config) {
        (Some(LedgerLocation::Sqlite(path)), _) => path.to_owned(),
        (_, Some(Config { ledger: config::Ledger::Sqlite(ledger), .. })) => ledger.path.clone(),
        (_, _) => return Err(Failure::usage(reader::Error::Nowhere)),
    };
    let reader = reader::open_reader(source).await?;
    Ok((
        reader,
        Arc::new(SqliteEraser::open(&path).await.map_err(Failure::unverifiable)?),
        "sqlite",
    ))
}

/// The configuration, if it was named.
pub fn configuration(source: &LedgerSource) -> Result<Option<Config>, Failure> {
    let Some(LedgerLocation::Config(path)) = source.place() else { return Ok(None) };
    reader::configuration(path).map(Some).map_err(Failure::usage)
}

/// The tenant of this configuration, unless another is named.
pub fn tenant(named: Option<&String>, config: Option<&Config>) -> String {
    let of_config = config.and_then(|config| match &config.ledger {
        config::Ledger::Postgres(ledger) => Some(ledger.tenant.clone()),
        config::Ledger::Sqlite(_) => None,
    });
    named.cloned().or(of_config).unwrap_or_else(|| "default".to_owned())
}

/// The failure of a command that erased or held nothing.
pub fn refused(error: erasure::Error) -> Failure {
    let exit = match &error {
        erasure::Error::Store(_) | erasure::Error::Unrecorded(_) => Exit::Unverifiable,
        erasure::Error::NoRun(_)
        | erasure::Error::NoLog(_)
        | erasure::Error::Held { .. }
        | erasure::Error::Order(_)
        | erasure::Error::Lifted
        | erasure::Error::Decided
        | erasure::Error::NotHeld(_) => Exit::Invalid,
    };
    Failure::new(exit, error)
}
