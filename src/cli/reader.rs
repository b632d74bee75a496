//! Which ledger an auditor's command reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

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
    /// The place is of a kind that this build does not link.
    #[error("`{0}`: this build links no store of this kind")]
    NotLinked(String),
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
#[expect(clippy::unused_async, reason = "stores connect asynchronously")]
pub async fn open_reader(source: &Source) -> Result<Arc<dyn LedgerReader>, Error> {
    match source.place().ok_or(Error::Nowhere)? {
        Place::Config(path) | Place::Sqlite(path) | Place::PostgresUrlFile(path) => {
            Err(Error::NotLinked(path.display().to_string()))
        }
    }
}

/// Makes roles and schema of a Postgres ledger, or brings them up to date.
///
/// # Errors
/// The database said no.
#[expect(clippy::unused_async, reason = "stores connect asynchronously")]
pub async fn migrate(admin_url: &str) -> Result<(), Error> {
    let host = url::Url::parse(admin_url).ok().and_then(|url| url.host_str().map(str::to_owned));
    Err(Error::NotLinked(host.unwrap_or_else(|| "postgres".to_owned())))
}
