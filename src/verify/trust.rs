//! The verifier's trust roots, from a file of its own and never from the bundle.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::crypto::keys::{self, PublicKey};
use crate::crypto::note::{self, Algorithm, VerifierKey};
use crate::crypto::tsp;
use crate::domain::digest::Digest;
use crate::domain::id::{RunId, Seq};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::entries::epochs;

/// What is wrong with a line of a trust file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An unknown first field.
    #[error("unknown keyword `{0}`")]
    Word(String),
    /// A known first field with this number of values.
    #[error("`{}` has {}", .0, many(.1, "value"))]
    Values(String, usize),
    /// Not a digest.
    #[error("`{0}` is not a SHA-256 digest")]
    Digest(String),
    /// A file of keys.
    #[error(transparent)]
    KeyFile(#[from] keys::Error),
    /// Not a key in base64, or one of small order.
    #[error("`{0}` is not a usable ed25519 key")]
    Key(String),
    /// Not a verifier key.
    #[error(transparent)]
    VerifierKey(#[from] note::Error),
    /// A verifier key of another use.
    #[error("`{name}` is a key of algorithm {found}, not {expected}")]
    Algorithm {
        /// Its name.
        name: String,
        /// Its algorithm byte.
        found: u8,
        /// The one of this use.
        expected: u8,
    },
    /// A second `quorum`.
    #[error("`quorum` is set twice")]
    QuorumTwice,
    /// Not a number from 1 on.
    #[error("`{0}` is not a number of witnesses")]
    Quorum(String),
    /// A file of certificates cannot be read.
    #[error("`{0}`: {1}")]
    Io(String, #[source] std::io::Error),
    /// A file without certificates.
    #[error("`{0}`: {1}")]
    Authorities(String, #[source] tsp::Error),
    /// Not a number of seconds, or more than a day.
    #[error("`{0}` is not a number of seconds up to one day (86400)")]
    Skew(String),
    /// Not a [`Use`].
    #[error("`{0}` is not a use of keys")]
    Use(String),
    /// Not the id of a key.
    #[error("`{0}` is not a key id (SHA-256 of the raw key, in hex)")]
    KeyId(String),
    /// Not a number of entries.
    #[error("`{0}` is not a size")]
    Size(String),
    /// Not a root in hex or base64.
    #[error("`{0}` is not a root")]
    Root(String),
    /// A head that every log extends.
    #[error("a head must have a size above 0")]
    EmptyHead,
}

/// A head that the auditor noted earlier. The log must extend it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PinnedHead {
    /// Name of the log.
    pub origin: String,
    /// Entries at that time.
    pub size: Seq,
    /// Root over them.
    pub root: Digest,
}

/// Default for how far clocks of honest machines may differ, in milliseconds.
pub const SKEW_MILLIS: i64 = 5 * 60 * 1000;

/// The use of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Use {
    /// Checkpoints of the fleet log.
    Fleet,
    /// Certificates of writers.
    Enrolment,
    /// Bundles.
    Evidence,
    /// Cosignatures.
    Witness,
}

impl Use {
    /// Parses the name in a trust file or in a `key.revoked`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "fleet" => Some(Self::Fleet),
            "enrolment" => Some(Self::Enrolment),
            "evidence" => Some(Self::Evidence),
            "witness" => Some(Self::Witness),
            _ => None,
        }
    }
}

/// A key that was revoked, completely or from a position of a log on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RevokedTrust {
    /// Its use.
    pub purpose: Use,
    /// Its id: SHA-256 of the raw key, in hex.
    pub key: String,
    /// The log, and its entries that stay valid; `None`: no entry does.
    pub good: Option<(String, Seq)>,
}

