//! What a verifier trusts, from a file of its own: never from the bundle.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::Error;
use crate::crypto::keys::PublicKey;
use crate::domain::digest::Digest;
use crate::domain::id::{RunId, Seq};
use crate::domain::time::Timestamp;

/// A head somebody noted before, and holds the log to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinnedHead {
    /// Name of the log.
    pub origin: String,
    /// Entries at that time.
    pub size: Seq,
    /// Root over them.
    pub root: Digest,
}

/// Trust roots and expectations. Empty lists trust nobody; they never mean "anybody".
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trust {
    /// Who may sign bundles.
    pub evidence: Vec<PublicKey>,
    /// Who may enrol writers.
    pub enrolment: Vec<PublicKey>,
    /// Who may sign manifests; empty: not checked, and reported as not proven.
    pub manifest: Vec<PublicKey>,
    /// Approved policy bundles; empty: not checked, and reported as not proven.
    pub policies: Vec<Digest>,
    /// Heads noted before.
    pub heads: Vec<PinnedHead>,
    /// Accepted log names; empty: any that the enrolment key vouches for.
    pub origins: Vec<String>,
    /// The run that was asked for, if one was.
    pub run: Option<RunId>,
    /// The verifier's own time, if it has one: nothing may be later, five minutes of skew allowed.
    pub now: Option<Timestamp>,
    /// Whether to make every decision again from its recorded input and the policy's bytes (P5).
    pub replay: bool,
}

impl Trust {
    /// Reads a trust file: one `word value…` per line, `#` begins a comment line.
    ///
    /// Words: `evidence-key`, `enrolment-key`, `manifest-key` (a PEM file relative to this one, or
    /// `ed25519:<base64 of the raw key>`), `policy sha256:<hex>`, `origin <name>`,
    /// `head <origin> <size> <root in base64 or hex>`.
    ///
    /// # Errors
    /// The file, the line and what is wrong with it.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|e| Error::io(path, e))?;
        let base = path.parent().unwrap_or(Path::new("."));
        let mut trust = Self::default();
        for (at, line) in text.lines().enumerate() {
            trust.line(line, base).map_err(|why| Error::Trust {
                path: path.display().to_string(),
                line: at.saturating_add(1),
                why,
            })?;
        }
        Ok(trust)
    }

    fn line(&mut self, line: &str, base: &Path) -> Result<(), String> {
        let mut words = line.split_ascii_whitespace();
        let Some(word) = words.next().filter(|word| !word.starts_with('#')) else { return Ok(()) };
        let values: Vec<&str> = words.collect();
        match (word, values.as_slice()) {
            ("evidence-key", [key]) => self.evidence.extend(keys(key, base)?),
            ("enrolment-key", [key]) => self.enrolment.extend(keys(key, base)?),
            ("manifest-key", [key]) => self.manifest.extend(keys(key, base)?),
            ("policy", [digest]) => self.policies.push(
                Digest::parse(digest).ok_or_else(|| format!("`{digest}` is no SHA-256 digest"))?,
            ),
            ("origin", [origin]) => self.origins.push((*origin).to_owned()),
            ("head", [origin, size, root]) => self.heads.push(head(origin, size, root)?),
            (
                "evidence-key" | "enrolment-key" | "manifest-key" | "policy" | "origin" | "head",
                _,
            ) => {
                return Err(format!("`{word}` has {} values", values.len()));
            }
            _ => return Err(format!("unknown word `{word}`")),
        }
        Ok(())
    }
}

fn keys(value: &str, base: &Path) -> Result<Vec<PublicKey>, String> {
    let Some(raw) = value.strip_prefix("ed25519:") else {
        return PublicKey::load_all(&base.join(value)).map_err(|e| e.to_string());
    };
    let key = STANDARD
        .decode(raw)
        .ok()
        .and_then(|raw| <[u8; 32]>::try_from(raw).ok())
        .and_then(|raw| PublicKey::from_bytes(&raw));
    key.map(|key| vec![key]).ok_or_else(|| format!("`{value}` is no usable ed25519 key"))
}

fn head(origin: &str, size: &str, root: &str) -> Result<PinnedHead, String> {
    let number: Seq = size.parse().map_err(|_| format!("`{size}` is no size"))?;
    let root = Digest::parse(root)
        .or_else(|| {
            let raw = STANDARD.decode(root).ok()?;
            <[u8; 32]>::try_from(raw).ok().map(Digest::from_bytes)
        })
        .ok_or_else(|| format!("`{root}` is no root"))?;
    if number == 0 {
        return Err("a head of size 0 pins nothing".into());
    }
    Ok(PinnedHead { origin: origin.to_owned(), size: number, root })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_or_a_bad_value_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trust.txt");
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Trust::load(&path).unwrap_err().to_string()
        };
        assert!(
            refused("# fine\n\nevidnce-key x\n").contains("line 3: unknown word `evidnce-key`")
        );
        assert!(refused("policy sha256:xyz\n").contains("line 1"));
        assert!(refused("head a 0 b\n").contains("line 1"));
        assert!(refused("evidence-key nowhere.pem\n").contains("nowhere.pem"));
        assert!(refused("policy\n").contains("has 0 values"));
        std::fs::write(&path, format!("head log 3 {}\norigin log\n", "0".repeat(64))).unwrap();
        let trust = Trust::load(&path).unwrap();
        assert_eq!(trust.heads[0].size, 3);
        assert!(trust.evidence.is_empty());
    }
}
