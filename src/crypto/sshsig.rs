//! SSHSIG, the signatures of `ssh-keygen -Y sign` (OpenSSH, PROTOCOL.sshsig): by three types of keys,
//! over SHA-256 or SHA-512, for one namespace. Passkeys sign in a browser; the challenge is what any
//! other key signs, so stock tools check them too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256, Sha512};

use super::passkey::Assertion;
use super::ssh::{self, SshKey, Wire, put};
use crate::domain::closed::texts;

const MAGIC: &[u8] = b"SSHSIG";
const VERSION: u32 = 1;
const BEGIN: &str = "-----BEGIN SSH SIGNATURE-----";
const END: &str = "-----END SSH SIGNATURE-----";
/// Characters of an armored line, the width of OpenSSH.
const WIDTH: usize = 70;
/// The type of a passkey's signatures.
const WEBAUTHN: &str = "webauthn-sk-ecdsa-sha2-nistp256@openssh.com";
/// The most characters of a signature: those of a passkey have some 900, others some 300.
const TEXT_MAX: usize = 8192;
/// Flag: a person touched the hardware key.
const PRESENT: u8 = 0x01;

/// Why a signature is invalid.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// It is malformed, or its key or hash is not supported.
    #[error("the signature: {0}")]
    Form(String),
    /// Its key is not supported.
    #[error("the signature: {0}")]
    Key(#[from] ssh::Error),
    /// It was made for something else.
    #[error("the signature is for `{0}`")]
    Namespace(String),
    /// A hardware key signed without a touch.
    #[error("the signature was made without a touch of the key")]
    Absent,
    /// A passkey signed without verifying who is there.
    #[error("the passkey signed without a PIN, finger or face: user verification is required")]
    Unverified,
    /// A passkey's flags do not fit the rest of its answer, or no signature has them.
    #[error("the passkey's flags {0:#04x} do not fit its answer")]
    Flags(u8),
    /// The browser's data begin in another way than they must.
    #[error("the browser signed another statement, or at another origin than the signature names")]
    ClientData,
    /// A passkey's signature names no origin in the spelling of browsers.
    #[error("the passkey's answer names no origin such as `https://console.example.com`")]
    Origin,
    /// The origin (first) is not the key's application (second), nor a host below it.
    #[error("the passkey is of `{1}` and cannot sign at {0}")]
    Application(String, String),
    /// It is not a signature of this message by this key.
    #[error("the signature does not hold")]
    Wrong,
}

texts! {
    /// The hash of a message before it is signed.
    pub enum SshHash {
        /// `sha256`.
        Sha256 = "sha256",
        /// `sha512`, the default of OpenSSH.
        Sha512 = "sha512",
    }
}

impl SshHash {
    fn of(self, message: &[u8]) -> Vec<u8> {
        match self {
            Self::Sha256 => Sha256::digest(message).to_vec(),
            Self::Sha512 => Sha512::digest(message).to_vec(),
        }
    }
}

/// A parsed signature that was not checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SshSig {
    /// The key that it names.
    pub key: SshKey,
    /// Its purpose.
    pub namespace: String,
    hash: SshHash,
    seal: Seal,
}

/// The signature itself, in the form of its type of key.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Seal {
    Plain([u8; 64]),
    Touched { signature: [u8; 64], flags: u8, counter: u32 },
    Browser(Assertion),
}

