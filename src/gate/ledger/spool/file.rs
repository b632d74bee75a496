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
        if self.end.saturating_sub(self.next) < length {
            self.grow(length.max(self.step))?;
        }
        let at = self.next;
        // WHY before the attempt: what a failed one leaves behind is a torn line, and stays one.
        self.next = self.next.saturating_add(length);
        self.placing.write_all_at(line, at)
    }

    fn grow(&mut self, by: u64) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(by).unwrap_or(usize::MAX)];
        // WHY one write: what two writes add may have the zeros of another process in between.
        if self.growing.write(&zeros)? < zeros.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.end = self.growing.stream_position()?;
        self.next = self.end.saturating_sub(by);
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
