//! What a program reads that connects to something: names of hosts, services and authorities.

use std::path::{Path, PathBuf};

/// Shown at their own places, where the system has them.
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

/// Where those of them that are links lead to, canonical.
pub(crate) fn targets() -> Vec<PathBuf> {
    let links = FILES.iter().map(Path::new).filter(|path| path.is_symlink());
    links.filter_map(|path| path.canonicalize().ok()).collect()
}