impl SshSig {
    /// Parses a signature: armored as by stock tools, or the base64 alone.
    ///
    /// # Errors
    /// [`Error::Form`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let form = |why: &str| Error::Form(why.to_owned());
        if text.len() > TEXT_MAX {
            return Err(form("it is too long"));
        }
        let text = text.trim();
        let inner = match text.strip_prefix(BEGIN) {
            Some(rest) => rest.strip_suffix(END).ok_or_else(|| form("its armor has no end"))?,
            None => text,
        };
        let packed: String = inner.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let blob = STANDARD.decode(packed).map_err(|_| form("it is not base64"))?;
        Self::from_blob(&blob)
    }

    fn from_blob(blob: &[u8]) -> Result<Self, Error> {
        let malformed = || Error::Form("it is malformed".into());
        let mut wire = Wire(blob);
        if wire.take(MAGIC.len()) != Some(MAGIC) || wire.number() != Some(VERSION) {
            return Err(Error::Form("it is no SSHSIG of version 1".into()));
        }
        let key = wire.string().ok_or_else(malformed)?;
        let key = SshKey::from_blob(key)?;
        let namespace = wire.text().ok_or_else(malformed)?.to_owned();
        let reserved = wire.string().ok_or_else(malformed)?;
        let hash = wire.text().and_then(SshHash::parse);
        let hash =
            hash.ok_or_else(|| Error::Form("its hash is neither sha256 nor sha512".into()))?;
        let inner = wire.string().ok_or_else(malformed)?;
        if !reserved.is_empty() || !wire.ends() {
            return Err(malformed());
        }
        let seal = Seal::read(&key, inner)?;
        Ok(Self { key, namespace, hash, seal })
    }

    /// Makes a signature from a key's answer to a request to sign [`covered`] bytes.
    ///
    /// # Errors
    /// [`Error::Form`]: the answer is not a signature by this type of key.
    pub fn answered(
        key: SshKey,
        namespace: &str,
        hash: SshHash,
        answer: &[u8],
    ) -> Result<Self, Error> {
        let seal = Seal::read(&key, answer)?;
        Ok(Self { key, namespace: namespace.to_owned(), hash, seal })
    }

    /// What a browser signed, if the key is a passkey.
    #[must_use]
    pub const fn assertion(&self) -> Option<&Assertion> {
        match &self.seal {
            Seal::Browser(assertion) => Some(assertion),
            Seal::Plain(_) | Seal::Touched { .. } => None,
        }
    }

    /// Verifies the signature over a message, for exactly this namespace. The caller checks whether
    /// the key is a trusted one, and whether a passkey may sign at its origin.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn verify(&self, namespace: &str, message: &[u8]) -> Result<(), Error> {
        if self.namespace != namespace {
            let shown = self.namespace.chars().filter(|c| !c.is_control()).take(64).collect();
            return Err(Error::Namespace(shown));
        }
        let covered = covered(namespace, self.hash, message);
        match (&self.key, &self.seal) {
            (SshKey::Plain(key), Seal::Plain(signature)) => held(key.verifies(&covered, signature)),
            (
                SshKey::Hardware { key, application },
                Seal::Touched { signature, flags, counter },
            ) => {
                let mut signed = Sha256::digest(application.as_bytes()).to_vec();
                signed.push(*flags);
                signed.extend_from_slice(&counter.to_be_bytes());
                signed.extend_from_slice(&Sha256::digest(&covered));
                held(key.verifies(&signed, signature))?;
                if flags & PRESENT == 0 { Err(Error::Absent) } else { Ok(()) }
            }
            (SshKey::Passkey { key, application }, Seal::Browser(assertion)) => {
                assertion.verify(key, application, &covered)
            }
            (
                SshKey::Plain(_) | SshKey::Hardware { .. } | SshKey::Passkey { .. },
                Seal::Plain(_) | Seal::Touched { .. } | Seal::Browser(_),
            ) => Err(Error::Wrong),
        }
    }

    /// The armored text of this signature, as stock tools write it.
    pub fn armored(&self) -> String {
        let mut inner = Vec::new();
        put(&mut inner, sealed_as(&self.key).as_bytes());
        match &self.seal {
            Seal::Plain(signature) => put(&mut inner, signature),
            Seal::Touched { signature, flags, counter } => {
                put(&mut inner, signature);
                inner.push(*flags);
                inner.extend_from_slice(&counter.to_be_bytes());
            }
            Seal::Browser(assertion) => assertion.write(&mut inner),
        }
        let mut blob = MAGIC.to_vec();
        blob.extend_from_slice(&VERSION.to_be_bytes());
        put(&mut blob, &self.key.blob());
        put(&mut blob, self.namespace.as_bytes());
        put(&mut blob, b"");
        put(&mut blob, self.hash.as_str().as_bytes());
        put(&mut blob, &inner);
        let mut out = format!("{BEGIN}\n");
        for (at, c) in STANDARD.encode(blob).chars().enumerate() {
            if at > 0 && at % WIDTH == 0 {
                out.push('\n');
            }
            out.push(c);
        }
        out.push_str(&format!("\n{END}\n"));
        out
    }
}

/// The bytes that a key signs.
pub fn covered(namespace: &str, hash: SshHash, message: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put(&mut out, namespace.as_bytes());
    put(&mut out, b"");
    put(&mut out, hash.as_str().as_bytes());
    put(&mut out, &hash.of(message));
    out
}

/// The type of the signatures of this key.
const fn sealed_as(key: &SshKey) -> &'static str {
    match key {
        SshKey::Plain(_) | SshKey::Hardware { .. } => key.name(),
        SshKey::Passkey { .. } => WEBAUTHN,
    }
}

const fn held(holds: bool) -> Result<(), Error> {
    if holds { Ok(()) } else { Err(Error::Wrong) }
}

impl Seal {
    /// The signature in the form for keys of this type.
    fn read(key: &SshKey, blob: &[u8]) -> Result<Self, Error> {
        let malformed = || Error::Form("it is malformed".into());
        let mut wire = Wire(blob);
        let name = wire.text().ok_or_else(malformed)?;
        if name != sealed_as(key) {
            return Err(match key {
                SshKey::Passkey { .. } => {
                    Error::Form(format!("a key of type {} signs in a browser only", key.name()))
                }
                SshKey::Plain(_) | SshKey::Hardware { .. } => malformed(),
            });
        }
        if let SshKey::Passkey { .. } = key {
            return Ok(Self::Browser(Assertion::read(wire)?));
        }
        let raw = wire.string().and_then(|raw| <[u8; 64]>::try_from(raw).ok());
        let signature = raw.ok_or_else(malformed)?;
        let seal = if let SshKey::Hardware { .. } = key {
            let flags = wire.take(1).and_then(|one| one.first().copied()).ok_or_else(malformed)?;
            let counter = wire.number().ok_or_else(malformed)?;
            Self::Touched { signature, flags, counter }
        } else {
            Self::Plain(signature)
        };
        if wire.ends() { Ok(seal) } else { Err(malformed()) }
    }
}
