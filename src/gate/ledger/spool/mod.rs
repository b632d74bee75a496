//! What this machine remembers of its own chain: the lease it held, and the last heads it signed.
//!
//! A database that is behind its writer's memory was rolled back. With the spool's bytes the writer
//! heals it by appending exactly those again; without them it refuses to serve.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Deserialize;

use file::{SpoolFile, private};
use line::{batch_line, read_batch};

use super::store::{Batch, HeadRow, LeaseKey};
use crate::crypto::note::Checkpoint;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::domain::json::{Json, Limits};
use crate::record::Entry;

mod file;
mod line;

/// The last head that this machine remembers signing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Watermark {
    /// The chain.
    pub chain: ChainId,
    /// Entries.
    pub size: u64,
    /// Leaf hash of the last entry.
    pub hash: Digest,
    /// Merkle root.
    pub root: Digest,
    /// Name of the log; empty if an earlier build wrote it without the name.
    pub origin: String,
}

/// What a writer remembers across restarts.
pub trait Journal: Send + Sync + 'static {
    /// Keeps this batch; on disk when it returns, if this journal promises that.
    ///
    /// # Errors
    /// The file system's. The writer takes no new intent until a later batch is kept.
    fn keep(&mut self, key: &LeaseKey, batch: &Batch) -> io::Result<()>;
    /// The last head kept for this chain.
    ///
    /// # Errors
    /// The file exists and cannot be read or parsed: refuse to serve.
    fn watermark(&self, chain: &ChainId) -> io::Result<Option<Watermark>> {
        Ok(self.latest()?.filter(|mark| mark.chain == *chain))
    }
    /// The last head kept, of any chain.
    ///
    /// # Errors
    /// As `watermark`.
    fn latest(&self) -> io::Result<Option<Watermark>>;
    /// The kept batches that end after this size, oldest first.
    ///
    /// # Errors
    /// As `watermark`.
    fn since(&self, _chain: &ChainId, _size: u64) -> io::Result<Vec<Batch>> {
        Ok(Vec::new())
    }
    /// Whether `keep` waits for the disk and so deserves its own thread.
    fn waits(&self) -> bool {
        false
    }
    /// Notes that the store has the last batch, up to this size. The note need not be on disk when
    /// this returns: if a power cut loses it, recovery treats that one batch as unknown.
    ///
    /// # Errors
    /// The file system's.
    fn settled(&mut self, _chain: &ChainId, _size: u64) -> io::Result<()> {
        Ok(())
    }
    /// The last batch kept for this chain, unless a note says that the store has it.
    ///
    /// # Errors
    /// As `watermark`.
    fn unsettled(&self, _chain: &ChainId) -> io::Result<Option<Batch>> {
        Ok(None)
    }
    /// Drops that batch: another process took the slot before the store received it.
    ///
    /// # Errors
    /// The file system's.
    fn withdraw(&mut self, _chain: &ChainId, _size: u64) -> io::Result<()> {
        Ok(())
    }
}

/// Remembers nothing: for simulation, where the store cannot be rolled back.
#[derive(Debug, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn keep(&mut self, _key: &LeaseKey, _batch: &Batch) -> io::Result<()> {
        Ok(())
    }

    fn latest(&self) -> io::Result<Option<Watermark>> {
        Ok(None)
    }
}

/// Remembers the last head only: for a store on the same disk, which loses nothing that the disk
/// keeps.
///
/// Written without waiting for the disk: after a power cut it may be too old, but never too new.
#[derive(Debug)]
pub struct HeadFile {
    path: PathBuf,
    file: File,
    /// Bytes in the file, once this process wrote it.
    length: Option<usize>,
}

impl HeadFile {
    /// Opens or makes the file.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = private().read(true).write(true).create(true).truncate(false).open(path)?;
        Ok(Self { path: path.to_owned(), file, length: None })
    }
}

