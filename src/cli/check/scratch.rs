//! A directory for files that are checked and then gone.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::cli::config::with_variables;
use crate::cli::error::FileError;
use crate::clock::{SystemEntropy, random32};
use crate::config::archive::ArchiveSource;
use crate::config::{self, Config};

/// The directory; only this user can look into it.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Result<Self, FileError> {
        let random = hex::encode(random32(&SystemEntropy));
        let name = format!("wicketgate-check-{}", random.get(..16).unwrap_or_default());
        let root = std::env::temp_dir().join(name);
        std::fs::DirBuilder::new().mode(0o700).create(&root).map_err(FileError::at(&root))?;
        Ok(Self(root))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The configuration in this archive, whose files are laid out here.
    pub fn load(&self, source: &ArchiveSource) -> Result<Config, Vec<String>> {
        let read = Config::load_archive(source, Some(&self.0), &config::environment);
        with_variables(config::variables(), read)
    }

    /// A text about files of the archive, with their paths in the archive.
    pub fn shortened(&self, text: &str) -> String {
        text.replace(&format!("{}/current/", self.0.display()), "")
    }
}

impl Drop for Scratch {
    /// A directory that stays behind holds nothing but what its owner could read before.
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
