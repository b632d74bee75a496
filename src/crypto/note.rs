//! C2SP signed notes and checkpoints (c2sp.org/signed-note, c2sp.org/tlog-checkpoint).
//!
//! A note is opened with known keys. Lines of other keys are ignored. An invalid line of a known
//! key, or a second line of the same key, invalidates the whole note.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::cosign;
use super::keys::{PublicKey, SecretKey};
use super::signer::{self, Signer};
use crate::domain::digest::Digest;

/// The most bytes of a note: a checkpoint with its signatures has a few thousand.
pub const NOTE_BYTES_MAX: usize = 64 * 1024;
/// The most signature lines of a note.
pub const SIGNATURES_MAX: usize = 100;

/// Why a note or checkpoint is invalid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The text does not have the form of the specification.
    #[error("checkpoint: {0}")]
    Format(&'static str),
    /// No signature by the expected key.
    #[error("checkpoint: no signature by key `{0}`")]
    Unsigned(String),
    /// An invalid signature by the expected key.
    #[error("checkpoint: the signature by `{0}` does not verify")]
    BadSignature(String),
    /// More than one signature of one key.
    #[error("checkpoint: two signatures by one key, `{0}`")]
    Twice(String),
    /// A verifier key that does not have the form of the specification.
    #[error("verifier key: {0}")]
    Key(&'static str),
}

/// A log's statement about itself: its number of entries, and the root over them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checkpoint {
    /// The log's name; also the name of its key.
    pub origin: String,
    /// Entries in the tree.
    pub size: u64,
    /// RFC 6962 root over them.
    pub root: Digest,
}

impl Checkpoint {
    /// The three signed lines.
    pub fn body(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, STANDARD.encode(self.root.as_bytes()))
    }

    /// The signed note.
    pub fn sign(&self, key: &SecretKey) -> String {
        let body = self.body();
        let mut blob = key_hash(&self.origin, &key.public()).to_vec();
        blob.extend_from_slice(&key.sign(body.as_bytes()));
        format!("{body}\n\u{2014} {} {}\n", self.origin, STANDARD.encode(blob))
    }

    /// The note signed by each of these, in order: during a rotation by the new key and the old
    /// one.
    ///
    /// # Errors
    /// A signer's. There is never a note with fewer signatures.
    pub fn sign_by(&self, signers: &[&dyn Signer]) -> Result<String, signer::Error> {
        let body = self.body();
        let mut note = format!("{body}\n");
        for signer in signers {
            let mut blob = key_hash(&self.origin, &signer.public()).to_vec();
            blob.extend_from_slice(&signer.sign(body.as_bytes())?);
            note.push_str(&format!("\u{2014} {} {}\n", self.origin, STANDARD.encode(blob)));
        }
        Ok(note)
    }

    /// Reads a note without checking its signatures: exactly three lines, canonical size.
    ///
    /// # Errors
    /// The text is not a checkpoint note.
    pub fn parse(note: &str) -> Result<(Self, Vec<SignatureLine>), Error> {
        let (text, signatures) = split(note)?;
        Ok((Self::read(text)?, signatures))
    }

    /// Reads the text of a note, without its signatures.
    ///
    /// # Errors
    /// The text is not exactly the three lines of a checkpoint.
    pub fn read(text: &str) -> Result<Self, Error> {
        let body = text.strip_suffix('\n').ok_or(Error::Format("no final newline"))?;
        let mut lines = body.split('\n');
        let origin =
            lines.next().filter(|o| !o.is_empty()).ok_or(Error::Format("no origin line"))?;
        let size = lines.next().ok_or(Error::Format("no size line"))?;
        let root = lines.next().ok_or(Error::Format("no root line"))?;
        if lines.next().is_some() {
            return Err(Error::Format("extension lines are not accepted"));
        }
        let size = decimal(size).ok_or(Error::Format("the size is not in canonical form"))?;
        let root = hash(root).ok_or(Error::Format("the root is not 32 bytes in base64"))?;
        Ok(Self { origin: origin.to_owned(), size, root })
    }

    /// Reads a note and checks that this key signed it under its origin's name.
    ///
    /// An invalid line of the key invalidates the note, even beside a valid one; so does a second
    /// line of the same key.
    ///
    /// # Errors
    /// Not a checkpoint, or not signed by the key.
    pub fn open(note: &str, key: &PublicKey) -> Result<Self, Error> {
        let (checkpoint, signatures) = Self::parse(note)?;
        let known = VerifierKey::log(&checkpoint.origin, *key);
        match held(&checkpoint.body(), &signatures, &known)? {
            Some(_) => Ok(checkpoint),
            None => Err(Error::Unsigned(key.id())),
        }
    }

    /// Reads a note and returns which of these keys signed it; at least one did.
    ///
    /// # Errors
    /// Not a checkpoint, no line of a known key, an invalid one, or two of one key.
    pub fn open_with<'k>(
        note: &str,
        keys: &'k [VerifierKey],
    ) -> Result<(Self, Vec<Held<'k>>), Error> {
        let (checkpoint, signatures) = Self::parse(note)?;
        let held = verify(&checkpoint.body(), &signatures, keys)?;
        Ok((checkpoint, held))
    }
}

