//! What a witness remembers: for each log the newest head it cosigned, one file per log.
//!
//! A file is the cosigned note itself, so that the witness's own signature shows whether the file
//! is whole. The witness replaces it by rename and syncs it before the cosignature leaves: no crash
//! loses a head that it cosigned for a log.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::fs::FlockOperation;

use crate::crypto::note::{self, Algorithm, Checkpoint, VerifierKey};
use crate::domain::digest::Digest;

/// Bytes of the file with the logs' keys.
const LOGS_BYTES_MAX: usize = 1 << 20;
/// The suffix of state files; before it stands SHA-256 of the log's name.
const SUFFIX: &str = ".checkpoint";

/// Why a witness cannot start, or must stop cosigning.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or folder cannot be read or written.
    #[error("`{path}`: {source}")]
    Io {
        /// The file or folder.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Another witness works with this state.
    #[error("`{0}`: another witness uses this state directory")]
    Taken(String),
    /// A file is damaged. The witness must not go on without it.
    #[error("`{path}` is damaged: {why}; restore it, a witness that forgets would cosign a fork")]
    Damaged {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The list of logs is wrong.
    #[error("`{path}` line {line}: {why}")]
    Logs {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// A write failed half way: the state on disk is unknown.
    #[error("the state could not be written; nothing is cosigned until a restart")]
    Broken,
}

fn io(path: &Path) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| Error::Io { path: path.display().to_string(), source }
}

/// Reads the keys of the logs a witness cosigns for: one vkey a line, `#` begins a comment line.
///
/// # Errors
/// The file, the line and its error. A file without a key is an error, too.
pub fn read_logs(path: &Path) -> Result<Vec<VerifierKey>, Error> {
    let text = std::fs::read_to_string(path).map_err(io(path))?;
    let invalid = |line: usize, why: &str| Error::Logs {
        path: path.display().to_string(),
        line,
        why: why.to_owned(),
    };
    if text.len() > LOGS_BYTES_MAX {
        return Err(invalid(1, "more than a MiB of keys"));
    }
    let mut keys = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let (at, line) = (at.saturating_add(1), line.trim());
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = VerifierKey::parse(line).map_err(|e| invalid(at, &e.to_string()))?;
        if key.algorithm != Algorithm::Ed25519 {
            return Err(invalid(at, "the key is not the key of a log (algorithm 1)"));
        }
        if keys.contains(&key) {
            return Err(invalid(at, "the key is there twice"));
        }
        keys.push(key);
    }
    if keys.is_empty() {
        return Err(invalid(1, "no key of a log"));
    }
    Ok(keys)
}

/// What is remembered of one log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remembered {
    /// The newest head that was cosigned.
    pub checkpoint: Checkpoint,
    /// The note with that head: the log's signatures and the cosignature.
    pub note: String,
}

/// One log: its keys, and the head that was cosigned last.
#[derive(Debug)]
pub struct Log {
    keys: Vec<VerifierKey>,
    newest: Mutex<Option<Remembered>>,
}

impl Log {
    /// Keys that may sign its heads.
    pub fn keys(&self) -> &[VerifierKey] {
        &self.keys
    }

    /// The head that was cosigned last. Waits for a write: not for a task.
    pub fn newest(&self) -> Option<Remembered> {
        self.newest.lock().clone()
    }
}

/// The state directory, locked against a second witness process.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    _lock: File,
    logs: BTreeMap<String, Log>,
    /// Set after a write failed.
    broken: AtomicBool,
}

impl Store {
    /// Locks the directory, makes it if it is missing, and reads what is remembered.
    ///
    /// # Errors
    /// Another process uses it, or a file is not what this witness wrote.
    pub fn open(dir: &Path, witness: &VerifierKey, keys: Vec<VerifierKey>) -> Result<Self, Error> {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io(dir))?;
        let path = dir.join("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(io(&path))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| Error::Taken(dir.display().to_string()))?;
        let mut by_origin: BTreeMap<String, Vec<VerifierKey>> = BTreeMap::new();
        for key in keys {
            by_origin.entry(key.name.clone()).or_default().push(key);
        }
        let mut remembered = read(dir, witness, &by_origin)?;
        let mut logs = BTreeMap::new();
        for (origin, keys) in by_origin {
            let newest = Mutex::new(remembered.remove(&origin));
            logs.insert(origin, Log { keys, newest });
        }
        Ok(Self { dir: dir.to_owned(), _lock: lock, logs, broken: AtomicBool::new(false) })
    }

    /// The log of this name.
    pub fn log(&self, origin: &str) -> Option<&Log> {
        self.logs.get(origin)
    }

    /// The log whose name has this SHA-256.
    pub fn by_hash(&self, hash: &Digest) -> Option<&Log> {
        self.logs.iter().find(|(origin, _)| name_hash(origin) == *hash).map(|(_, log)| log)
    }

    /// Whether every write succeeded: after a failed one, the state on disk is unknown.
    pub fn is_whole(&self) -> bool {
        !self.broken.load(Ordering::SeqCst)
    }

