//! C2SP signed notes and checkpoints (c2sp.org/signed-note, c2sp.org/tlog-checkpoint).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::keys::{PublicKey, SecretKey};
use super::signer::Signer;
use crate::domain::digest::Digest;

/// Why a note or checkpoint does not hold.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The text is not of the form the specification asks for.
    #[error("checkpoint: {0}")]
    Format(&'static str),
    /// No signature by the expected key.
    #[error("checkpoint: no signature by key `{0}`")]
    Unsigned(String),
    /// A signature by the expected key that does not hold.
    #[error("checkpoint: the signature by `{0}` does not verify")]
    BadSignature(String),
}

/// What a log says of itself: so many entries, and this root over them.
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
    /// The three lines that are signed.
    #[must_use]
    pub fn body(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, STANDARD.encode(self.root.as_bytes()))
    }

    /// The signed note.
    #[must_use]
    pub fn sign(&self, key: &SecretKey) -> String {
        let body = self.body();
        let mut blob = key_hash(&self.origin, &key.public()).to_vec();
        blob.extend_from_slice(&key.sign(body.as_bytes()));
        format!("{body}\n\u{2014} {} {}\n", self.origin, STANDARD.encode(blob))
    }

    /// The note signed by each of these, in order: during a rotation by the new key and the old one.
    ///
    /// # Errors
    /// A signer's; there is no note with fewer signatures.
    pub fn sign_by(&self, signers: &[&dyn Signer]) -> Result<String, String> {
        let body = self.body();
        let mut note = format!("{body}\n");
        for signer in signers {
            let mut blob = key_hash(&self.origin, &signer.public()).to_vec();
            blob.extend_from_slice(&signer.sign(body.as_bytes())?);
            note.push_str(&format!("\u{2014} {} {}\n", self.origin, STANDARD.encode(blob)));
        }
        Ok(note)
    }

    /// Reads a note without judging its signatures: exactly three lines, canonical size.
    ///
    /// # Errors
    /// The text is not a checkpoint note.
    pub fn parse(note: &str) -> Result<(Self, Vec<SignatureLine>), Error> {
        let (body, rest) = note.split_once("\n\n").ok_or(Error::Format("no signature block"))?;
        let mut lines = body.split('\n');
        let origin =
            lines.next().filter(|o| !o.is_empty()).ok_or(Error::Format("no origin line"))?;
        let size = lines.next().ok_or(Error::Format("no size line"))?;
        let root = lines.next().ok_or(Error::Format("no root line"))?;
        if lines.next().is_some() {
            return Err(Error::Format("extension lines are not accepted"));
        }
        let number: u64 = size.parse().map_err(|_| Error::Format("the size is not a number"))?;
        if number.to_string() != size {
            return Err(Error::Format("the size is not in canonical form"));
        }
        let root = STANDARD
            .decode(root)
            .ok()
            .filter(|bytes| STANDARD.encode(bytes) == root)
            .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok())
            .ok_or(Error::Format("the root is not 32 bytes in base64"))?;
        let block = rest.strip_suffix('\n').ok_or(Error::Format("no final newline"))?;
        let signatures = block.split('\n').map(SignatureLine::parse).collect::<Result<_, _>>()?;
        let checkpoint =
            Self { origin: origin.to_owned(), size: number, root: Digest::from_bytes(root) };
        Ok((checkpoint, signatures))
    }

    /// Reads a note and checks that this key signed it under its origin's name.
    ///
    /// A line of the key that does not verify refuses the note, even beside one that does; so does a
    /// second line of the same key.
    ///
    /// # Errors
    /// Not a checkpoint, or not signed by the key.
    pub fn open(note: &str, key: &PublicKey) -> Result<Self, Error> {
        let (checkpoint, signatures) = Self::parse(note)?;
        let hash = key_hash(&checkpoint.origin, key);
        let mut ours = signatures.iter().filter(|s| s.name == checkpoint.origin && s.hash == hash);
        let line = ours.next().ok_or_else(|| Error::Unsigned(key.id()))?;
        if ours.next().is_some() {
            return Err(Error::Format("two signatures by one key"));
        }
        let signature = <[u8; 64]>::try_from(line.signature.as_slice())
            .map_err(|_| Error::BadSignature(key.id()))?;
        if key.verifies(checkpoint.body().as_bytes(), &signature) {
            Ok(checkpoint)
        } else {
            Err(Error::BadSignature(key.id()))
        }
    }
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
    fn parse(line: &str) -> Result<Self, Error> {
        let bad = Error::Format("a signature line is not `— name base64`");
        let rest = line.strip_prefix("\u{2014} ").ok_or_else(|| bad.clone())?;
        let (name, blob) = rest.split_once(' ').ok_or_else(|| bad.clone())?;
        let blob = STANDARD.decode(blob).map_err(|_| bad.clone())?;
        let (hash, signature) = blob.split_at_checked(4).ok_or_else(|| bad.clone())?;
        let hash = <[u8; 4]>::try_from(hash).map_err(|_| bad.clone())?;
        if name.is_empty() || name.contains('+') || signature.is_empty() {
            return Err(bad);
        }
        Ok(Self { name: name.to_owned(), hash, signature: signature.to_vec() })
    }
}

impl Clone for Error {
    fn clone(&self) -> Self {
        match self {
            Self::Format(why) => Self::Format(why),
            Self::Unsigned(key) => Self::Unsigned(key.clone()),
            Self::BadSignature(key) => Self::BadSignature(key.clone()),
        }
    }
}

/// Key hash of an Ed25519 log key: first 4 bytes of SHA-256(name || 0x0A || 0x01 || key).
#[must_use]
pub fn key_hash(name: &str, key: &PublicKey) -> [u8; 4] {
    let mut hasher = Sha256::new();
    hasher.update(name.as_bytes());
    hasher.update([0x0A, 0x01]);
    hasher.update(key.to_bytes());
    let full: [u8; 32] = hasher.finalize().into();
    let [a, b, c, d, ..] = full;
    [a, b, c, d]
}

/// The key as stock note tools read it: `name+hash+base64(0x01 || key)`.
#[must_use]
pub fn vkey(name: &str, key: &PublicKey) -> String {
    let mut blob = vec![0x01];
    blob.extend_from_slice(&key.to_bytes());
    format!("{name}+{}+{}", hex::encode(key_hash(name, key)), STANDARD.encode(blob))
}