impl Journal for HeadFile {
    fn keep(&mut self, key: &LeaseKey, batch: &Batch) -> io::Result<()> {
        let mut line = format!("{} {} {}\n", key.chain, batch.head.size, batch.head.hash);
        let signed = signed_of(&batch.head)?;
        line.push_str(&format!("{} {}\n", signed.root.hex(), signed.origin));
        self.file.write_all_at(line.as_bytes(), 0)?;
        // Nearly every line is as long as the one before.
        if self.length != Some(line.len()) {
            self.file.set_len(u64::try_from(line.len()).unwrap_or(0))?;
            self.length = Some(line.len());
        }
        Ok(())
    }

    fn latest(&self) -> io::Result<Option<Watermark>> {
        let text = std::fs::read_to_string(&self.path)?;
        if text.is_empty() {
            return Ok(None);
        }
        read_mark(&text).map(Some).ok_or_else(|| garbled(&self.path))
    }
}

fn read_mark(text: &str) -> Option<Watermark> {
    let mut words = text.split_whitespace();
    let mark = Watermark {
        chain: ChainId::parse(words.next()?)?,
        size: words.next()?.parse().ok()?,
        hash: Digest::parse(words.next()?)?,
        root: Digest::parse(words.next()?)?,
        origin: words.next().unwrap_or_default().to_owned(),
    };
    words.next().is_none().then_some(mark)
}

/// Size at which the spool starts a new file and drops the one before the last.
const SPOOL_FILE_MAX: u64 = 32 * 1024 * 1024;

/// Age at which it does so too (12 h): the file holds small payloads, and payloads erased from the
/// ledger must not stay in it for longer than a day of a running writer.
const SPOOL_FILE_AGE_MS: i64 = 12 * 60 * 60 * 1000;

/// How much of the end is read at first. What is looked for is mostly the last line.
const WINDOW: u64 = 64 * 1024;

/// Batches and the chain of each, oldest first.
type SpooledBatches = VecDeque<(ChainId, Batch)>;

/// Remembers the exact bytes of the last batches, on disk before they are acknowledged.
#[derive(Debug)]
pub struct Spool {
    dir: PathBuf,
    file: SpoolFile,
    /// Time of the first batch in the current file, by its entries.
    since: Option<i64>,
}

