//! Ed25519 keys in files: PKCS#8 PEM for the secret half, SPKI PEM for the public half.

use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{
    DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _,
};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};

use super::files::beside;
use super::private::{self, Unused};
use super::ssh::SshKey;
use crate::clock::{Entropy, random32};
use crate::domain::digest::Digest;

/// Why a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error("key file `{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// Other users may read the secret key.
    #[error("key file `{path}` has mode {mode:o}: only its owner may read it (chmod 600)")]
    Mode {
        /// The file.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// Not an Ed25519 key in PEM, or one of small order.
    #[error("`{path}` holds no usable ed25519 key: {why}")]
    Format {
        /// The file or field.
        path: String,
        /// What is wrong.
        why: String,
    },
}

/// A secret Ed25519 key. Never shown, zeroed when dropped.
#[derive(Clone)]
pub struct SecretKey(SigningKey);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretKey({})", self.public().id())
    }
}

impl SecretKey {
    /// A fresh key.
    pub fn generate(entropy: &dyn Entropy) -> Self {
        let seed = zeroize::Zeroizing::new(random32(entropy));
        Self(SigningKey::from_bytes(&seed))
    }

    /// RFC 8032's secret key, for a key file.
    pub(super) fn seed(&self) -> zeroize::Zeroizing<[u8; 32]> {
        zeroize::Zeroizing::new(self.0.to_bytes())
    }

    /// The key of this seed (RFC 8032's secret key).
    pub fn from_seed(seed: &[u8; 32]) -> Self {
        Self(SigningKey::from_bytes(seed))
    }

    /// Its public half.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.verifying_key())
    }

    /// Signs these bytes (RFC 8032 Ed25519, 64 bytes).
    pub fn sign(&self, message: &[u8]) -> [u8; 64] {
        self.0.sign(message).to_bytes()
    }

    /// Reads a PKCS#8 PEM file that only its owner may read.
    ///
    /// # Errors
    /// Unreadable, readable by others, or not an Ed25519 key.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let format = |why: String| Error::Format { path: shown.clone(), why };
        let (_, pem) = private::read(path, private::BYTES_MAX).map_err(|why| match why {
            Unused::Io(source) => Error::Io { path: shown.clone(), source },
            Unused::Mode(mode) => Error::Mode { path: shown.clone(), mode },
            other @ (Unused::Volume(_) | Unused::Size(_) | Unused::Key | Unused::Text) => {
                format(other.to_string())
            }
        })?;
        let pem = std::str::from_utf8(&pem).map_err(|_| format(Unused::Text.to_string()))?;
        SigningKey::from_pkcs8_pem(pem).map(Self).map_err(|e| format(e.to_string()))
    }

    /// Writes a new PKCS#8 PEM file of mode 0600; never replaces one.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn store(&self, path: &Path) -> Result<(), Error> {
        let shown = path.display().to_string();
        let pem = self
            .0
            .to_pkcs8_pem(LineEnding::LF)
            .map_err(|e| Error::Format { path: shown.clone(), why: e.to_string() })?;
        keep_secret(path, pem.as_bytes()).map_err(|source| Error::Io { path: shown, source })
    }
}

/// Writes a secret to a new file of mode 0600, on disk when it returns. Never replaces a file, and
/// never leaves a partial one under its name: a process killed here starts again as if for the
/// first time.
///
/// # Errors
/// The file exists, or the file system's.
pub fn keep_secret(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let part = beside(path, ".part");
    // A leftover part may have another mode or owner.
    match std::fs::remove_file(&part) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
        Ok(()) | Err(_) => {}
    }
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    let linked = std::fs::hard_link(&part, path);
    std::fs::remove_file(&part)?;
    linked?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    std::fs::File::open(dir.unwrap_or(Path::new(".")))?.sync_all()
}

/// A public Ed25519 key that is not of small order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey(VerifyingKey);

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.id())
    }
}

impl PublicKey {
    /// The key of these 32 bytes, unless they are not a point or of small order.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        let key = VerifyingKey::from_bytes(bytes).ok()?;
        (!key.is_weak()).then_some(Self(key))
    }

    /// The 32 raw bytes.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0.to_bytes()
    }

    /// Key id: SHA-256 of the raw key, 64 hex digits.
    pub fn id(&self) -> String {
        self.digest().hex()
    }

    /// SHA-256 of the raw key.
    pub fn digest(&self) -> Digest {
        Digest::of(&[&self.to_bytes()])
    }

    /// Whether this key signed exactly these bytes, by the strict rules (`verify_strict`).
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8; 64]) -> bool {
        self.0.verify_strict(message, &Signature::from_bytes(signature)).is_ok()
    }

    /// Its SPKI PEM text, as `openssl pkey -pubin` reads it.
    pub fn to_pem(&self) -> String {
        self.0.to_public_key_pem(LineEnding::LF).unwrap_or_default()
    }

    /// Reads one or several SPKI PEM blocks. `path` is only for the message.
    ///
    /// # Errors
    /// No block, or a block without a usable key.
    pub fn read_pems(text: &str, path: &str) -> Result<Vec<Self>, Error> {
        let malformed = |why: &str| Error::Format { path: path.to_owned(), why: why.to_owned() };
        let mut keys = Vec::new();
        let mut block = String::new();
        for line in text.lines() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            block.push_str(line);
            block.push('\n');
            if line == "-----END PUBLIC KEY-----" {
                let key = VerifyingKey::from_public_key_pem(&block)
                    .map_err(|e| malformed(&e.to_string()))?;
                if key.is_weak() {
                    return Err(malformed("a small-order point verifies forged signatures"));
                }
                keys.push(Self(key));
                block.clear();
            }
        }
        if keys.is_empty() || !block.is_empty() {
            return Err(malformed("expected `-----BEGIN PUBLIC KEY-----` blocks"));
        }
        Ok(keys)
    }

    /// Reads a public key file as `ssh-keygen` writes it, or one SPKI PEM block.
    ///
    /// # Errors
    /// The file cannot be read, or does not hold exactly one usable ed25519 key.
    pub fn load_ssh(path: &Path) -> Result<Self, Error> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Io { path: shown.clone(), source })?;
        let malformed = |why: &str| Error::Format { path: shown.clone(), why: why.to_owned() };
        if text.trim_start().starts_with("ssh-") {
            return match SshKey::parse(text.trim()) {
                Ok(SshKey::Plain(key)) => Ok(key),
                Ok(SshKey::Hardware { .. } | SshKey::Passkey { .. }) | Err(_) => {
                    Err(malformed("expected one line `ssh-ed25519 …`"))
                }
            };
        }
        match Self::read_pems(&text, &shown)?.as_slice() {
            [key] => Ok(*key),
            _ => Err(malformed("expected one key")),
        }
    }

    /// The key of these 44 base64 characters, the form in entries.
    pub fn from_base64(text: &str) -> Option<Self> {
        use base64::Engine as _;
        let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
        Self::from_bytes(&<[u8; 32]>::try_from(bytes).ok()?)
    }

    /// The raw key in base64, the form in entries.
    pub fn base64(&self) -> String {
        use base64::Engine as _;
        base64::engine::general_purpose::STANDARD.encode(self.to_bytes())
    }

    /// Reads the public keys of a file.
    ///
    /// # Errors
    /// As [`Self::read_pems`], or the file cannot be read.
    pub fn load_all(path: &Path) -> Result<Vec<Self>, Error> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Io { path: shown.clone(), source })?;
        Self::read_pems(&text, &shown)
    }
}
