//! A secret that only `expose` shows, and that follows the file of its value.

use std::fmt;
use std::fs::Metadata;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use zeroize::Zeroizing;

use crate::crypto::private;

/// Bytes of the shortest secret: a shorter one looks like ordinary text in an answer.
pub const SECRET_BYTES_MIN: usize = 8;
/// Bytes of the longest secret.
pub const SECRET_BYTES_MAX: usize = 16 * 1024;
/// Earlier values of one secret that the gate remembers, to find them in answers.
const VALUES_MAX: usize = 16;

/// One credential value: visible ASCII, 8 to 16,384 bytes; wiped when its last holder drops it.
///
/// A secret from a file takes the file's new value when that changes; the gate remembers its
/// earlier values, since an answer may contain them long after.
#[derive(Clone)]
pub struct Secret(Arc<HeldSecret>);

struct HeldSecret {
    /// The file of its value, if any.
    file: Option<PathBuf>,
    values: Mutex<Values>,
    generation: AtomicU64,
}

struct Values {
    /// Every value it had, the one in force last.
    all: Vec<SecretValue>,
    /// The file as it was last looked at.
    seen: Option<Stamp>,
}

/// What changes when a file is written or another is put in its place.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

/// The value of a secret at one moment. Not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue(Arc<Zeroizing<String>>);

impl Deref for SecretValue {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// Why a text or a file is not a valid secret. The error never shows the value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file.
    #[error(transparent)]
    File(#[from] private::Error),
    /// The file is not UTF-8.
    #[error("the secret is not text")]
    Text,
    /// So many bytes are too few or too many.
    #[error("a secret must have {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes, this one has {0}")]
    Size(usize),
    /// Other characters than a header can carry.
    #[error("a secret must be visible ASCII without surrounding space")]
    Ascii,
}

impl Secret {
    /// Takes a value over; one trailing line break, as editors leave it, is not part of it.
    ///
    /// # Errors
    /// What is wrong with it, without showing it.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self::held(value(text)?, None, None))
    }

    /// Reads a file with only the secret in it, and follows it from then on.
    ///
    /// # Errors
    /// The file cannot be read, or the secret in it is invalid.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        let (stamp, text) = read(path)?;
        Ok(Self::held(value(&text)?, Some(path.to_owned()), Some(stamp)))
    }

    fn held(value: SecretValue, file: Option<PathBuf>, seen: Option<Stamp>) -> Self {
        let values = Mutex::new(Values { all: vec![value], seen });
        Self(Arc::new(HeldSecret { file, values, generation: AtomicU64::new(0) }))
    }

    /// The value. Only for the request it belongs to and for finding it where it must not be.
    pub fn expose(&self) -> SecretValue {
        // INVARIANT: there is always one; an empty text would only be a credential that is refused.
        self.0.values.lock().all.last().cloned().unwrap_or_else(|| SecretValue(Arc::default()))
    }

    /// The file's current value, at the last moment before sending. A file that cannot be read, or
    /// holds no secret, changes nothing: it may be half written.
    pub fn latest(&self) -> SecretValue {
        if let Some(file) = &self.0.file {
            self.look(file);
        }
        self.expose()
    }

    fn look(&self, file: &Path) {
        let stamp = file.metadata().ok().map(|metadata| stamp(&metadata));
        let mut values = self.0.values.lock();
        if stamp.is_none() || stamp == values.seen {
            return;
        }
        values.seen = stamp;
        let next = read(file).and_then(|(stamp, text)| Ok((stamp, value(&text)?)));
        let next = match next {
            Ok((stamp, next)) => {
                values.seen = Some(stamp);
                next
            }
            Err(why) => {
                tracing::warn!(%why, "the changed credential file cannot be used; the last value stays in use");
                return;
            }
        };
        if values.all.last() == Some(&next) {
            return;
        }
        values.all.retain(|earlier| *earlier != next);
        values.all.push(next);
        if values.all.len() > VALUES_MAX {
            values.all.remove(0);
        }
        // WHY: scanners for the values must know the new one before a request can carry it.
        self.0.generation.fetch_add(1, Ordering::Release);
    }

    /// Every value it had, as far as they are remembered.
    pub fn values(&self) -> Vec<SecretValue> {
        self.0.values.lock().all.clone()
    }

    /// Grows with every new value.
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }
}

