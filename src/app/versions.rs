//! The newest version of each manifest and bundle this machine has put in force: older ones are
//! refused, and so is the same version with other bytes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::domain::digest::Digest;
use crate::identity::callers::Callers;

type Seen = BTreeMap<(String, String), (semver::Version, Digest)>;

/// Refuses a manifest older than the newest one, or equal in version and not in bytes.
pub(super) fn check(state: &Path, callers: &Callers) -> Result<(), String> {
    let seen = read(state)?;
    for manifest in callers.manifests() {
        let key = ("manifest".to_owned(), manifest.name.clone());
        let previous = seen.get(&key).map(|(version, digest)| (version, digest));
        crate::identity::succeeds(previous, manifest).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Remembers the manifests that are in force now.
pub(super) fn keep(state: &Path, callers: &Callers) -> Result<(), String> {
    let mut seen = read(state)?;
    for manifest in callers.manifests() {
        let key = ("manifest".to_owned(), manifest.name.clone());
        seen.insert(key, (manifest.version.clone(), manifest.digest));
    }
    write(state, &seen)
}

/// Refuses a bundle older than the newest one, or equal in version and not in bytes.
pub(super) fn check_bundle(
    state: &Path,
    name: &str,
    version: &str,
    digest: &Digest,
) -> Result<(), String> {
    let version = semver::Version::parse(version).map_err(|e| e.to_string())?;
    let seen = read(state)?;
    let Some((newest, of)) = seen.get(&("bundle".to_owned(), name.to_owned())) else {
        return Ok(());
    };
    if version < *newest {
        return Err(format!("policy.downgrade: version {version} is older than {newest}"));
    }
    if version == *newest && digest != of {
        return Err(format!("policy.equivocation: version {version} was in force with other bytes"));
    }
    Ok(())
}

/// Remembers the bundle that is in force now.
pub(super) fn keep_bundle(
    state: &Path,
    name: &str,
    version: &str,
    digest: &Digest,
) -> Result<(), String> {
    let version = semver::Version::parse(version).map_err(|e| e.to_string())?;
    let mut seen = read(state)?;
    seen.insert(("bundle".to_owned(), name.to_owned()), (version, *digest));
    write(state, &seen)
}

fn file(state: &Path) -> PathBuf {
    state.join("versions")
}

/// Doubt about what was in force before is a refusal, not a fresh start.
fn read(state: &Path) -> Result<Seen, String> {
    let path = file(state);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Seen::new()),
        Err(e) => return Err(format!("`{}`: {e}", path.display())),
    };
    let line = |line: &str| {
        let mut words = line.split(' ');
        let key = (words.next()?.to_owned(), words.next()?.to_owned());
        let version = semver::Version::parse(words.next()?).ok()?;
        Some((key, (version, Digest::parse(words.next()?)?)))
    };
    let seen: Option<Seen> = text.lines().map(line).collect();
    seen.ok_or_else(|| format!("`{}` cannot be understood", path.display()))
}

fn write(state: &Path, seen: &Seen) -> Result<(), String> {
    let path = file(state);
    let next = path.with_extension("new");
    let text: String = seen
        .iter()
        .map(|((kind, name), (version, digest))| format!("{kind} {name} {version} {digest}\n"))
        .collect();
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&next)
        .and_then(|mut f| f.write_all(text.as_bytes()).and_then(|()| f.sync_all()))
        .and_then(|()| std::fs::rename(&next, &path))
        .map_err(|e| format!("`{}`: {e}", path.display()))
}
