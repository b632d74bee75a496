//! The newest version of each manifest and bundle this machine has put in force: older ones are
//! refused, and so is the same version with other bytes.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::domain::digest::Digest;
use crate::identity::callers::Callers;
use crate::policy::activation::{self, InForce};
use crate::policy::bundle::Bundle;
use crate::policy::fault::Error;

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

/// Refuses a bundle that may not follow the one that was last in force here.
pub(super) fn check_bundle(state: &Path, bundle: &Bundle) -> Result<(), String> {
    let seen = read(state)?;
    let last = seen.iter().find(|((kind, _), _)| kind == "bundle");
    let Some(((_, name), (version, digest))) = last else { return Ok(()) };
    let active = InForce { name: name.clone(), version: version.clone(), digest: *digest };
    match activation::follows(bundle, &active) {
        Ok(_) => Ok(()),
        Err(error @ Error::Rollback { .. }) => Err(format!("policy.downgrade: {error}")),
        Err(error @ Error::Equivocation { .. }) => Err(format!("policy.equivocation: {error}")),
        Err(error @ Error::OtherName { .. }) => Err(format!(
            "policy.name: {error}; to replace it on purpose, remove its line from `{}`",
            file(state).display()
        )),
        Err(error) => Err(error.to_string()),
    }
}

/// Remembers the bundle that is in force now.
pub(super) fn keep_bundle(state: &Path, bundle: &Bundle) -> Result<(), String> {
    let mut seen = read(state)?;
    seen.retain(|(kind, _), _| kind != "bundle");
    let key = ("bundle".to_owned(), bundle.name().to_owned());
    seen.insert(key, (bundle.version().clone(), bundle.digest()));
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
