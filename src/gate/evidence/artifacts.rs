//! Policy bundles, manifests and their templates kept by digest, so that an export years later has the exact bytes.

use std::path::{Path, PathBuf};

use super::Error;
use crate::domain::digest::Digest;
use crate::ledger::spool::replace;

/// A manifest or a list of approvers, and the signature that came with it.
pub type SignedList = (Vec<u8>, Vec<u8>);

/// A directory of artefacts: `policy/<hex>.tar`, `manifest/<hex>.yaml`, `manifest/<hex>.sig.json`,
/// `template/<hex>.txt`, `approvers/<hex>.signers`, `approvers/<hex>.sig.json`, `firewall/<hex>.json`.
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
        for part in ["policy", "manifest", "template", "approvers", "firewall"] {
            let path = dir.join(part);
            std::fs::create_dir_all(&path).map_err(|e| Error::io(&path, e))?;
        }
        Ok(Self { dir: dir.to_owned() })
    }

    /// The artefacts below this directory, which need not exist: for reading only.
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
        self.put_signed(("manifest", "yaml"), digest, (yaml, signature))
    }

    /// Keeps a template of instructions, which a manifest names by its digest. Durable when it returns;
    /// safe to repeat.
    ///
    /// # Errors
    /// The digest does not match, or the file cannot be written.
    pub fn put_template(&self, digest: &Digest, text: &[u8]) -> Result<(), Error> {
        self.put(&self.path("template", digest, "txt"), digest, text)
    }

    /// The template of this digest, if it was kept.
    ///
    /// # Errors
    /// It cannot be read, or no longer matches its digest.
    pub fn template(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        Self::get(&self.path("template", digest, "txt"), digest)
    }

    /// Keeps the rules of the firewall that an operator added to ours, by the digest of them all together. Durable
    /// when it returns; safe to repeat.
    ///
    /// # Errors
    /// The digest does not match, or the file cannot be written.
    pub fn put_firewall(&self, digest: &Digest, document: &[u8]) -> Result<(), Error> {
        self.put(&self.path("firewall", digest, "json"), digest, document)
    }

    /// The rules of the firewall of this digest, if they were kept: ours alone are in the program.
    ///
    /// # Errors
    /// They cannot be read, or no longer match their digest.
    pub fn firewall(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        Self::get(&self.path("firewall", digest, "json"), digest)
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
        self.put_signed(("approvers", "signers"), digest, (list, envelope))
    }

    /// The list of approvers of this digest and its signature, if it was kept.
    ///
    /// # Errors
    /// It cannot be read, or no longer matches its digest.
    pub fn approvers(&self, digest: &Digest) -> Result<Option<SignedList>, Error> {
        self.signed(("approvers", "signers"), digest)
    }

    /// The tar of this digest, if it was kept.
    ///
    /// # Errors
    /// It cannot be read, or no longer matches its digest.
    pub fn policy(&self, digest: &Digest) -> Result<Option<Vec<u8>>, Error> {
        Self::get(&self.policy_path(digest), digest)
    }

    /// The manifest of this digest and its signature, if it was kept.
    ///
    /// # Errors
    /// It cannot be read, or no longer matches its digest.
    pub fn manifest(&self, digest: &Digest) -> Result<Option<SignedList>, Error> {
        self.signed(("manifest", "yaml"), digest)
    }

    fn policy_path(&self, digest: &Digest) -> PathBuf {
        self.path("policy", digest, "tar")
    }

    fn path(&self, part: &str, digest: &Digest, suffix: &str) -> PathBuf {
        self.dir.join(part).join(format!("{}.{suffix}", digest.hex()))
    }

    fn put_signed(
        &self,
        (part, suffix): (&str, &str),
        digest: &Digest,
        (text, signature): (&[u8], &[u8]),
    ) -> Result<(), Error> {
        // The signature first: after a crash, what is stored always has one.
        write(&self.path(part, digest, "sig.json"), signature)?;
        self.put(&self.path(part, digest, suffix), digest, text)
    }

    fn signed(
        &self,
        (part, suffix): (&str, &str),
        digest: &Digest,
    ) -> Result<Option<SignedList>, Error> {
        let Some(text) = Self::get(&self.path(part, digest, suffix), digest)? else {
            return Ok(None);
        };
        let path = self.path(part, digest, "sig.json");
        let signature = std::fs::read(&path).map_err(|e| Error::io(&path, e))?;
        Ok(Some((text, signature)))
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

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    replace(path, bytes, 0o644).map_err(|e| Error::io(path, e))
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
        assert_eq!(artifacts.manifest(&digest).unwrap().unwrap().1, b"sig");
        assert!(artifacts.template(&digest).unwrap().is_none());
        artifacts.put_template(&digest, b"tar").unwrap();
        assert_eq!(artifacts.template(&digest).unwrap().unwrap(), b"tar");
        assert!(artifacts.put_template(&digest, b"other").is_err());
        std::fs::write(artifacts.policy_path(&digest), b"rat").unwrap();
        assert!(artifacts.policy(&digest).is_err());
    }
}