    /// Shows `decide` what is remembered of a log, and stores its decision before the next one can
    /// begin: check and write are one step.
    ///
    /// `decide` gives the new head, or `None` if there is nothing to remember, and an answer. The answer
    /// is given away only after the head is on disk.
    ///
    /// The disk, or an earlier failure: then no answer leaves.
    pub fn update<T>(
        &self,
        log: &Log,
        decide: impl FnOnce(Option<&Remembered>) -> (Option<Remembered>, T),
    ) -> Result<T, Error> {
        let mut newest = log.newest.lock();
        if !self.is_whole() {
            return Err(Error::Broken);
        }
        let (next, answer) = decide(newest.as_ref());
        if let Some(next) = next {
            self.keep(&next).inspect_err(|_| self.broken.store(true, Ordering::SeqCst))?;
            *newest = Some(next);
        }
        Ok(answer)
    }

    fn keep(&self, next: &Remembered) -> Result<(), Error> {
        let name = name_hash(&next.checkpoint.origin).hex();
        let (path, part) =
            (self.dir.join(format!("{name}{SUFFIX}")), self.dir.join(format!("{name}.part")));
        let file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&part);
        let written = file.and_then(|mut file| {
            file.write_all(next.note.as_bytes())?;
            file.sync_all()
        });
        written.map_err(io(&part))?;
        std::fs::rename(&part, &path).map_err(io(&path))?;
        File::open(&self.dir).and_then(|dir| dir.sync_all()).map_err(io(&self.dir))
    }
}

/// SHA-256 of a log's name.
fn name_hash(origin: &str) -> Digest {
    Digest::of(&[origin.as_bytes()])
}

/// Reads every state file, those of logs that are no longer cosigned too: none may be damaged.
fn read(
    dir: &Path,
    witness: &VerifierKey,
    logs: &BTreeMap<String, Vec<VerifierKey>>,
) -> Result<BTreeMap<String, Remembered>, Error> {
    let mut all = BTreeMap::new();
    for entry in std::fs::read_dir(dir).map_err(io(dir))? {
        let entry = entry.map_err(io(dir))?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if name.ends_with(".part") {
            // Left by an interrupted write: its cosignature never left this process.
            std::fs::remove_file(&path).map_err(io(&path))?;
            continue;
        }
        let Some(hash) = name.strip_suffix(SUFFIX) else { continue };
        let damaged =
            |why: &str| Error::Damaged { path: path.display().to_string(), why: why.to_owned() };
        let bytes = std::fs::read(&path).map_err(io(&path))?;
        let note = String::from_utf8(bytes).map_err(|_| damaged("not text"))?;
        let checkpoint = whole(&note, witness, logs).map_err(|why| damaged(&why.to_string()))?;
        if name_hash(&checkpoint.origin).hex() != hash {
            return Err(damaged("it is of another log than its name says"));
        }
        all.insert(checkpoint.origin.clone(), Remembered { checkpoint, note });
    }
    Ok(all)
}

/// The head in a state file: cosigned by this witness, and signed by the log if its keys are known.
fn whole(
    note: &str,
    witness: &VerifierKey,
    logs: &BTreeMap<String, Vec<VerifierKey>>,
) -> Result<Checkpoint, note::Error> {
    let own = std::slice::from_ref(witness);
    let (checkpoint, _) = Checkpoint::open_with(note, own)?;
    if let Some(keys) = logs.get(&checkpoint.origin) {
        Checkpoint::open_with(note, keys)?;
    }
    Ok(checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemEntropy;
    use crate::crypto::cosign::cosign;
    use crate::crypto::keys::SecretKey;

    #[test]
    fn no_byte_of_a_state_file_can_be_changed_or_missing() {
        let dir = tempfile::tempdir().unwrap();
        let (log, own) = (SecretKey::generate(&SystemEntropy), SecretKey::generate(&SystemEntropy));
        let keys = vec![VerifierKey::log("log", log.public())];
        let witness = VerifierKey::witness("w", own.public());
        let root = Digest::of(&[b"root"]);
        let checkpoint = Checkpoint { origin: "log".into(), size: 3, root };
        let note = format!("{}{}\n", checkpoint.sign(&log), cosign("w", &own, 7, &checkpoint));
        let path = dir.path().join(format!("{}{SUFFIX}", name_hash("log").hex()));
        let open = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            Store::open(dir.path(), &witness, keys.clone())
        };
        let newest = open(note.as_bytes()).unwrap().log("log").unwrap().newest();
        assert_eq!(newest, Some(Remembered { checkpoint, note: note.clone() }));
        for at in 0..note.len() {
            let mut changed = note.clone().into_bytes();
            changed[at] ^= 1;
            assert!(matches!(open(&changed), Err(Error::Damaged { .. })), "byte {at}");
            let cut = note.as_bytes().get(..at).unwrap();
            assert!(matches!(open(cut), Err(Error::Damaged { .. })), "first {at} bytes");
        }
    }
}
