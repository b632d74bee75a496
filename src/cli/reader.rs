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
    /// Read the ledger that this configuration file names; Postgres as `hub.reader_url_file` says, if it is set
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
    /// No place was named.
    #[error("name the ledger: `--config`, `--sqlite` or `--postgres-url-file`")]
    Nowhere,
    /// A file that says where the ledger is cannot be used.
    #[error("`{path}`: {why}")]
    File {
        /// The file.
        path: String,
        /// What is wrong with it, one problem a line.
        why: String,
    },
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
        Place::PostgresUrlFile(path) => postgres(&url(path)?).await,
        Place::Config(path) => {
            let config = configuration(path)
                .map_err(|why| Error::File { path: path.display().to_string(), why })?;
            match &config.ledger {
                config::Ledger::Sqlite(ledger) => sqlite(&ledger.path).await,
                // The gate's own login writes and reads nothing of others.
                config::Ledger::Postgres(ledger) => match &config.hub.reader_url_file {
                    Some(file) => postgres(&url(file)?).await,
                    None => postgres(ledger.connect.expose()).await,
                },
            }
        }
    }
}

/// Reads a configuration file.
///
/// # Errors
/// Everything that is wrong with it, one problem a line.
pub fn configuration(path: &Path) -> Result<Config, String> {
    Config::load(path, &config::environment)
        .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

async fn sqlite(path: &Path) -> Result<Arc<dyn LedgerReader>, Error> {
    Ok(Arc::new(SqliteReader::open(path).await?))
}

async fn postgres(url: &str) -> Result<Arc<dyn LedgerReader>, Error> {
    Ok(Arc::new(PostgresReader::connect(url).await?))
}

/// The URL in a file: its text without the white space around it.
///
/// # Errors
/// The file cannot be read or is empty.
pub fn url(path: &Path) -> Result<String, Error> {
    let bad = |why: String| Error::File { path: path.display().to_string(), why };
    let text = std::fs::read_to_string(path).map_err(|e| bad(e.to_string()))?;
    let text = text.trim();
    if text.is_empty() { Err(bad("empty".into())) } else { Ok(text.to_owned()) }
}
