//! Which ledger an auditor's command reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::config::{self, Config};
use crate::ledger::postgres::PostgresReader;
use crate::ledger::sqlite::SqliteReader;
use crate::ledger::store::{LedgerReader, StoreError};

/// Exactly one of these says where the ledger is.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct Source {
    /// Read the ledger that this configuration file names
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read this SQLite ledger
    #[arg(long, value_name = "PATH")]
    pub sqlite: Option<PathBuf>,
    /// Read the Postgres ledger whose URL is in this file
    #[arg(long, value_name = "FILE")]
    pub postgres_url_file: Option<PathBuf>,
}

/// One place a ledger can be in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place<'a> {
    /// What the configuration says.
    Config(&'a Path),
    /// A SQLite file.
    Sqlite(&'a Path),
    /// Postgres; the file holds the URL, so that it is in no process list.
    PostgresUrlFile(&'a Path),
}

impl Source {
    /// The place that was named; the command line holds exactly one.
    #[must_use]
    pub fn place(&self) -> Option<Place<'_>> {
        let config = self.config.as_deref().map(Place::Config);
        let sqlite = self.sqlite.as_deref().map(Place::Sqlite);
        let postgres = self.postgres_url_file.as_deref().map(Place::PostgresUrlFile);
        config.or(sqlite).or(postgres)
    }
}

/// Why a ledger cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration or the file with the URL cannot be used.
    #[error("{0}")]
    Place(String),
    /// No place was named.
    #[error("name the ledger: `--config`, `--sqlite` or `--postgres-url-file`")]
    Nowhere,
    /// The store said no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Opens a ledger for reading.
///
/// # Errors
/// It cannot be opened.
pub async fn open_reader(source: &Source) -> Result<Arc<dyn LedgerReader>, Error> {
    match source.place().ok_or(Error::Nowhere)? {
        Place::Sqlite(path) => sqlite(path).await,
        Place::PostgresUrlFile(path) => postgres(&secret(path)?).await,
        Place::Config(path) => {
            let lines = |all: Vec<config::Problem>| {
                let lines: Vec<String> = all.iter().map(ToString::to_string).collect();
                Error::Place(lines.join("\n"))
            };
            let config = Config::load(path, &config::environment).map_err(lines)?;
            match &config.ledger {
                config::Ledger::Sqlite(at) => sqlite(&at.path).await,
                config::Ledger::Postgres(at) => postgres(at.connect.expose()).await,
            }
        }
    }
}

async fn sqlite(path: &Path) -> Result<Arc<dyn LedgerReader>, Error> {
    Ok(Arc::new(SqliteReader::open(path).await?))
}

async fn postgres(url: &str) -> Result<Arc<dyn LedgerReader>, Error> {
    Ok(Arc::new(PostgresReader::connect(url).await?))
}

/// The one line of a file that keeps a secret out of process lists.
///
/// # Errors
/// The file cannot be read.
pub fn secret(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path)
        .map(|text| text.trim().to_owned())
        .map_err(|e| Error::Place(format!("`{}`: {e}", path.display())))
}
