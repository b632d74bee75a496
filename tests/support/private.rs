//! Files that only their owner may read.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Writes a file of mode 0600.
#[track_caller]
pub fn private(path: impl AsRef<Path>, text: impl AsRef<[u8]>) {
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}
