//! Loads bundles from command line arguments.

use std::path::{Path, PathBuf};

use crate::cli::{BundleError, FileError};
use crate::policy::bundle::Bundle;
use crate::policy::fault;

/// A bundle that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The file is not an archive of a bundle.
    #[error("`{}`: {error}", file.display())]
    Archive {
        file: PathBuf,
        #[source]
        error: fault::Error,
    },
    /// The directory is not a bundle.
    #[error(transparent)]
    Bundle(#[from] BundleError),
}

/// Reads a bundle: a directory, or the archive that evidence carries.
///
/// # Errors
/// All that is wrong with it, one problem a line.
pub(super) fn read(path: &Path) -> Result<Bundle, Error> {
    if path.is_file() {
        let bytes = std::fs::read(path).map_err(FileError::at(path))?;
        let invalid = |error| Error::Archive { file: path.to_owned(), error };
        return Bundle::from_tar(&bytes).map_err(invalid);
    }
    Ok(Bundle::load(path).map_err(BundleError::at(path))?)
}