impl Spool {
    /// Opens or creates the spool in this directory.
    ///
    /// # Errors
    /// The file system's.
    pub fn open(dir: &Path) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        let path = dir.join("current.spool");
        let file = SpoolFile::open(&path)?;
        let mut spool = Self { dir: dir.to_owned(), file, since: None };
        spool.since = first_batch(&path)?.as_ref().and_then(time_of);
        Ok(spool)
    }

    fn rotate(&mut self) -> io::Result<()> {
        let current = self.dir.join("current.spool");
        // WHY the next file first: a rotation that cannot create it has changed nothing, and is
        // tried again.
        let next = self.dir.join("next.spool");
        let file = SpoolFile::open(&next)?;
        std::fs::rename(&current, self.dir.join("previous.spool"))?;
        std::fs::rename(&next, &current)?;
        self.file = file;
        File::open(&self.dir)?.sync_all()?;
        self.since = None;
        Ok(())
    }

    /// Whether the current file is too long or too old to continue.
    fn full(&mut self, batch: &Batch) -> bool {
        let now = time_of(batch);
        let since = *self.since.get_or_insert(now.unwrap_or_default());
        let aged = now.is_some_and(|now| now.saturating_sub(since) > SPOOL_FILE_AGE_MS);
        aged || self.file.length() > SPOOL_FILE_MAX
    }

    /// The last batch of one chain, or of all, and whether the store is known to have it.
    fn last(&self, chain: Option<&ChainId>) -> io::Result<Option<(ChainId, Batch, bool)>> {
        let (mut batches, settled) = self.read(chain, WINDOW, |batches| !batches.is_empty())?;
        Ok(batches.pop_back().map(|(of, batch)| (of, batch, settled)))
    }

    /// The kept batches of one chain, or of all, oldest first, and whether the store is known to
    /// have the last of them. Reads backwards from the end, at first this many bytes, until there
    /// are enough.
    ///
    /// What stands before the bytes that were read changes nothing about a batch that they leave: a
    /// line concerns only the batch that is the last one when it is read.
    fn read(
        &self,
        chain: Option<&ChainId>,
        mut window: u64,
        enough: impl Fn(&SpooledBatches) -> bool,
    ) -> io::Result<(SpooledBatches, bool)> {
        loop {
            let (lines, whole) = self.tail(window)?;
            let (batches, settled) = follow(chain, &lines);
            if whole || enough(&batches) {
                return Ok((batches, settled));
            }
            window = window.saturating_mul(4);
        }
    }

    /// The last bytes of the spool, from the beginning of a line on, and whether they are all. Zeros that
    /// wait for lines are read as a torn line.
    fn tail(&self, window: u64) -> io::Result<(Vec<u8>, bool)> {
        let (mut lines, mut left, mut whole) = (Vec::new(), window, true);
        for name in ["current.spool", "previous.spool"] {
            let mut file = match File::open(self.dir.join(name)) {
                Ok(file) => file,
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                Err(e) => return Err(e),
            };
            let length = file.metadata()?.len();
            let skipped = length.saturating_sub(left);
            left = left.saturating_sub(length);
            file.seek(SeekFrom::Start(skipped))?;
            let mut part = Vec::new();
            file.read_to_end(&mut part)?;
            if skipped > 0 {
                whole = false;
                let line = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
                part.drain(..line);
            }
            // A line does not continue in the next file.
            part.push(b'\n');
            part.append(&mut lines);
            lines = part;
        }
        Ok((lines, whole))
    }

    fn write_note(&mut self, name: &str, chain: &ChainId, size: u64) -> io::Result<()> {
        let chain = Json::from(chain.to_string());
        let note = Json::object([(name, Json::from(size)), ("chain", chain)]);
        self.line(canonical::bytes(&note))
    }

    fn line(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        // A leading newline terminates a line that an earlier crash tore.
        line.insert(0, b'\n');
        line.push(b'\n');
        self.file.write(&line)
    }
}

impl Journal for Spool {
    fn keep(&mut self, key: &LeaseKey, batch: &Batch) -> io::Result<()> {
        self.line(batch_line(&key.chain, batch))?;
        self.file.sync()?;
        if self.full(batch) {
            self.rotate()?;
        }
        Ok(())
    }

    fn watermark(&self, chain: &ChainId) -> io::Result<Option<Watermark>> {
        self.last(Some(chain))?.map(|(chain, last, _)| mark(chain, &last)).transpose()
    }

    fn latest(&self) -> io::Result<Option<Watermark>> {
        self.last(None)?.map(|(chain, last, _)| mark(chain, &last)).transpose()
    }

    fn since(&self, chain: &ChainId, size: u64) -> io::Result<Vec<Batch>> {
        let reached = |batches: &SpooledBatches| {
            batches.front().is_some_and(|(_, first)| first.head.size <= size)
        };
        let (batches, _) = self.read(Some(chain), WINDOW, reached)?;
        let batches = batches.into_iter().map(|(_, batch)| batch);
        Ok(batches.filter(|batch| batch.head.size > size).collect())
    }

    fn waits(&self) -> bool {
        true
    }

    fn settled(&mut self, chain: &ChainId, size: u64) -> io::Result<()> {
        self.write_note(SETTLED, chain, size)
    }

    fn unsettled(&self, chain: &ChainId) -> io::Result<Option<Batch>> {
        Ok(self.last(Some(chain))?.filter(|(.., settled)| !settled).map(|(_, batch, _)| batch))
    }

    fn withdraw(&mut self, chain: &ChainId, size: u64) -> io::Result<()> {
        self.write_note(WITHDRAWN, chain, size)?;
        self.file.sync()
    }
}

