//! Files with secrets in them: whether somebody else may read or change them.

use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use zeroize::Zeroizing;

/// Bytes of a file of secrets.
pub const BYTES_MAX: u64 = 64 * 1024;

/// Why a file of secrets is not used; follows the file's name in a sentence.
#[derive(Debug, thiserror::Error)]
pub enum Unused {
    /// The system gives nothing.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Others than its owner may use it; its permission bits.
    #[error("has mode {0:o}: only its owner may read it (chmod 600)")]
    Mode(u32),
    /// It has more bytes than these.
    #[error("has more than {0} bytes")]
    Size(u64),
    /// It is not UTF-8.
    #[error("is not text")]
    Text,
}

/// The permission bits of a file of secrets that others than its owner may use; none where all is well.
///
/// Well is mode 0600 or less. Well is also a file of root's that one group may read and nobody else
/// (0440, 0640), for a process that is not root: such are the files of a Kubernetes volume, whose group
/// is the pod's `fsGroup`, and a process without rights cannot own them.
#[must_use]
pub fn exposed(file: &Metadata) -> Option<u32> {
    let mode = file.mode() & 0o777;
    let open = mode & 0o077 != 0 && !(mode & 0o037 == 0 && file.uid() == 0 && !are_root());
    open.then_some(mode)
}

/// What is in a file of secrets, and the file's facts. The open file is looked at, so that what is read is what
/// was looked at.
///
/// # Errors
/// [`Unused`]: others may use it by [`exposed`], or it has more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: u64) -> Result<(Metadata, Zeroizing<Vec<u8>>), Unused> {
    let file = File::open(path)?;
    let facts = file.metadata()?;
    if let Some(mode) = exposed(&facts) {
        return Err(Unused::Mode(mode));
    }
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(Unused::Size(bytes_max));
    }
    Ok((facts, bytes))
}

/// The text of a file of secrets, as it is.
///
/// # Errors
/// As [`read`], or it is no text; names the file.
pub fn text(path: &Path) -> Result<Zeroizing<String>, String> {
    let named = |why: Unused| format!("`{}` {why}", path.display());
    let (_, bytes) = read(path, BYTES_MAX).map_err(named)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| named(Unused::Text))?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// As [`text`], without the space around it: a URL, a token.
///
/// # Errors
/// As [`text`].
pub fn line(path: &Path) -> Result<Zeroizing<String>, String> {
    text(path).map(|text| Zeroizing::new(text.trim().to_owned()))
}

#[cfg(feature = "gate")]
fn are_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Who only verifies reads no secrets: nothing is made easier for it.
#[cfg(not(feature = "gate"))]
const fn are_root() -> bool {
    true
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Writes a file that only its owner may use, over what was there.
    #[track_caller]
    pub(crate) fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn only_its_owner_may_use_a_file_of_ones_own() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for (mode, expected) in [
            (0o600, None),
            (0o400, None),
            (0o640, Some(0o640)),
            (0o604, Some(0o604)),
            (0o620, Some(0o620)),
        ] {
            file.as_file().set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(exposed(&file.as_file().metadata().unwrap()), expected, "{mode:o}");
        }
    }
}