fn value(text: &str) -> Result<SecretValue, Error> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&text.len()) {
        return Err(Error::Size(text.len()));
    }
    if !text.bytes().all(|b| (0x20..0x7f).contains(&b)) || text.trim() != text {
        return Err(Error::Ascii);
    }
    Ok(SecretValue(Arc::new(Zeroizing::new(text.to_owned()))))
}

fn stamp(metadata: &Metadata) -> Stamp {
    let (dev, ino, size) = (metadata.dev(), metadata.ino(), metadata.size());
    let written = (metadata.mtime(), metadata.mtime_nsec());
    (dev, ino, size, written.0, written.1, metadata.ctime(), metadata.ctime_nsec())
}

fn read(path: &Path) -> Result<(Stamp, Zeroizing<String>), Error> {
    let read = private::read(path, private::BYTES_MAX);
    let (metadata, bytes) = read.map_err(|why| private::Error { path: path.to_owned(), why })?;
    let text = std::str::from_utf8(&bytes).map_err(|_| Error::Text)?;
    Ok((stamp(&metadata), Zeroizing::new(text.to_owned())))
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Writes a file with access for its owner only, over the old one.
    #[track_caller]
    pub(crate) fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        chmod(path, 0o600);
    }

    fn chmod(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_file_that_others_may_read_gives_no_secret_first_or_later() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, "token-of-monday").unwrap();
        chmod(&path, 0o644);
        let why = Secret::of_file(&path).err().unwrap().to_string();
        assert!(why.contains("token` has mode 644"), "{why}");
        chmod(&path, 0o600);
        let secret = Secret::of_file(&path).unwrap();
        std::fs::write(&path, "token-of-tuesday").unwrap();
        chmod(&path, 0o644);
        assert_eq!(&*secret.latest(), "token-of-monday");
        chmod(&path, 0o600);
        assert_eq!(&*secret.latest(), "token-of-tuesday");
    }

    #[test]
    fn a_secret_is_never_shown_by_debug() {
        let secret = Secret::parse("tok-12345678\n").unwrap();
        assert_eq!(&*secret.expose(), "tok-12345678");
        assert_eq!(format!("{secret:?} {:?}", secret.expose()), "[secret] [secret]");
    }

    #[test]
    fn what_could_break_a_header_or_hide_in_text_is_refused() {
        for text in ["short", "line\r\nbreak-xx", " spaced-out-x", "ümlaut-secret", ""] {
            assert!(Secret::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_file_is_followed_and_what_it_held_stays_known() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let written = |text: &str| {
            let next = dir.path().join("next");
            write(&next, text);
            std::fs::rename(&next, &path).unwrap();
        };
        written("token-of-monday\n");
        let secret = Secret::of_file(&path).unwrap();
        assert_eq!((&*secret.latest(), secret.generation()), ("token-of-monday", 0));
        written("token-of-tuesday\n");
        assert_eq!(&*secret.expose(), "token-of-monday", "it was not read yet");
        assert_eq!((&*secret.latest(), secret.generation()), ("token-of-tuesday", 1));
        // An invalid value changes nothing; neither does a missing file, or one rewritten with the
        // same value.
        for text in ["short", "two\nlines-of-text", ""] {
            written(text);
            assert_eq!(&*secret.latest(), "token-of-tuesday", "{text:?}");
        }
        written("token-of-tuesday\n");
        std::fs::remove_file(&path).unwrap();
        assert_eq!((&*secret.latest(), secret.generation()), ("token-of-tuesday", 1));
        written("token-of-wednesday\n");
        assert_eq!((&*secret.clone().latest(), secret.generation()), ("token-of-wednesday", 2));
        let known: Vec<String> = secret.values().iter().map(|value| value.to_string()).collect();
        assert_eq!(known, ["token-of-monday", "token-of-tuesday", "token-of-wednesday"]);
        assert!(Secret::of_file(&dir.path().join("none")).is_err());
    }
}
