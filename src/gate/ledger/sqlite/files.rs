//! The files beside the database: the lock that keeps a second writer out, the reserve for outcomes.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, FlockOperation, fallocate, flock};
use rustix::io::Errno;

use crate::ledger::store::StoreError;

/// Bytes reserved for outcomes when the disk is full.
pub(super) const RESERVE: u64 = 4 * 1024 * 1024;

/// `<db><suffix>`, beside the database.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Creates the directory (0700) and the database file (0600), whose mode `-wal` and `-shm` inherit.
pub(super) fn prepare(path: &Path) -> Result<(), StoreError> {
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(parent)
            .map_err(|e| failed(parent, &e))?;
    }
    open(path).map(drop)
}

/// Takes the exclusive lock of one pool of slots for as long as the file stays open.
pub(super) fn lock(path: &Path, suffix: &str) -> Result<File, StoreError> {
    let lock_path = beside(path, suffix);
    let file = open(&lock_path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(Errno::WOULDBLOCK) => {
            Err(StoreError::Conflict(format!("`{}` is in use by another process", path.display())))
        }
        Err(error) => Err(failed(&lock_path, &error.into())),
    }
}

/// Fills the reserve; `false` if there is no space for it.
pub(super) fn fill_reserve(path: &Path) -> Result<bool, StoreError> {
    let reserve = beside(path, ".reserve");
    let made = open(&reserve)
        .and_then(|file| allocate(file, RESERVE).map_err(|error| failed(&reserve, &error)));
    match made {
        Ok(()) => Ok(true),
        Err(StoreError::Full(_)) => {
            drain_reserve(path)?;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Makes these bytes of the file occupy space on the disk.
fn allocate(mut file: File, bytes: u64) -> std::io::Result<()> {
    // Allocating existing blocks does nothing, so this also repairs a sparse copy.
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // WHY: some file systems (ZFS, NFS before 4.2) cannot allocate; there, written bytes occupy
        // space.
        Err(Errno::OPNOTSUPP) => {
            std::io::copy(&mut std::io::repeat(0).take(bytes), &mut file)?;
            file.sync_data()
        }
        answer => Ok(answer?),
    }
}

/// Frees the reserve's space; `true` if there was any.
pub(super) fn drain_reserve(path: &Path) -> Result<bool, StoreError> {
    let reserve = beside(path, ".reserve");
    let length = match std::fs::metadata(&reserve) {
        Ok(meta) => meta.len(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(failed(&reserve, &error)),
    };
    std::fs::remove_file(&reserve).map_err(|e| failed(&reserve, &e))?;
    Ok(length > 0)
}

fn open(path: &Path) -> Result<File, StoreError> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|e| failed(path, &e))
}

fn failed(path: &Path, error: &std::io::Error) -> StoreError {
    let text = format!("`{}`: {error}", path.display());
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    if matches!(error.kind(), StorageFull | QuotaExceeded) {
        StoreError::Full(text)
    } else {
        StoreError::Unavailable(text)
    }
}
