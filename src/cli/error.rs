//! Why commands fail, as far as several of them share it.

use std::io;
use std::path::{Path, PathBuf};

use super::{Exit, fail, reader};
use crate::domain::id::RunId;
use crate::ledger::store::StoreError;
use crate::policy::fault::LoadError;

/// An error of any module, for the one place that prints it.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why a command fails, and its exit code.
#[derive(Debug)]
pub struct Failure {
    pub(super) exit: Exit,
    cause: Cause,
}

impl Failure {
    /// A failure with this exit code.
    pub fn new(exit: Exit, cause: impl Into<Cause>) -> Self {
        Self { exit, cause: cause.into() }
    }

    /// Something is invalid or denied.
    pub fn invalid(cause: impl Into<Cause>) -> Self {
        Self::new(Exit::Invalid, cause)
    }

    /// The evidence at hand does not suffice for a verdict.
    pub fn unverifiable(cause: impl Into<Cause>) -> Self {
        Self::new(Exit::Unverifiable, cause)
    }

    /// The command line is wrong.
    pub fn usage(cause: impl Into<Cause>) -> Self {
        Self::new(Exit::Usage, cause)
    }

    /// Another process is the writer.
    pub fn fenced(cause: impl Into<Cause>) -> Self {
        Self::new(Exit::Fenced, cause)
    }

    /// The configuration is wrong.
    pub fn config(cause: impl Into<Cause>) -> Self {
        Self::new(Exit::Config, cause)
    }

    /// What is wrong, in words.
    pub fn reason(&self) -> String {
        self.cause.to_string()
    }

    /// Prints it, and returns how the command ends.
    pub fn print(self) -> Exit {
        fail(self.exit, self.cause)
    }
}

/// A ledger that cannot be opened.
impl From<reader::Error> for Failure {
    fn from(error: reader::Error) -> Self {
        Self::unverifiable(error)
    }
}

/// A ledger that does not answer.
impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::unverifiable(error)
    }
}

/// A file or directory that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("`{}`{}", path.display(), because(source))]
pub struct FileError {
    path: PathBuf,
    source: io::Error,
}

/// What every command says of a file that it would have to replace.
const EXISTS: &str = " exists and is not replaced; name another file, or move this one away";

/// What the system says; of what stands in the way, what every command says of that.
fn because(source: &io::Error) -> String {
    if source.kind() == io::ErrorKind::AlreadyExists {
        return EXISTS.to_owned();
    }
    format!(": {source}")
}

impl FileError {
    /// An error of the system about this path.
    pub fn at(path: &Path) -> impl Fn(io::Error) -> Self + use<'_> {
        |source| Self { path: path.to_owned(), source }
    }
}

/// A bundle that does not load, and everything that is wrong with it.
#[derive(Debug, thiserror::Error)]
#[error("`{}` does not load:{}", place.display(), indented(errors))]
pub struct BundleError {
    place: PathBuf,
    errors: Vec<LoadError>,
}

impl BundleError {
    /// What is wrong with the bundle in this place.
    pub fn at(place: &Path) -> impl Fn(Vec<LoadError>) -> Self + use<'_> {
        |errors| Self { place: place.to_owned(), errors }
    }
}

fn indented(errors: &[LoadError]) -> String {
    errors.iter().map(|error| format!("\n  {error}")).collect()
}

/// A name that the ledger does not have.
#[derive(Debug, thiserror::Error)]
pub enum LookupError {
    /// No chain has this origin.
    #[error("unknown chain `{0}`")]
    Chain(String),
    /// No run has this id.
    #[error("no run `{0}` in this ledger")]
    Run(RunId),
}

/// A place where something would be written, and something is.
#[derive(Debug, thiserror::Error)]
pub enum Occupied {
    /// A file is there.
    #[error("`{}`{EXISTS}", .0.display())]
    File(PathBuf),
    /// The directory has entries.
    #[error("`{}` is not empty", .0.display())]
    Directory(PathBuf),
}

/// The asynchronous runtime that the system did not give.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the async runtime: {0}")]
pub struct NoRuntime(pub io::Error);
