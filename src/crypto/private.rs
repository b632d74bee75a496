//! Files with secrets in them: whether somebody else may read or change them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

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

/// Refuses a file of secrets that others than its owner may use, by [`exposed`].
///
/// # Errors
/// Names the file and its mode.
pub fn owners_only(path: &Path, file: &Metadata) -> Result<(), String> {
    let Some(mode) = exposed(file) else { return Ok(()) };
    let shown = path.display();
    Err(format!("`{shown}` has mode {mode:o}: only its owner may read it (chmod 600)"))
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
