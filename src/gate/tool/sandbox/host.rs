//! Files that a program with connections reads: names of hosts, services and authorities.

use std::path::{Path, PathBuf};

/// Visible at their own paths, if the system has them.
pub(super) const FILES: [&str; 9] = [
    "/etc/ca-certificates",
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/nsswitch.conf",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/ssl/certs",
];

/// The canonical targets of those that are links.
pub(crate) fn targets() -> Vec<PathBuf> {
    let links = FILES.iter().map(Path::new).filter(|path| path.is_symlink());
    links.filter_map(|path| path.canonicalize().ok()).collect()
}
