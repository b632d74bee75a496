//! One file of the spool, whose lines are written into space that the file has already.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// How much a file grows at first, and then twice as much each time.
///
/// WHY so little: a gate that starts again and again must not push what it kept before out of the
/// spool.
const STEP_MIN: u64 = 16 * 1024;
/// How much it grows at most.
const STEP_MAX: u64 = 1024 * 1024;

/// A file that grows in steps of zeros, into which lines are written afterwards.
///
/// WHY: a line that makes its file longer changes what the file system knows of the file, so
/// `fdatasync` writes that too, and waits for the journal where there is one. The log of the
/// database waits behind it on the same disk. A line over zeros waits for its own bytes only.
///
/// Each process writes between the ends of its own steps: one that was replaced and has not noticed
/// it writes over nothing of its successor.
#[derive(Debug)]
pub(super) struct SpoolFile {
    /// Writes at the end, wherever another process put that.
    growing: File,
    /// Writes where it is told to.
    placing: File,
    /// Where the next line begins.
    next: u64,
    /// Where the last step ends.
    end: u64,
    /// How long the next step is.
    step: u64,
}

impl SpoolFile {
    /// Opens or creates it.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        loop {
            let growing = private().append(true).create(true).open(path)?;
            let placing = private().write(true).open(path)?;
            let (one, other) = (growing.metadata()?, placing.metadata()?);
            // Another process may have begun the next file in between.
            if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
                let (end, step) = (one.len(), STEP_MIN);
                return Ok(Self { growing, placing, next: end, end, step });
            }
        }
    }

    /// Bytes of it, with the zeros that wait for lines.
    pub(super) const fn length(&self) -> u64 {
        self.end
    }

    /// Writes a line, without waiting for the disk.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        let length = bytes(line.len());
        if self.left() < length {
            self.grow(length.max(self.step))?;
        }
        if self.left() < length {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let at = self.next;
        // WHY before the attempt: what a failed one leaves behind is a torn line, and stays one.
        self.next = self.next.saturating_add(length);
        self.placing.write_all_at(line, at)
    }

    /// Bytes that wait for lines.
    const fn left(&self) -> u64 {
        self.end.saturating_sub(self.next)
    }

    fn grow(&mut self, by: u64) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(by).unwrap_or(usize::MAX)];
        // WHY one write: what two writes add may have the zeros of another process in between.
        let added = self.growing.write(&zeros)?;
        self.take(bytes(added))
    }

    /// Takes what was added at the end. That may be less than was asked for: a disk that is nearly full
    /// gives what it has, and a line that fits in there is kept.
    fn take(&mut self, added: u64) -> io::Result<()> {
        let end = self.growing.stream_position()?;
        let begins = end.saturating_sub(added);
        // What is left of the step before goes on here, unless another process added something.
        if begins != self.end {
            self.next = begins;
        }
        self.end = end;
        self.step = self.step.saturating_mul(2).min(STEP_MAX);
        Ok(())
    }

    /// Waits until the disk has every line.
    ///
    /// # Errors
    /// The file system's.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.placing.sync_data()
    }
}

fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// For files that only their owner may read.
pub(super) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_full_disk_still_gives_is_used_and_goes_on_where_more_follows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("current.spool");
        let mut file = SpoolFile::open(&path).unwrap();
        // A disk with forty bytes left.
        for given in [&[0; 30][..], &[0; 10]] {
            file.growing.write_all(given).unwrap();
            file.take(bytes(given.len())).unwrap();
        }
        file.write(&[b'a'; 35]).unwrap();
        assert_eq!((file.length(), file.next), (40, 35));
        file.write(&[b'b'; 20]).unwrap();
        let kept = std::fs::read(&path).unwrap();
        assert!(kept.starts_with(&[&[b'a'; 35][..], &[b'b'; 20]].concat()), "no gap");
        // The bytes of another process stay.
        let mut other = SpoolFile::open(&path).unwrap();
        other.write(b"other").unwrap();
        let long = vec![b'c'; kept.len()];
        file.write(&long).unwrap();
        let all = std::fs::read(&path).unwrap();
        let at = |wanted: &[u8]| all.windows(wanted.len()).position(|bytes| bytes == wanted);
        assert_eq!(at(b"other"), Some(kept.len()));
        assert_eq!(at(&long), Some(usize::try_from(other.length()).unwrap()));
    }
}
