//! OpenSSH private key files (PROTOCOL.key): `ssh-ed25519`, plain or behind a passphrase.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use aes::Aes256;
use aes::cipher::{KeyIvInit as _, StreamCipher as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ctr::Ctr128BE;
use zeroize::Zeroizing;

use super::keys::SecretKey;
use super::ssh::{HARDWARE, PLAIN, SshKey, Wire};

const BEGIN: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";
const END: &str = "-----END OPENSSH PRIVATE KEY-----";
const MAGIC: &[u8] = b"openssh-key-v1\0";
const FILE_MAX: u64 = 64 * 1024;
/// The cipher `ssh-keygen` takes unless told otherwise.
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
        /// What the system said.
        source: std::io::Error,
    },
    /// It is no key that can be used, or others may read it.
    #[error("key file `{path}`: {why}")]
    Unusable {
        /// The file.
        path: String,
        /// What is wrong, and what to do.
        why: String,
    },
}

/// Asks a person for the passphrase of this key file; none if nobody can be asked.
pub type Ask<'a> = &'a dyn Fn(&Path) -> Option<Zeroizing<String>>;

/// Reads a key file that only its owner may read. `ask` is called only if it has a passphrase.
///
/// # Errors
/// See [`Error`].
pub fn load(path: &Path, ask: Ask<'_>) -> Result<SecretKey, Error> {
    let shown = path.display().to_string();
    let io = |source| Error::Io { path: shown.clone(), source };
    let unusable = |why: String| Error::Unusable { path: shown.clone(), why };
    let meta = std::fs::metadata(path).map_err(io)?;
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(unusable(format!(
            "it has mode {mode:o}: only its owner may read it (chmod 600)"
        )));
    }
    if meta.len() > FILE_MAX {
        return Err(unusable("it is too large for a key".into()));
    }
    let text = Zeroizing::new(std::fs::read_to_string(path).map_err(io)?);
    read(&text, &|| ask(path)).map_err(unusable)
}

fn read(text: &str, ask: &dyn Fn() -> Option<Zeroizing<String>>) -> Result<SecretKey, String> {
    let malformed = || "it is no OpenSSH private key".to_owned();
    let inner = text.trim().strip_prefix(BEGIN).and_then(|rest| rest.strip_suffix(END));
    let packed: String =
        inner.ok_or_else(malformed)?.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let packed = Zeroizing::new(packed);
    let blob = Zeroizing::new(STANDARD.decode(packed.as_str()).map_err(|_| malformed())?);
    let mut wire = Wire(&blob);
    if wire.take(MAGIC.len()) != Some(MAGIC) {
        return Err(malformed());
    }
    let (Some(cipher), Some(kdf), Some(options)) = (wire.text(), wire.text(), wire.string()) else {
        return Err(malformed());
    };
    let (Some(1), Some(public), Some(secret)) = (wire.number(), wire.string(), wire.string())
    else {
        return Err(malformed());
    };
    let public = SshKey::from_blob(public)?;
    if public.name() == HARDWARE {
        return Err("its key is in hardware: sign through ssh-agent (ssh-add)".into());
    }
    let secret = Zeroizing::new(secret.to_vec());
    match (cipher, kdf) {
        ("none", "none") => opened(&secret, &public, "it is damaged"),
        (CIPHER, "bcrypt") => {
            let phrase = ask().ok_or("it has a passphrase, and nobody can be asked for it")?;
            opened(&decrypted(secret, options, &phrase)?, &public, "the passphrase is wrong")
        }
        _ => Err(format!("its cipher is not {CIPHER}: sign through ssh-agent (ssh-add)")),
    }
}

fn decrypted(
    mut secret: Zeroizing<Vec<u8>>,
    options: &[u8],
    phrase: &str,
) -> Result<Zeroizing<Vec<u8>>, String> {
    let malformed = || "it is no OpenSSH private key".to_owned();
    let mut wire = Wire(options);
    let (salt, rounds) =
        (wire.string().ok_or_else(malformed)?, wire.number().ok_or_else(malformed)?);
    if rounds == 0 || rounds > ROUNDS_MAX || !secret.len().is_multiple_of(BLOCK) {
        return Err(malformed());
    }
    let mut derived = Zeroizing::new([0_u8; 48]);
    bcrypt_pbkdf::bcrypt_pbkdf(phrase.as_bytes(), salt, rounds, derived.as_mut_slice())
        .map_err(|_| "the passphrase is wrong".to_owned())?;
    let (key, iv) = derived.split_at(32);
    let mut cipher = Ctr128BE::<Aes256>::new_from_slices(key, iv).map_err(|_| malformed())?;
    cipher.apply_keystream(&mut secret);
    Ok(secret)
}

/// The key in the decrypted part, if it is that of the public part.
fn opened(secret: &[u8], public: &SshKey, otherwise: &str) -> Result<SecretKey, String> {
    let mut wire = Wire(secret);
    let check = wire.number();
    if check.is_none() || check != wire.number() {
        return Err(otherwise.to_owned());
    }
    let seed = || {
        let (name, _public) = (wire.text()?, wire.string()?);
        // The seed, and the public key once more.
        let pair = wire.string().filter(|pair| name == PLAIN && pair.len() == 64)?;
        pair.split_at_checked(32).and_then(|(seed, _)| <[u8; 32]>::try_from(seed).ok())
    };
    let mut seed = seed;
    let seed = Zeroizing::new(seed().ok_or("it is damaged")?);
    let key = SecretKey::from_seed(&seed);
    if SshKey::Plain(key.public()) == *public { Ok(key) } else { Err("it is damaged".into()) }
}
