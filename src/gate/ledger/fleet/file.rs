//! The anchor file: the newest head of the fleet log that others have seen, for machines that reach
//! neither the fleet log nor the witnesses.

use crate::record::chain::AnchorObserved;
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::crypto::note::Checkpoint;
use crate::domain::canonical;
use crate::domain::json::{Json, Limits};
use crate::ledger::spool::replace;

const VERSION: &str = "wicketgate/anchor/1";

/// The content of the file.
#[derive(Clone, PartialEq, Debug)]
pub struct AnchorFile {
    /// The checkpoint note with its cosignatures.
    pub note: String,
    /// Time stamp tokens over its body, DER.
    pub tokens: Vec<Vec<u8>>,
    /// One `anchor.observed` for each cosignature and token, ready to record.
    pub observed: Vec<AnchorObserved>,
}

/// The file as it is written.
#[derive(Serialize, Deserialize)]
struct AnchorForm {
    v: String,
    note: String,
    tokens: Vec<String>,
    observed: Vec<Json>,
}

impl AnchorFile {
    /// The head it is about.
    #[must_use]
    pub fn head(&self) -> Option<Checkpoint> {
        Checkpoint::parse(&self.note).ok().map(|(checkpoint, _)| checkpoint)
    }

    fn bytes(&self) -> Vec<u8> {
        let form = AnchorForm {
            v: VERSION.to_owned(),
            note: self.note.clone(),
            tokens: self.tokens.iter().map(|token| STANDARD.encode(token)).collect(),
            observed: self.observed.iter().map(Json::of).collect(),
        };
        let mut bytes = canonical::bytes(&Json::of(&form));
        bytes.push(b'\n');
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let json = Json::parse(bytes.trim_ascii_end(), &Limits::FILE).ok()?;
        let form: AnchorForm = json.read().ok().filter(|form: &AnchorForm| form.v == VERSION)?;
        let tokens = form.tokens.iter().map(|token| STANDARD.decode(token).ok());
        let read = Self {
            note: form.note,
            tokens: tokens.collect::<Option<_>>()?,
            // Malformed observations are skipped: the file must not be able to damage a chain.
            observed: form.observed.iter().filter_map(|one| one.read().ok()).collect(),
        };
        read.head().map(|_| read)
    }

    /// Reads the file; `None` if it does not exist.
    ///
    /// # Errors
    /// The file cannot be read or parsed. A caller that relies on it must not treat it as empty.
    pub fn load(path: &Path) -> io::Result<Option<Self>> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let garbled = || io::Error::new(io::ErrorKind::InvalidData, "it is no anchor file");
        Self::parse(&bytes).map(Some).ok_or_else(garbled)
    }

    /// Writes the file whole, or not at all.
    ///
    /// # Errors
    /// The file system's.
    pub fn store(&self, path: &Path) -> io::Result<()> {
        // The file holds no secret, and sidecars of other users read it.
        replace(path, &self.bytes(), 0o644)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemEntropy;
    use crate::crypto::keys::SecretKey;
    use crate::domain::digest::Digest;

    #[test]
    fn what_is_stored_is_loaded_and_anything_else_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("anchor");
        assert_eq!(AnchorFile::load(&path).unwrap(), None);
        let key = SecretKey::generate(&SystemEntropy);
        let head =
            Checkpoint { origin: "wicketgate.dev/t/fleet".into(), size: 3, root: Digest::of(&[]) };
        let file =
            AnchorFile { note: head.sign(&key), tokens: vec![vec![1, 2]], observed: Vec::new() };
        file.store(&path).unwrap();
        assert_eq!(AnchorFile::load(&path).unwrap(), Some(file.clone()));
        assert_eq!(file.head(), Some(head));
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, text.replace(r#""observed":[]"#, r#""observed":[{"size":3}]"#))
            .unwrap();
        let left_out = AnchorFile::load(&path).unwrap();
        assert_eq!(left_out, Some(file), "what is not in order is left out");
        for malformed in [
            "",
            "{}",
            "{\"v\":\"wicketgate/anchor/1\",\"note\":\"x\",\"observed\":[],\"tokens\":[]}",
        ] {
            std::fs::write(&path, malformed).unwrap();
            assert!(AnchorFile::load(&path).is_err(), "{malformed}");
        }
    }
}
