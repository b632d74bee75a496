//! OpenSSH public keys of the three supported types: `ssh-ed25519`, the same on hardware, and
//! passkeys.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::keys::PublicKey;
use super::passkey::P256Key;
use crate::domain::digest::Digest;

/// The name of a key in a file or an agent.
pub const PLAIN: &str = "ssh-ed25519";
/// The name of a key in a security key (FIDO), which asks for a touch before it signs.
pub const HARDWARE: &str = "sk-ssh-ed25519@openssh.com";
/// The name of a passkey, which signs in a browser.
pub const PASSKEY: &str = "sk-ecdsa-sha2-nistp256@openssh.com";
/// The curve of passkeys.
const CURVE: &str = "nistp256";
/// The most bytes of a key's application: the longest host has fewer.
const APPLICATION_MAX: usize = 255;
/// The most bytes of one line with a key.
const LINE_MAX: usize = 4096;

/// Why a text or blob is not a public key that this build uses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The line has too many bytes.
    #[error("longer than {LINE_MAX} bytes")]
    Long,
    /// The line lacks one of its two fields.
    #[error("expected the type of a key and the key in base64")]
    Fields,
    /// The second field of the line is not base64.
    #[error("the key is not base64")]
    Base64,
    /// The line and the key in it name different types.
    #[error("the key is of another type")]
    Type,
    /// The blob is not in SSH's encoding, or the key is of small order.
    #[error("the key is malformed")]
    Malformed,
    /// A type other than [`PLAIN`], [`HARDWARE`] and [`PASSKEY`], printable and cut to 64 characters.
    #[error("keys of type `{0}` are not supported: use {PLAIN}, {HARDWARE} or {PASSKEY}")]
    Unsupported(String),
}

/// A public key in OpenSSH's types.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SshKey {
    /// `ssh-ed25519`.
    Plain(PublicKey),
    /// `sk-ssh-ed25519@openssh.com`.
    Hardware {
        /// The key.
        key: PublicKey,
        /// Its application, mostly `ssh:`. Part of everything it signs.
        application: String,
    },
    /// `sk-ecdsa-sha2-nistp256@openssh.com`.
    Passkey {
        /// The key.
        key: P256Key,
        /// Its application: the domain where browsers use it. Part of everything it signs.
        application: String,
    },
}

impl SshKey {
    /// Parses `type base64 comment`, as in a `.pub` file or from an agent; ignores the comment.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn parse(line: &str) -> Result<Self, Error> {
        if line.len() > LINE_MAX {
            return Err(Error::Long);
        }
        let mut words = line.split_ascii_whitespace();
        let (Some(name), Some(text)) = (words.next(), words.next()) else {
            return Err(Error::Fields);
        };
        known(name)?;
        let blob = STANDARD.decode(text).map_err(|_| Error::Base64)?;
        let key = Self::from_blob(&blob)?;
        if key.name() == name { Ok(key) } else { Err(Error::Type) }
    }

    /// Reads the binary form.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn from_blob(blob: &[u8]) -> Result<Self, Error> {
        let mut wire = Wire(blob);
        let name = wire.text().ok_or(Error::Malformed)?;
        known(name)?;
        let key = match name {
            HARDWARE => {
                Self::Hardware { key: ed25519(&mut wire)?, application: wire.application()? }
            }
            PASSKEY => {
                let curve = wire.text().filter(|curve| *curve == CURVE);
                let point = curve.and_then(|_| wire.string()).and_then(P256Key::from_point);
                let key = point.ok_or(Error::Malformed)?;
                Self::Passkey { key, application: wire.application()? }
            }
            _ => Self::Plain(ed25519(&mut wire)?),
        };
        if wire.ends() { Ok(key) } else { Err(Error::Malformed) }
    }

    /// The binary form.
    pub fn blob(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.name().as_bytes());
        match self {
            Self::Plain(key) => put(&mut out, &key.to_bytes()),
            Self::Hardware { key, application } => {
                put(&mut out, &key.to_bytes());
                put(&mut out, application.as_bytes());
            }
            Self::Passkey { key, application } => {
                put(&mut out, CURVE.as_bytes());
                put(&mut out, key.point());
                put(&mut out, application.as_bytes());
            }
        }
        out
    }

    /// The name of its type.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Plain(_) => PLAIN,
            Self::Hardware { .. } => HARDWARE,
            Self::Passkey { .. } => PASSKEY,
        }
    }

    /// `type base64`, as in a `.pub` file.
    pub fn line(&self) -> String {
        format!("{} {}", self.name(), STANDARD.encode(self.blob()))
    }

    /// `SHA256:…`, as `ssh-keygen -l` shows it.
    pub fn fingerprint(&self) -> String {
        format!("SHA256:{}", STANDARD_NO_PAD.encode(Digest::of(&[&self.blob()]).as_bytes()))
    }
}

/// The next string as a key of Ed25519.
fn ed25519(wire: &mut Wire<'_>) -> Result<PublicKey, Error> {
    let raw = wire.string().and_then(|raw| <[u8; 32]>::try_from(raw).ok());
    raw.and_then(|raw| PublicKey::from_bytes(&raw)).ok_or(Error::Malformed)
}

/// Whether keys of this type are supported.
fn known(name: &str) -> Result<(), Error> {
    if [PLAIN, HARDWARE, PASSKEY].contains(&name) {
        return Ok(());
    }
    let shown: String = name.chars().filter(char::is_ascii_graphic).take(64).collect();
    Err(Error::Unsupported(shown))
}

/// The rest of a message in SSH's encoding (RFC 4251, 5).
#[derive(Clone, Copy, Debug)]
pub struct Wire<'a>(pub &'a [u8]);

impl<'a> Wire<'a> {
    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// The next number.
    pub fn number(&mut self) -> Option<u32> {
        self.take(4).and_then(|raw| <[u8; 4]>::try_from(raw).ok()).map(u32::from_be_bytes)
    }

    /// The next string.
    pub fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        self.take(length)
    }

    /// The next string, if it is UTF-8.
    pub fn text(&mut self) -> Option<&'a str> {
        self.string().and_then(|raw| std::str::from_utf8(raw).ok())
    }

    /// The next string as the application of a key.
    fn application(&mut self) -> Result<String, Error> {
        let text = self.text().filter(|text| text.len() <= APPLICATION_MAX);
        text.map(str::to_owned).ok_or(Error::Malformed)
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn ends(&self) -> bool {
        self.0.is_empty()
    }
}

/// Appends a string in SSH's encoding. No string here is near 4 GiB.
pub fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}