/// Trust roots and expectations. An empty list trusts no key; it never means "any key".
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Trust {
    /// Keys that may sign bundles.
    pub evidence: Vec<PublicKey>,
    /// Keys that may enrol writers.
    pub enrolment: Vec<PublicKey>,
    /// Keys that may sign manifests; empty: not checked, and reported as not proven.
    pub manifest: Vec<PublicKey>,
    /// Lists of approvers that are trusted by digest.
    pub approvers: Vec<Digest>,
    /// Keys that may sign lists of approvers. With neither, no approval can be checked.
    pub approver_keys: Vec<PublicKey>,
    /// Approved policy bundles; empty: not checked, and reported as not proven.
    pub policies: Vec<Digest>,
    /// Heads noted before.
    pub heads: Vec<PinnedHead>,
    /// Accepted log names; empty: any that the enrolment key vouches for.
    pub origins: Vec<String>,
    /// Keys that may sign the fleet log; their name is the log's. Empty: the fleet log is not
    /// checked.
    pub fleet: Vec<VerifierKey>,
    /// Witnesses whose cosignatures count. Empty: no cosignature is required.
    pub witnesses: Vec<VerifierKey>,
    /// How many witnesses with different keys must have cosigned; `None`: all of them.
    pub quorum: Option<usize>,
    /// Certificates (DER) of time stamping authorities. Empty: no stamp is required.
    pub tsa: Vec<Vec<u8>>,
    /// Lists of break-glass signers that are trusted by digest.
    pub break_glass: Vec<Digest>,
    /// Keys that sign lists of break-glass signers.
    pub break_glass_keys: Vec<PublicKey>,
    /// How far clocks of honest machines may differ, in milliseconds.
    pub skew_ms: Option<i64>,
    /// Revoked keys.
    pub revoked: Vec<RevokedTrust>,
    /// The requested run, if any.
    pub run: Option<RunId>,
    /// The verifier's own time, if any: nothing may be later, with five minutes of skew.
    pub now: Option<Timestamp>,
    /// Whether to make every decision again from its recorded input and the policy's bytes (P5).
    pub replay: bool,
}

impl Trust {
    /// How far clocks of honest machines may differ, in milliseconds.
    pub fn skew(&self) -> i64 {
        self.skew_ms.unwrap_or(SKEW_MILLIS)
    }

    /// Enrolment keys that were revoked, completely or from a position of a log on.
    pub fn revoked_enrolments(&self) -> Vec<epochs::RevokedEnrolment> {
        let about = self.revoked.iter().filter(|revoked| revoked.purpose == Use::Enrolment);
        about
            .map(|one| epochs::RevokedEnrolment { key: one.key.clone(), good: one.good.clone() })
            .collect()
    }

    /// Reads a trust file: one `word value…` per line, `#` begins a comment line.
    ///
    /// Words: `evidence-key`, `enrolment-key`, `manifest-key` (a PEM file relative to this one, or
    /// `ed25519:<base64 of the raw key>`), `approvers` and `break-glass` (such a key, or `sha256:<hex>` of a list), `policy sha256:<hex>`, `origin <name>`,
    /// `head <origin> <size> <root in base64 or hex>`, `fleet-key <vkey>`, `witness-key <vkey>`,
    /// `quorum <number>`, `tsa-ca <PEM file>`, `skew <seconds>`,
    /// `revoked <fleet|enrolment|evidence|witness> <key id> [<log> <good entries>]`.
    ///
    /// An evidence or enrolment key that is revoked as a whole is left out of the trusted ones here.
    ///
    /// # Errors
    /// The file, the line and what is wrong with it.
    pub fn load(path: &Path) -> Result<Self, crate::Error> {
        let text = std::fs::read_to_string(path).map_err(|e| crate::Error::io(path, e))?;
        Self::parse(&text, path)
    }