/// Splits a note at its last empty line into the text, with its final newline, and the signatures.
///
/// # Errors
/// Not a note.
pub fn split(note: &str) -> Result<(&str, Vec<SignatureLine>), Error> {
    if note.len() > NOTE_BYTES_MAX {
        return Err(Error::Format("the note is too large"));
    }
    if note.bytes().any(|b| b < 0x20 && b != b'\n') {
        return Err(Error::Format("a control character"));
    }
    let at = note.rfind("\n\n").ok_or(Error::Format("no signature block"))?;
    let (text, rest) =
        note.split_at_checked(at.saturating_add(1)).ok_or(Error::Format("no signature block"))?;
    let block = rest
        .strip_prefix('\n')
        .and_then(|block| block.strip_suffix('\n'))
        .ok_or(Error::Format("no final newline"))?;
    if block.split('\n').count() > SIGNATURES_MAX {
        return Err(Error::Format("too many signatures"));
    }
    let signatures = block.split('\n').map(SignatureLine::parse).collect::<Result<_, _>>()?;
    Ok((text, signatures))
}

/// Which of these keys signed this text; at least one did.
///
/// # Errors
/// No line of a known key, an invalid one, or two of one key.
pub fn verify<'k>(
    text: &str,
    signatures: &[SignatureLine],
    keys: &'k [VerifierKey],
) -> Result<Vec<Held<'k>>, Error> {
    let mut all = Vec::new();
    for key in keys {
        all.extend(held(text, signatures, key)?);
    }
    match (all.is_empty(), keys.first()) {
        (false, _) => Ok(all),
        (true, Some(key)) => Err(Error::Unsigned(key.name.clone())),
        (true, None) => Err(Error::Unsigned("nobody".to_owned())),
    }
}

/// This key's valid signature of the text, if it has a line.
fn held<'k>(
    text: &str,
    signatures: &[SignatureLine],
    key: &'k VerifierKey,
) -> Result<Option<Held<'k>>, Error> {
    let mut lines = signatures.iter().filter(|line| line.is_of(key));
    let Some(line) = lines.next() else { return Ok(None) };
    if lines.next().is_some() {
        return Err(Error::Twice(key.name.clone()));
    }
    let bad_signature = || Error::BadSignature(key.name.clone());
    let time = match key.algorithm {
        Algorithm::Ed25519 => {
            let signature =
                <[u8; 64]>::try_from(line.signature.as_slice()).map_err(|_| bad_signature())?;
            if !key.key.verifies(text.as_bytes(), &signature) {
                return Err(bad_signature());
            }
            None
        }
        Algorithm::Cosignature => {
            Some(cosign::verify(&line.signature, &key.key, text).ok_or_else(bad_signature)?)
        }
    };
    Ok(Some(Held { key, time }))
}

/// Parses a number in the form of the specification: decimal, no sign, no leading zero.
pub fn decimal(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

/// Parses a hash in the form of the specification: 32 bytes in base64, in its one spelling.
pub fn hash(text: &str) -> Option<Digest> {
    let bytes = STANDARD.decode(text).ok().filter(|bytes| STANDARD.encode(bytes) == text)?;
    <[u8; 32]>::try_from(bytes).ok().map(Digest::from_bytes)
}

/// A valid signature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Held<'k> {
    /// The key that made it.
    pub key: &'k VerifierKey,
    /// The cosigner's time in seconds since 1970; `None` for a log.
    pub time: Option<u64>,
}

/// The use of a key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Algorithm {
    /// 0x01: Ed25519 over the text of the note, for logs.
    Ed25519,
    /// 0x04: Ed25519 over the text and a time, for witnesses (c2sp.org/tlog-cosignature).
    Cosignature,
}

impl Algorithm {
    /// The byte of this algorithm.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Ed25519 => 0x01,
            Self::Cosignature => 0x04,
        }
    }
}

/// A known key, by the name it signs under.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VerifierKey {
    /// The name; a log's is its origin.
    pub name: String,
    /// Its use.
    pub algorithm: Algorithm,
    /// The key.
    pub key: PublicKey,
}

