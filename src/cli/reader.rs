//! Which ledger an auditor's command reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::FileError;
use crate::config::{self, Config, Problem};
use crate::ledger::postgres::PostgresReader;
use crate::ledger::sqlite::SqliteReader;
use crate::ledger::store::{LedgerReader, StoreError};

/// Exactly one of these says where the ledger is.
#[derive(Clone, PartialEq, Eq, Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub struct LedgerSource {
    /// Configuration file that names the ledger; Postgres is read with `hub.reader_url_file` if that is set
    /// [env: WICKETGATE_CONFIG]
    #[arg(short, long, value_name = "FILE")]
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
pub enum LedgerLocation<'a> {
    /// The ledger of this configuration.
    Config(&'a Path),
    /// A SQLite file.
    Sqlite(&'a Path),
    /// Postgres; the file holds the URL, so that it is in no process list.
    PostgresUrlFile(&'a Path),
}

/// The option of a command line that names the place.
impl std::fmt::Display for LedgerLocation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (option, path) = match self {
            Self::Config(path) => ("--config", path),
            Self::Sqlite(path) => ("--sqlite", path),
            Self::PostgresUrlFile(path) => ("--postgres-url-file", path),
        };
        write!(f, "{option} {}", path.display())
    }
}

impl LedgerSource {
    /// The place that was named; the command line holds exactly one.
    pub fn place(&self) -> Option<LedgerLocation<'_>> {
        let config = self.config.as_deref().map(LedgerLocation::Config);
        let sqlite = self.sqlite.as_deref().map(LedgerLocation::Sqlite);
        let postgres = self.postgres_url_file.as_deref().map(LedgerLocation::PostgresUrlFile);
        config.or(sqlite).or(postgres)
    }
}

/// Why a ledger cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No place was named.
    #[error("name the ledger: `--config`, `--sqlite` or `--postgres-url-file`")]
    Nowhere,
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The file that holds the URL of the database cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file for the URL of the database is empty.
    #[error("`{}` is empty; write the URL of the database into it", .0.display())]
    Empty(PathBuf),
    /// The file does not exist: no gate has made it yet, or it is elsewhere.
    #[error(
        "`{}` does not exist: name the `ledger.sqlite` of a gate's state directory, or its configuration (`--config`); a \
         gate makes the file at its first start",
        .0.display()
    )]
    Absent(PathBuf),
    /// The file is not a ledger, or a damaged one.
    #[error("`{}` cannot be read as a ledger: {}", path.display(), error.reason())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        error: StoreError,
    },
    /// The database does not answer, or does not let this login read.
    #[error(
        "the database that `{}` names: {}; check that it runs and that the login may read (`ledger migrate \
         --reader`)",
        from.display(),
        error.reason()
    )]
    Postgres {
        /// The file that holds its URL.
        from: PathBuf,
        /// What it answers.
        #[source]
        error: StoreError,
    },
}

/// A configuration that is wrong: every problem, a line each.
#[derive(Debug, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct ConfigError(Vec<Problem>);

impl From<Vec<Problem>> for ConfigError {
    fn from(problems: Vec<Problem>) -> Self {
        Self(problems)
    }
}

fn lines(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Opens a ledger for reading.
///
/// # Errors
/// It cannot be opened.
pub async fn open_reader(source: &LedgerSource) -> Result<Arc<dyn LedgerReader>, Error> {
    open_place(source.place().ok_or(Error::Nowhere)?).await
}

/// The same, at this place.
///
/// # Errors
/// It cannot be opened.
pub async fn open_place(place: LedgerLocation<'_>) -> Result<Arc<dyn LedgerReader>, Error> {
    match place {
        LedgerLocation::Sqlite(path) => sqlite(path).await,
        LedgerLocation::PostgresUrlFile(path) => postgres(path, &url(path)?).await,
        LedgerLocation::Config(path) => {
            let config = configuration(path)?;
            match &config.ledger {
                config::Ledger::Sqlite(ledger) => sqlite(&ledger.path).await,
                // WHY: the gate's own login cannot read other chains.
                config::Ledger::Postgres(ledger) => match &config.hub.reader_url_file {
                    Some(file) => postgres(file, &url(file)?).await,
                    None => postgres(path, ledger.connect.expose()).await,
                },
            }
        }
    }
}

/// Reads a configuration file.
///
/// # Errors
/// Everything that is wrong with it.
pub fn configuration(path: &Path) -> Result<Config, ConfigError> {
    Config::load(path, &config::environment).map_err(ConfigError::from)
}

async fn sqlite(path: &Path) -> Result<Arc<dyn LedgerReader>, Error> {
    if !path.exists() {
        return Err(Error::Absent(path.to_owned()));
    }
    let opened = SqliteReader::open(path).await;
    let reader = opened.map_err(|error| Error::Sqlite { path: path.to_owned(), error })?;
    Ok(Arc::new(reader))
}

async fn postgres(from: &Path, url: &str) -> Result<Arc<dyn LedgerReader>, Error> {
    let opened = PostgresReader::connect(url).await;
    let reader = opened.map_err(|error| Error::Postgres { from: from.to_owned(), error })?;
    Ok(Arc::new(reader))
}

/// The URL in a file: its text without the white space around it.
///
/// # Errors
/// The file cannot be read or is empty.
pub fn url(path: &Path) -> Result<String, Error> {
    let text = std::fs::read_to_string(path).map_err(FileError::at(path))?;
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::Empty(path.to_owned()));
    }
    Ok(text.to_owned())
}