    /// Parses the text of a trust file; the files it names are relative to `path`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn parse(text: &str, path: &Path) -> Result<Self, crate::Error> {
        let base = path.parent().unwrap_or(Path::new("."));
        let mut trust = Self::default();
        for (at, line) in text.lines().enumerate() {
            trust.line(line, base).map_err(|why| crate::Error::Trust {
                path: path.display().to_string(),
                line: at.saturating_add(1),
                why,
            })?;
        }
        let whole = |purpose, key: &PublicKey| trust.revocation(purpose, key, None).is_none();
        let evidence = trust.evidence.iter().filter(|key| whole(Use::Evidence, key));
        let enrolment = trust.enrolment.iter().filter(|key| whole(Use::Enrolment, key));
        let (evidence, enrolment) = (evidence.copied().collect(), enrolment.copied().collect());
        trust.evidence = evidence;
        trust.enrolment = enrolment;
        Ok(trust)
    }

    /// Entries up to which this key may still sign this log: `Some(0)` if it may sign nothing.
    /// `None` if it is not revoked, or only for other logs.
    #[must_use]
    pub fn revocation(&self, purpose: Use, key: &PublicKey, log: Option<&str>) -> Option<Seq> {
        let id = key.id();
        let about = self.revoked.iter().filter(|r| r.purpose == purpose && r.key == id);
        about
            .filter_map(|revoked| match &revoked.good {
                None => Some(0),
                Some((of, bound)) => (Some(of.as_str()) == log).then_some(*bound),
            })
            .min()
    }

    fn line(&mut self, line: &str, base: &Path) -> Result<(), Error> {
        let mut words = line.split_ascii_whitespace();
        let Some(word) = words.next().filter(|word| !word.starts_with('#')) else { return Ok(()) };
        let values: Vec<&str> = words.collect();
        match (word, values.as_slice()) {
            ("evidence-key", [key]) => self.evidence.extend(keys(key, base)?),
            ("enrolment-key", [key]) => self.enrolment.extend(keys(key, base)?),
            ("manifest-key", [key]) => self.manifest.extend(keys(key, base)?),
            ("approvers", [list]) => {
                signers(list, base, (&mut self.approvers, &mut self.approver_keys))?;
            }
            ("break-glass", [list]) => {
                signers(list, base, (&mut self.break_glass, &mut self.break_glass_keys))?;
            }
            ("policy", [text]) => self.policies.push(digest(text)?),
            ("origin", [origin]) => self.origins.push((*origin).to_owned()),
            ("head", [origin, size, root]) => self.heads.push(head(origin, size, root)?),
            ("fleet-key", [key]) => self.fleet.push(vkey(key, Algorithm::Ed25519)?),
            ("witness-key", [key]) => self.witnesses.push(vkey(key, Algorithm::Cosignature)?),
            ("quorum", [number]) => self.quorum = Some(quorum(number, self.quorum)?),
            ("tsa-ca", [file]) => self.tsa.extend(authorities(file, base)?),
            ("skew", [seconds]) => self.skew_ms = Some(skew(seconds)?),
            ("revoked", [purpose, key]) => self.revoked.push(revoked(purpose, key, None)?),
            ("revoked", [purpose, key, log, bound]) => {
                self.revoked.push(revoked(purpose, key, Some((log, bound)))?);
            }
            (
                "evidence-key" | "enrolment-key" | "manifest-key" | "approvers" | "break-glass"
                | "policy" | "origin" | "head" | "fleet-key" | "witness-key" | "quorum" | "tsa-ca"
                | "skew" | "revoked",
                _,
            ) => {
                return Err(Error::Values(word.to_owned(), values.len()));
            }
            _ => return Err(Error::Word(word.to_owned())),
        }
        Ok(())
    }
}

/// A list by its digest, or a key that signs lists.
fn signers(
    value: &str,
    base: &Path,
    (lists, signing): (&mut Vec<Digest>, &mut Vec<PublicKey>),
) -> Result<(), Error> {
    if value.starts_with("sha256:") {
        lists.push(digest(value)?);
    } else {
        signing.extend(keys(value, base)?);
    }
    Ok(())
}

fn digest(text: &str) -> Result<Digest, Error> {
    Digest::parse(text).ok_or_else(|| Error::Digest(text.to_owned()))
}

fn keys(value: &str, base: &Path) -> Result<Vec<PublicKey>, Error> {
    let Some(raw) = value.strip_prefix("ed25519:") else {
        return Ok(PublicKey::load_all(&base.join(value))?);
    };
    let key = STANDARD
        .decode(raw)
        .ok()
        .and_then(|raw| <[u8; 32]>::try_from(raw).ok())
        .and_then(|raw| PublicKey::from_bytes(&raw));
    key.map(|key| vec![key]).ok_or_else(|| Error::Key(value.to_owned()))
}

fn vkey(text: &str, wanted: Algorithm) -> Result<VerifierKey, Error> {
    let key = VerifierKey::parse(text)?;
    if key.algorithm == wanted {
        Ok(key)
    } else {
        let (found, expected) = (key.algorithm.byte(), wanted.byte());
        Err(Error::Algorithm { name: key.name, found, expected })
    }
}

fn quorum(text: &str, before: Option<usize>) -> Result<usize, Error> {
    match (text.parse::<usize>(), before) {
        (_, Some(_)) => Err(Error::QuorumTwice),
        (Ok(number), None) if number > 0 => Ok(number),
        _ => Err(Error::Quorum(text.to_owned())),
    }
}

fn authorities(file: &str, base: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let pem = std::fs::read(base.join(file)).map_err(|e| Error::Io(file.to_owned(), e))?;
    tsp::authorities(&pem).map_err(|e| Error::Authorities(file.to_owned(), e))
}

