//! OpenSSH private key files (PROTOCOL.key): `ssh-ed25519`, plain or behind a passphrase.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use aes::Aes256;
use aes::cipher::{KeyIvInit as _, StreamCipher as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctr::Ctr128BE;
use zeroize::Zeroizing;

use super::files::beside;
use super::keys::{SecretKey, keep_secret};
use super::ssh::{self, PLAIN, SshKey, Wire, put};

const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";
const FILE_MAX: u64 = 64 * 1024;
/// The default cipher of `ssh-keygen`.
const CIPHER: &str = "aes256-ctr";
const BLOCK: usize = 16;
/// Rounds of the key derivation; more would take minutes.
const ROUNDS_MAX: u32 = 4096;

/// Why a key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("key file `{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is not a usable key, or other users may read it.
    #[error("key file `{path}`: {source}")]
    Unusable {
        /// The file.
        path: String,
        /// What is wrong, and what to do.
        source: Flaw,
    },
}

/// What is wrong with a key file.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Flaw {
    /// Its permission bits let others read it.
    #[error("it has mode {0:o}: only its owner may read it (chmod 600)")]
    Mode(u32),
    /// More than 64 KiB.
    #[error("it is too large for a key")]
    Size,
    /// Not in the format of PROTOCOL.key.
    #[error("it is no OpenSSH private key")]
    Form,
    /// Its public part.
    #[error(transparent)]
    Public(#[from] ssh::Error),
    /// A key that never leaves its device.
    #[error("its key is in hardware: sign through ssh-agent (ssh-add)")]
    Hardware,
    /// A key that counts only when it signs in a browser.
    #[error("keys of its type sign in a browser only: make an ed25519 or ed25519-sk key")]
    Passkey,
    /// Encrypted, and there is no terminal for the passphrase.
    #[error(
        "it has a passphrase, and there is no terminal to ask for it: sign through ssh-agent (ssh-add)"
    )]
    Passphrase,
    /// The passphrase is wrong.
    #[error("the passphrase is wrong")]
    Wrong,
    /// The secret part contradicts itself or the public part.
    #[error("it is damaged")]
    Damaged,
    /// Encrypted in another way than the default of `ssh-keygen`.
    #[error("its cipher is not {CIPHER}: sign through ssh-agent (ssh-add)")]
    Cipher,
}

/// Asks a person for the passphrase of this key file; `None` without a terminal.
pub type Ask<'a> = &'a dyn Fn(&Path) -> Option<Zeroizing<String>>;

/// Reads a key file that only its owner may read. `ask` is called only if it has a passphrase.
///
/// # Errors
/// See [`Error`].
pub fn load(path: &Path, ask: Ask<'_>) -> Result<SecretKey, Error> {
    let shown = path.display().to_string();
    let io = |source| Error::Io { path: shown.clone(), source };
    let unusable = |source| Error::Unusable { path: shown.clone(), source };
    let meta = std::fs::metadata(path).map_err(io)?;
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(unusable(Flaw::Mode(mode)));
    }
    if meta.len() > FILE_MAX {
        return Err(unusable(Flaw::Size));
    }
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(io)?);
    read(&text, &|| ask(path)).map_err(unusable)
}

fn read(text: &str, ask: &dyn Fn() -> Option<Zeroizing<String>>) -> Result<SecretKey, Flaw> {
    let inner = text.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    let packed: String =
        inner.ok_or(Flaw::Form)?.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let packed = Zeroizing::new(packed);
    let blob = Zeroizing::new(STANDARD.decode(packed.as_str()).map_err(|_| Flaw::Form)?);
    let mut wire = Wire(&blob);
    if wire.take(MAGIC.len()) != Some(MAGIC) {
        return Err(Flaw::Form);
    }
    let (Some(cipher), Some(kdf), Some(options)) = (wire.text(), wire.text(), wire.string()) else {
        return Err(Flaw::Form);
    };
    let (Some(1), Some(public), Some(secret)) = (wire.number(), wire.string(), wire.string())
    else {
        return Err(Flaw::Form);
    };
    let public = SshKey::from_blob(public)?;
    match public {
        SshKey::Plain(_) => {}
        SshKey::Hardware { .. } => return Err(Flaw::Hardware),
        SshKey::Passkey { .. } => return Err(Flaw::Passkey),
    }
    let secret = Zeroizing::new(secret.to_vec());
    match (cipher, kdf) {
        ("none", "none") => opened(&secret, &public, Flaw::Damaged),
        (CIPHER, "bcrypt") => {
            let phrase = ask().ok_or(Flaw::Passphrase)?;
            opened(&decrypted(secret, options, &phrase)?, &public, Flaw::Wrong)
        }
        _ => Err(Flaw::Cipher),
    }
}

