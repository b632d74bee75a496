//! The storage of an archive: named bytes, written once.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use rustix::fs::{FlockOperation, flock};

use super::Error;

/// How long something is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// The bytes under this name never change.
    Forever,
    /// Later bytes replace them.
    Latest,
}

/// Named bytes.
#[async_trait]
pub trait ArchiveStore: Send + Sync {
    /// The bytes under a name, or `None` if the name is unused.
    ///
    /// # Errors
    /// The storage cannot be read.
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error>;

    /// Puts bytes under a name, all of them or none, durably.
    ///
    /// # Errors
    /// The bytes were not stored.
    async fn put(&self, name: &str, bytes: &[u8], keep: Keep) -> Result<(), Error>;

    /// Removes a file that is no longer needed, where the storage allows that.
    ///
    /// # Errors
    /// The file exists and could not be removed.
    async fn remove(&self, name: &str) -> Result<(), Error>;
}

/// A directory, held by one archiver at a time.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Held while the archive is written; a reader needs none.
    _lock: Option<File>,
}

fn failed(name: &str, error: &std::io::Error) -> Error {
    Error::File { name: name.to_owned(), why: error.to_string() }
}

impl Directory {
    /// Makes or opens a directory for writing.
    ///
    /// # Errors
    /// It cannot be made, or another archiver is at work in it.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        std::fs::create_dir_all(path).map_err(|e| failed(&name, &e))?;
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).open(path.join(".lock"));
        let lock = lock.map_err(|e| failed(&name, &e))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Error::File { name, why: "another archiver is at work here".into() })?;
        Ok(Self { path: path.to_owned(), _lock: Some(lock) })
    }

    /// Opens a directory for reading.
    pub fn read(path: &Path) -> Self {
        Self { path: path.to_owned(), _lock: None }
    }

    fn store(&self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        let path = self.path.join(name);
        let parent = path.parent().unwrap_or(&self.path);
        std::fs::create_dir_all(parent)?;
        // The bytes get their name only once they are all on the disk.
        let temporary = self.path.join(".new");
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, &path)?;
        File::open(parent)?.sync_all()
    }
}

#[async_trait]
impl ArchiveStore for Directory {
    async fn get(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        match std::fs::read(self.path.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(name, &error)),
        }
    }

    async fn put(&self, name: &str, bytes: &[u8], _keep: Keep) -> Result<(), Error> {
        self.store(name, bytes).map_err(|e| failed(name, &e))
    }

    async fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.path.join(name);
        match std::fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(name, &error)),
        }
        // Removes the tile's `.p` directory if it is empty now; the call fails if it is not.
        drop(path.parent().map(std::fs::remove_dir));
        Ok(())
    }
}