/// What lines leave of the batches of one chain, or of all, oldest first, and whether the store is
/// known to have the last of them.
fn follow(chain: Option<&ChainId>, lines: &[u8]) -> (SpooledBatches, bool) {
    let mut batches = SpooledBatches::new();
    let mut settled = true;
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let last = batches.back().map(|(of, batch): &(ChainId, Batch)| (*of, batch.head.size));
        // A torn line was never acknowledged by this spool.
        if let Some((of, batch)) = read_batch(line) {
            if chain.is_none_or(|chain| of == *chain) {
                // Each retry keeps the same batch again.
                if last == Some((of, batch.head.size)) {
                    batches.pop_back();
                }
                batches.push_back((of, batch));
                settled = false;
            }
        } else if let Some((note, of, size)) = read_note(line)
            && last == Some((of, size))
        {
            if note == WITHDRAWN {
                batches.pop_back();
            }
            settled = true;
        }
    }
    (batches, settled)
}

/// The store has the batch before this line, which ends at this size.
const SETTLED: &str = "settled";
/// The batch before this line, which ends at this size, is not part of its log.
const WITHDRAWN: &str = "withdrawn";

/// A note about the batch before it: which note, the chain, and where that batch ends.
fn read_note(line: &[u8]) -> Option<(&'static str, ChainId, u64)> {
    #[derive(Deserialize)]
    struct BatchNote {
        chain: ChainId,
        settled: Option<u64>,
        withdrawn: Option<u64>,
    }
    let note: BatchNote = Json::parse(line, &Limits::FILE).ok()?.read().ok()?;
    let (name, size) = match (note.settled, note.withdrawn) {
        (Some(size), _) => (SETTLED, size),
        (None, size) => (WITHDRAWN, size?),
    };
    Some((name, note.chain, size))
}

fn first_batch(path: &Path) -> io::Result<Option<Batch>> {
    for line in BufReader::new(File::open(path)?).split(b'\n') {
        if let Some((_, batch)) = read_batch(&line?) {
            return Ok(Some(batch));
        }
    }
    Ok(None)
}

/// When a batch was made, in milliseconds.
fn time_of(batch: &Batch) -> Option<i64> {
    let last = batch.entries.last()?;
    Entry::parse(&last.body).ok().map(|entry| entry.ts.millis())
}

fn garbled(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("`{}` cannot be understood", path.display()))
}

fn signed_of(head: &HeadRow) -> io::Result<Checkpoint> {
    let parsed = Checkpoint::parse(&head.checkpoint);
    parsed.map(|(signed, _)| signed).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

fn mark(chain: ChainId, last: &Batch) -> io::Result<Watermark> {
    let Checkpoint { origin, root, .. } = signed_of(&last.head)?;
    Ok(Watermark { chain, size: last.head.size, hash: last.head.hash, root, origin })
}

/// Keeps the lease of this machine in a file of mode 0600, so that a restart continues its own
/// slot.
#[derive(Clone, Debug)]
pub struct LeaseFile {
    path: PathBuf,
}

impl LeaseFile {
    /// The lease file at this path.
    pub const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The lease before the restart, if one is remembered. `None` for an unreadable file.
    #[must_use]
    pub fn load(&self) -> Option<LeaseKey> {
        let text = std::fs::read_to_string(&self.path).ok()?;
        let mut words = text.split_whitespace();
        let chain = ChainId::parse(words.next()?)?;
        let epoch = words.next()?.parse().ok()?;
        let secret = <[u8; 32]>::try_from(hex::decode(words.next()?).ok()?).ok()?;
        Some(LeaseKey { chain, epoch, secret })
    }

    /// Remembers this lease, on disk when it returns.
    ///
    /// # Errors
    /// The file system's.
    pub fn store(&self, key: &LeaseKey) -> io::Result<()> {
        let line = format!("{} {} {}\n", key.chain, key.epoch, hex::encode(key.secret));
        replace(&self.path, line.as_bytes(), 0o600)
    }
}

/// Replaces a file by renaming a new one, so that no reader sees half of it; durable when it
/// returns.
pub(crate) fn replace(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    // WHY a name of its own: a command and the gate may replace the same file, and the rename of
    // one takes the file of the other away.
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let next = path.with_extension(format!("{}-{number}.new", std::process::id()));
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(mode).open(&next)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&next, path)?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests;