impl VerifierKey {
    /// A log's key.
    pub fn log(origin: &str, key: PublicKey) -> Self {
        Self { name: origin.to_owned(), algorithm: Algorithm::Ed25519, key }
    }

    /// A witness's key.
    pub fn witness(name: &str, key: PublicKey) -> Self {
        Self { name: name.to_owned(), algorithm: Algorithm::Cosignature, key }
    }

    /// Parses `name+hash+base64(algorithm || key)`, the form of stock note tools.
    ///
    /// # Errors
    /// Another form, a hash that does not match name and key, or a key of small order.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(hash), Some(blob)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(Error::Key("not `name+hash+key`"));
        };
        if !is_name(name) {
            return Err(Error::Key("a name has no spaces, no plus, and is not empty"));
        }
        let blob = STANDARD.decode(blob).map_err(|_| Error::Key("the key is not base64"))?;
        let (algorithm, key) = blob.split_first().ok_or(Error::Key("the key is empty"))?;
        let algorithm = match algorithm {
            0x01 => Algorithm::Ed25519,
            0x04 => Algorithm::Cosignature,
            _ => return Err(Error::Key("an algorithm that is not known here")),
        };
        let key = <[u8; 32]>::try_from(key)
            .ok()
            .and_then(|key| PublicKey::from_bytes(&key))
            .ok_or(Error::Key("no usable ed25519 key"))?;
        let known = Self { name: name.to_owned(), algorithm, key };
        if hex::encode(known.hash()) != hash {
            return Err(Error::Key("the hash is not that of the name and the key"));
        }
        Ok(known)
    }

    /// First four bytes of SHA-256(name || 0x0A || algorithm || key).
    pub fn hash(&self) -> [u8; 4] {
        let mut hasher = Sha256::new();
        hasher.update(self.name.as_bytes());
        hasher.update([0x0A, self.algorithm.byte()]);
        hasher.update(self.key.to_bytes());
        let full: [u8; 32] = hasher.finalize().into();
        let [a, b, c, d, ..] = full;
        [a, b, c, d]
    }
}

impl std::fmt::Display for VerifierKey {
    /// As [`Self::parse`] reads it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut blob = vec![self.algorithm.byte()];
        blob.extend_from_slice(&self.key.to_bytes());
        write!(f, "{}+{}+{}", self.name, hex::encode(self.hash()), STANDARD.encode(blob))
    }
}

/// Whether a key may have this name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.chars().any(|c| c.is_whitespace() || c.is_control() || c == '+')
}

/// One signature line of a note.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignatureLine {
    /// The key's name.
    pub name: String,
    /// The key's hash.
    pub hash: [u8; 4],
    /// The signature bytes.
    pub signature: Vec<u8>,
}

impl SignatureLine {
    /// Reads one line, without its newline.
    ///
    /// # Errors
    /// Not `— name base64(hash || signature)`.
    pub fn parse(line: &str) -> Result<Self, Error> {
        let malformed = Error::Format("a signature line is not `— name base64`");
        let rest = line.strip_prefix("\u{2014} ").ok_or_else(|| malformed.clone())?;
        let (name, blob) = rest.split_once(' ').ok_or_else(|| malformed.clone())?;
        let blob = STANDARD.decode(blob).map_err(|_| malformed.clone())?;
        let (hash, signature) = blob.split_at_checked(4).ok_or_else(|| malformed.clone())?;
        let hash = <[u8; 4]>::try_from(hash).map_err(|_| malformed.clone())?;
        if !is_name(name) || signature.is_empty() {
            return Err(malformed);
        }
        Ok(Self { name: name.to_owned(), hash, signature: signature.to_vec() })
    }

    /// Whether the line names this key.
    #[must_use]
    pub fn is_of(&self, key: &VerifierKey) -> bool {
        self.name == key.name && self.hash == key.hash()
    }
}

impl std::fmt::Display for SignatureLine {
    /// The line in its form in a note, without its newline.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut blob = self.hash.to_vec();
        blob.extend_from_slice(&self.signature);
        write!(f, "\u{2014} {} {}", self.name, STANDARD.encode(blob))
    }
}

/// Key hash of an Ed25519 log key: first 4 bytes of SHA-256(name || 0x0A || 0x01 || key).
pub fn key_hash(name: &str, key: &PublicKey) -> [u8; 4] {
    VerifierKey::log(name, *key).hash()
}

/// The key in the form of stock note tools: `name+hash+base64(0x01 || key)`.
pub fn vkey(name: &str, key: &PublicKey) -> String {
    VerifierKey::log(name, *key).to_string()
}