fn decrypted(
    mut secret: Zeroizing<Vec<u8>>,
    options: &[u8],
    phrase: &str,
) -> Result<Zeroizing<Vec<u8>>, Flaw> {
    let mut wire = Wire(options);
    let (salt, rounds) = (wire.string().ok_or(Flaw::Form)?, wire.number().ok_or(Flaw::Form)?);
    if rounds == 0 || rounds > ROUNDS_MAX || !secret.len().is_multiple_of(BLOCK) {
        return Err(Flaw::Form);
    }
    let mut derived = Zeroizing::new([0_u8; 48]);
    bcrypt_pbkdf::bcrypt_pbkdf(phrase.as_bytes(), salt, rounds, derived.as_mut_slice())
        .map_err(|_| Flaw::Wrong)?;
    let (key, iv) = derived.split_at(32);
    let mut cipher = Ctr128BE::<Aes256>::new_from_slices(key, iv).map_err(|_| Flaw::Form)?;
    cipher.apply_keystream(&mut secret);
    Ok(secret)
}

/// The key in the decrypted part, if it matches the public part.
fn opened(secret: &[u8], public: &SshKey, otherwise: Flaw) -> Result<SecretKey, Flaw> {
    let mut wire = Wire(secret);
    let check = wire.number();
    if check.is_none() || check != wire.number() {
        return Err(otherwise);
    }
    let seed = || {
        let (name, _public) = (wire.text()?, wire.string()?);
        // The seed, and the public key again.
        let pair = wire.string().filter(|pair| name == PLAIN && pair.len() == 64)?;
        pair.split_at_checked(32).and_then(|(seed, _)| <[u8; 32]>::try_from(seed).ok())
    };
    let mut seed = seed;
    let seed = Zeroizing::new(seed().ok_or(Flaw::Damaged)?);
    let key = SecretKey::from_seed(&seed);
    if SshKey::Plain(key.public()) == *public { Ok(key) } else { Err(Flaw::Damaged) }
}

/// Writes a key to a new file of mode 0600, without a passphrase, as `ssh-keygen` writes it, and its public
/// half beside it as `<path>.pub`.
///
/// # Errors
/// A file exists or cannot be written.
pub fn store(key: &SecretKey, path: &Path, comment: &str) -> Result<(), Error> {
    let shown = path.display().to_string();
    let io = |source| Error::Io { path: shown.clone(), source };
    let public = SshKey::Plain(key.public());
    keep_secret(path, text(key, &public, comment).as_bytes()).map_err(io)?;
    std::fs::write(beside(path, ".pub"), format!("{} {comment}\n", public.line())).map_err(io)
}

fn text(key: &SecretKey, public: &SshKey, comment: &str) -> Zeroizing<String> {
    // Shows a reader that the passphrase is wrong; this file has none.
    let check = [0_u8; 4];
    let mut secret = Zeroizing::new([check, check].concat());
    let half = key.public().to_bytes();
    put(&mut secret, PLAIN.as_bytes());
    put(&mut secret, &half);
    put(&mut secret, &Zeroizing::new([*key.seed(), half].concat()));
    put(&mut secret, comment.as_bytes());
    let full = secret.len().next_multiple_of(8);
    let padding = (1_u8..).take(full.saturating_sub(secret.len()));
    secret.extend(padding);
    let mut blob = Zeroizing::new(MAGIC.to_vec());
    for part in ["none", "none", ""] {
        put(&mut blob, part.as_bytes());
    }
    blob.extend(1_u32.to_be_bytes());
    put(&mut blob, &public.blob());
    put(&mut blob, &secret);
    let packed = Zeroizing::new(STANDARD.encode(&*blob));
    let mut lines = Zeroizing::new(format!("{BEGIN}\n"));
    let mut rest = packed.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at_checked(70).unwrap_or((rest, ""));
        lines.push_str(line);
        lines.push('\n');
        rest = more;
    }
    lines.push_str(END);
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_back_as_it_was_written_and_is_never_written_over() {
        let dir = tempfile::tempdir().unwrap();
        for seed in 0..9_u8 {
            let (key, path) =
                (SecretKey::from_seed(&[seed; 32]), dir.path().join(seed.to_string()));
            store(&key, &path, &"c".repeat(seed.into())).unwrap();
            assert_eq!(load(&path, &|_| None).unwrap().public(), key.public());
            let line = std::fs::read_to_string(dir.path().join(format!("{seed}.pub"))).unwrap();
            assert_eq!(SshKey::parse(line.trim()).unwrap(), SshKey::Plain(key.public()));
            assert!(store(&key, &path, "").is_err());
        }
    }
}
