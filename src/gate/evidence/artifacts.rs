//! Policy bundles and manifests kept by digest, so that an export years later has the exact bytes.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use super::Error;
use crate::domain::digest::Digest;

/// A manifest's exact bytes with the signature that came with them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ManifestFiles {
    /// `agent.yaml`.
    pub yaml: Vec<u8>,
    /// `agent.yaml.sig.json`.
    pub signature: Vec<u8>,
}

/// A list of approvers and its signature.
pub type SignedList = (Vec<u8>, Vec<u8>);

/// A directory of artefacts: `policy/<hex>.tar`, `manifest/<hex>.yaml`, `manifest/<hex>.sig.json`,
/// `approvers/<hex>.signers`, `approvers/<hex>.sig.json`.
#[derive(Clone, Debug)]
pub struct Artifacts {
    dir: PathBuf,
}

impl Artifacts {
    /// Opens the artefacts below this directory and creates it if needed.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        for part in ["policy", "manifest", "approvers"] {
            let path = dir.join(part);
            std::fs::create_dir_all(&path).map_err(|e| Error::io(&path, e))?;
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// The artefacts below this directory, which need not exist: for reading only.
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        Self { dir: dir.to_owned() }
    }

    /// Keeps a policy bundle's tar. Durable when it returns; safe to repeat.
    ///
    /// # Errors
    /// The digest does not match, or the file cannot be written.
    pub fn put_policy(&self, digest: &Digest, tar: &[u8]) -> Result<(), Error> {
        self.put(&self.policy_path(digest), digest, tar)
    }

    /// Keeps a manifest and its signature. Durable when it returns; safe to repeat.
    ///
    /// # Errors
    /// The digest does not match, or a file cannot be written.
    pub fn put_manifest(
        &self,
        digest: &Digest,
        yaml: &[u8],
        signature: &[u8],
    ) -> Result<(), Error> {
        // The signature first: after a crash, a stored manifest always has one.
        write(&self.manifest_path(digest, "sig.json"), signature)?;
        self.put(&self.manifest_path(digest, "yaml"), digest, yaml)
    }

    /// Keeps a list of approvers and its signature. Durable when it returns; safe to repeat.
    ///
    /// # Errors
    /// The digest does not match, or a file cannot be written.
    pub fn put_approvers(
        &self,
        digest: &Digest,
        list: &[u8],
        envelope: &[u8],
    ) -> Result<(), Error> {
        // As with manifests: after a crash, a stored list always has a signature.
        write(&self.approvers_path(digest, "sig.json"), envelope)?;
        self.put(&self.approvers_path(digest, "signers"), digest, list)
    }

    /// The list of approvers of this digest and its signature, if it was kept.
    ///
    /// # Errors
    /// It cannot be read, or no longer matches its digest.
    pub fn approvers(&self, digest: &Digest) -> Result<Option<SignedList>, Error> {
        let Some(list) = Self::get(&self.approvers_path(digest, "signers"), digest)? else {
            return Ok(None);
        };
        let path = self.approvers_path(digest, "sig.json");
        let envelope = std::fs::read(&path).map_err(|e| Error::io(&path, e))?;
        Ok(Some((list, envelope)))
    }

    /// The tar of this digest, if it was kept.
    ///
    /// # Errors
    /// It cannot be read, or no longer matches its digest.
    pub fn policy(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        Self::get(&self.policy_path(digest), digest)
    }

    /// The manifest of this digest, if it was kept.
    ///
    /// # Errors
    /// It cannot be read, or no longer matches its digest.
    pub fn manifest(&self, digest: &Digest) -> Result<Option<ManifestFiles>, Error> {
        let Some(yaml) = Self::get(&self.manifest_path(digest, "yaml"), digest)? else {
            return Ok(None);
        };
        let path = self.manifest_path(digest, "sig.json");
        let signature = std::fs::read(&path).map_err(|e| Error::io(&path, e))?;
        Ok(Some(ManifestFiles { yaml, signature }))
    }

    fn policy_path(&self, digest: &Digest) -> PathBuf {
        self.dir.join("policy").join(format!("{}.tar", digest.hex()))
    }

    fn manifest_path(&self, digest: &Digest, suffix: &str) -> PathBuf {
        self.dir.join("manifest").join(format!("{}.{suffix}", digest.hex()))
    }

    fn approvers_path(&self, digest: &Digest, suffix: &str) -> PathBuf {
        self.dir.join("approvers").join(format!("{}.{suffix}", digest.hex()))
    }

    fn put(&self, path: &Path, digest: &Digest, bytes: &[u8]) -> Result<(), Error> {
        if Digest::of(&[bytes]) != *digest {
            return Err(Error::Artifact { path: path.display().to_string() });
        }
        if path.exists() && Self::get(path, digest)?.is_some() {
            return Ok(());
        }
        write(path, bytes)
    }

    fn get(path: &Path, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        match std::fs::read(path) {
            Ok(bytes) if Digest::of(&[&bytes]) == *digest => Ok(Some(bytes)),
            Ok(_) => Err(Error::Artifact { path: path.display().to_string() }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(path, e)),
        }
    }
}

/// Replaces a file by renaming a new one, so that no reader sees half of it.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let io = |e| Error::io(path, e);
    let part = path.with_extension("part");
    let mut file = std::fs::File::create(&part).map_err(io)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(io)?;
    std::fs::rename(&part, path).map_err(io)?;
    let dir = path.parent().unwrap_or(path);
    std::fs::File::open(dir).and_then(|dir| dir.sync_all()).map_err(io)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back_and_what_was_changed_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let artifacts = Artifacts::open(dir.path()).unwrap();
        let digest = Digest::of(&[b"tar"]);
        assert!(artifacts.policy(&digest).unwrap().is_none());
        artifacts.put_policy(&digest, b"tar").unwrap();
        artifacts.put_policy(&digest, b"tar").unwrap();
        assert_eq!(artifacts.policy(&digest).unwrap().unwrap(), b"tar");
        assert!(artifacts.put_policy(&digest, b"other").is_err());
        artifacts.put_manifest(&digest, b"tar", b"sig").unwrap();
        assert_eq!(artifacts.manifest(&digest).unwrap().unwrap().signature, b"sig");
        std::fs::write(artifacts.policy_path(&digest), b"rat").unwrap();
        assert!(artifacts.policy(&digest).is_err());
    }
}