fn skew(text: &str) -> Result<i64, Error> {
    // At most a day: a larger value would make every time check meaningless.
    let seconds = text.parse::<u32>().ok().filter(|seconds| *seconds <= 86_400);
    let millis = seconds.map(|seconds| i64::from(seconds).saturating_mul(1000));
    millis.ok_or_else(|| Error::Skew(text.to_owned()))
}

fn revoked(purpose: &str, key: &str, bound: Option<(&str, &str)>) -> Result<RevokedTrust, Error> {
    let purpose = Use::parse(purpose).ok_or_else(|| Error::Use(purpose.to_owned()))?;
    if Digest::parse(key).is_none_or(|id| id.hex() != key) {
        return Err(Error::KeyId(key.to_owned()));
    }
    let bound = bound.map(|(log, size)| Ok::<_, Error>((log.to_owned(), entries(size)?)));
    let bound = bound.transpose()?;
    Ok(RevokedTrust { purpose, key: key.to_owned(), good: bound })
}

fn entries(size: &str) -> Result<Seq, Error> {
    size.parse().map_err(|_| Error::Size(size.to_owned()))
}

fn head(origin: &str, size: &str, root: &str) -> Result<PinnedHead, Error> {
    let size = entries(size)?;
    let root = Digest::parse(root)
        .or_else(|| {
            let raw = STANDARD.decode(root).ok()?;
            <[u8; 32]>::try_from(raw).ok().map(Digest::from_bytes)
        })
        .ok_or_else(|| Error::Root(root.to_owned()))?;
    if size == 0 {
        return Err(Error::EmptyHead);
    }
    Ok(PinnedHead { origin: origin.to_owned(), size, root })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_keyword_or_a_bad_value_is_reported_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trust.txt");
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Trust::load(&path).unwrap_err().to_string()
        };
        assert!(
            refused("# fine\n\nevidnce-key x\n").contains("line 3: unknown keyword `evidnce-key`")
        );
        assert!(refused("policy sha256:xyz\n").contains("line 1"));
        assert!(refused("head a 0 b\n").contains("line 1"));
        assert!(refused("evidence-key nowhere.pem\n").contains("nowhere.pem"));
        assert!(refused("policy\n").contains("has 0 values"));
        assert!(refused("quorum 0\n").contains("not a number of witnesses"));
        assert!(refused("quorum 1\nquorum 2\n").contains("line 2: `quorum` is set twice"));
        assert!(refused("skew -1\n").contains("line 1"));
        assert!(refused("skew 86401\n").contains("line 1"));
        assert!(refused("tsa-ca nowhere.pem\n").contains("nowhere.pem"));
        assert!(refused("witness-key a+b+c\n").contains("verifier key"));
        assert!(
            refused(&format!("revoked all {}\n", "0".repeat(64))).contains("not a use of keys")
        );
        assert!(refused("revoked fleet abc\n").contains("not a key id"));
        std::fs::write(&path, format!("head log 3 {}\norigin log\n", "0".repeat(64))).unwrap();
        let trust = Trust::load(&path).unwrap();
        assert_eq!(trust.heads[0].size, 3);
        assert!(trust.evidence.is_empty());
    }
    #[test]
    fn a_witness_key_is_no_log_key_and_a_revoked_key_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trust.txt");
        let key = keys::SecretKey::generate(&crate::clock::SystemEntropy).public();
        let (log, witness) = (VerifierKey::log("l", key), VerifierKey::witness("w", key));
        std::fs::write(&path, format!("fleet-key {witness}\n")).unwrap();
        assert!(Trust::load(&path).unwrap_err().to_string().contains("algorithm 4, not 1"));
        let raw = STANDARD.encode(key.to_bytes());
        let id = key.id();
        let text = format!(
            "fleet-key {log}\nwitness-key {witness}\nskew 10\nevidence-key ed25519:{raw}\n\
             revoked evidence {id}\nrevoked fleet {id} l 7\n"
        );
        std::fs::write(&path, text).unwrap();
        let trust = Trust::load(&path).unwrap();
        assert_eq!(
            (trust.fleet.as_slice(), trust.witnesses.as_slice()),
            (&[log][..], &[witness][..])
        );
        assert!(trust.evidence.is_empty(), "a revoked key signs no bundle");
        assert_eq!(trust.skew(), 10_000);
        assert_eq!(trust.revocation(Use::Fleet, &key, Some("l")), Some(7));
        assert_eq!(trust.revocation(Use::Fleet, &key, Some("m")), None);
        assert_eq!(trust.revocation(Use::Witness, &key, Some("l")), None);
    }
}
