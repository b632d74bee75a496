//! Encryption at rest: payloads and their salts are sealed before they leave the writer's handle.
//!
//! `XChaCha20-Poly1305` under a key from a file. The sealed bytes are bound to the chain, the
//! commitment and the role, so a row moved elsewhere does not open. Commitment, role and length
//! stay in the clear. A sealed row carries the id of its key: a new key seals from now on, older
//! ones are kept for reading.

use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chacha20poly1305::aead::{Aead as _, KeyInit as _, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use zeroize::Zeroizing;

use super::store::PayloadRow;
use crate::clock::{Entropy, random32};
use crate::crypto::keys::keep_secret;
use crate::crypto::private;
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;

/// Media type of a sealed row.
pub const SEALED: &str = "application/vnd.wicketgate.sealed.v1";
/// Bytes of a key's id.
const ID: usize = 8;
/// Bytes of a nonce.
const NONCE: usize = 24;
/// Bytes of a salt.
const SALT: usize = 32;

/// Why a payload is unreadable, or a key unusable.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// It is sealed, and the key of this id is unknown.
    #[error("the payload is encrypted with key {0}, which is not configured")]
    NoKey(String),
    /// It does not open: changed, moved from elsewhere, or sealed with another key of the same id.
    #[error("the encrypted payload {0} was changed")]
    Changed(Digest),
    /// The key file cannot be used.
    #[error("encryption key `{path}`: {why}")]
    Key {
        /// The file.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

struct VaultKey {
    id: [u8; ID],
    bytes: Zeroizing<[u8; 32]>,
}

/// The keys for payloads: the first seals, all of them open.
pub struct Vault {
    first: VaultKey,
    others: Vec<VaultKey>,
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Vault({})", hex::encode(self.first.id))
    }
}

impl Vault {
    /// Loads the sealing key, and older ones that only open.
    ///
    /// # Errors
    /// A file cannot be read, other users may read it, or it holds no key.
    pub fn load(first: &Path, others: &[PathBuf]) -> Result<Self, Error> {
        let others = others.iter().map(|path| VaultKey::load(path)).collect::<Result<_, _>>()?;
        Ok(Self { first: VaultKey::load(first)?, others })
    }

    /// Id of the key that seals, 16 hex digits.
    pub fn key_id(&self) -> String {
        hex::encode(self.first.id)
    }

    /// The stored form of the row: salt, media type and bytes sealed.
    #[must_use]
    pub fn seal(&self, entropy: &dyn Entropy, chain: &ChainId, row: &PayloadRow) -> PayloadRow {
        let mut nonce = [0_u8; NONCE];
        entropy.fill(&mut nonce);
        let media = row.media_type.as_bytes();
        let mut plain = Zeroizing::new(Vec::with_capacity(row.body.len().saturating_add(64)));
        plain.extend_from_slice(&row.salt);
        plain.push(u8::try_from(media.len()).unwrap_or(u8::MAX));
        plain.extend(media.iter().take(usize::from(u8::MAX)));
        plain.extend_from_slice(&row.body);
        let bound = bound(chain, &row.commitment, &row.role);
        let sealed =
            self.first.cipher().encrypt(&XNonce::from(nonce), Payload { msg: &plain, aad: &bound });
        let mut body = self.first.id.to_vec();
        body.extend_from_slice(&nonce);
        // WHY: encryption fails only above 256 GiB, and then nothing is stored instead of plain
        // text.
        body.extend_from_slice(&sealed.unwrap_or_default());
        PayloadRow {
            commitment: row.commitment,
            salt: [0; SALT],
            role: row.role.clone(),
            media_type: SEALED.to_owned(),
            body,
        }
    }

    fn key(&self, id: &[u8]) -> Option<&VaultKey> {
        std::iter::once(&self.first).chain(&self.others).find(|key| key.id.as_slice() == id)
    }
}

impl VaultKey {
    /// 32 bytes in base64 or hex, in a file that only its owner may read.
    fn load(path: &Path) -> Result<Self, Error> {
        let invalid = |why: private::Unused| Error::Key {
            path: path.display().to_string(),
            why: why.to_string(),
        };
        let key = private::key(path).map_err(|error| invalid(error.why))?;
        Ok(Self::of(*key))
    }

    fn of(bytes: [u8; 32]) -> Self {
        let digest = Digest::of(&[b"wicketgate/vault-key/1\0", &bytes]);
        let mut id = [0_u8; ID];
        for (to, from) in id.iter_mut().zip(digest.as_bytes()) {
            *to = *from;
        }
        Self { id, bytes: Zeroizing::new(bytes) }
    }

    fn cipher(&self) -> XChaCha20Poly1305 {
        XChaCha20Poly1305::new((&*self.bytes).into())
    }
}

/// Makes a key and keeps it in a new file of mode 0600; returns its id.
///
/// # Errors
/// The file exists, or cannot be written.
pub fn keygen(entropy: &dyn Entropy, path: &Path) -> Result<String, Error> {
    let bytes = Zeroizing::new(random32(entropy));
    let text = Zeroizing::new(format!("{}\n", STANDARD.encode(*bytes)));
    keep_secret(path, text.as_bytes())
        .map_err(|e| Error::Key { path: path.display().to_string(), why: e.to_string() })?;
    Ok(hex::encode(VaultKey::of(*bytes).id))
}

/// What a sealed row is bound to.
fn bound(chain: &ChainId, commitment: &Digest, role: &str) -> Vec<u8> {
    let mut bytes = b"wicketgate/sealed/1\0".to_vec();
    bytes.extend_from_slice(chain.as_bytes());
    bytes.extend_from_slice(commitment.as_bytes());
    bytes.extend_from_slice(role.as_bytes());
    bytes
}

/// The opened row. Rows that are not sealed pass unchanged.
///
/// # Errors
/// [`Error::NoKey`], [`Error::Changed`]. Never returns tampered bytes.
pub fn open(vault: Option<&Vault>, chain: &ChainId, row: PayloadRow) -> Result<PayloadRow, Error> {
    if row.media_type != SEALED {
        return Ok(row);
    }
    let changed = || Error::Changed(row.commitment);
    let (id, rest) = row.body.split_at_checked(ID).ok_or_else(changed)?;
    let key = vault.and_then(|vault| vault.key(id)).ok_or_else(|| Error::NoKey(hex::encode(id)))?;
    let (nonce, sealed) = rest.split_at_checked(NONCE).ok_or_else(changed)?;
    let nonce = <[u8; NONCE]>::try_from(nonce).map_err(|_| changed())?;
    let aad = bound(chain, &row.commitment, &row.role);
    let plain = key.cipher().decrypt(&XNonce::from(nonce), Payload { msg: sealed, aad: &aad });
    let plain = Zeroizing::new(plain.map_err(|_| changed())?);
    let (salt, rest) = plain.split_at_checked(SALT).ok_or_else(changed)?;
    let (length, rest) = rest.split_first().ok_or_else(changed)?;
    let (media, body) = rest.split_at_checked(usize::from(*length)).ok_or_else(changed)?;
    Ok(PayloadRow {
        commitment: row.commitment,
        salt: <[u8; SALT]>::try_from(salt).map_err(|_| changed())?,
        role: row.role.clone(),
        media_type: String::from_utf8(media.to_vec()).map_err(|_| changed())?,
        body: body.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemEntropy;
    use crate::domain::commitment::commit;

    fn vault(bytes: u8) -> Vault {
        Vault { first: VaultKey::of([bytes; 32]), others: Vec::new() }
    }

    fn row() -> PayloadRow {
        let body = br#"{"iban":"DE02120300000000202051"}"#.to_vec();
        PayloadRow {
            commitment: commit(&[9; 32], &body),
            salt: [9; 32],
            role: "args".to_owned(),
            media_type: "application/json".to_owned(),
            body,
        }
    }

    const CHAIN: ChainId = ChainId::from_bytes([1; 16]);

    #[test]
    fn what_is_sealed_opens_with_its_key_and_in_its_place_only() {
        let (vault_a, vault_b) = (vault(1), vault(2));
        let sealed = vault_a.seal(&SystemEntropy, &CHAIN, &row());
        assert_eq!(open(Some(&vault_a), &CHAIN, sealed.clone()), Ok(row()));
        let window = |needle: &[u8]| sealed.body.windows(needle.len()).any(|w| w == needle);
        assert!(!window(b"iban") && !window(&[9; 32]) && sealed.salt == [0; 32]);
        let no_key = Err(Error::NoKey(vault_a.key_id()));
        assert_eq!(open(None, &CHAIN, sealed.clone()), no_key);
        assert_eq!(open(Some(&vault_b), &CHAIN, sealed.clone()), no_key);
        let rotated = Vault { first: VaultKey::of([2; 32]), others: vec![VaultKey::of([1; 32])] };
        assert_eq!(open(Some(&rotated), &CHAIN, sealed.clone()), Ok(row()));
        let changed = Err(Error::Changed(sealed.commitment));
        let other = ChainId::from_bytes([2; 16]);
        assert_eq!(open(Some(&vault_a), &other, sealed.clone()), changed);
        let moved = PayloadRow { role: "result".to_owned(), ..sealed.clone() };
        assert_eq!(open(Some(&vault_a), &CHAIN, moved), changed);
        for at in ID..sealed.body.len() {
            let mut broken = sealed.clone();
            broken.body[at] ^= 1;
            assert_eq!(open(Some(&vault_a), &CHAIN, broken), changed, "byte {at}");
        }
        assert_eq!(open(None, &CHAIN, row()), Ok(row()));
    }

    #[test]
    fn a_key_file_holds_32_bytes_and_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("payload.key");
        let id = keygen(&SystemEntropy, &path).unwrap();
        assert_eq!(Vault::load(&path, &[]).unwrap().key_id(), id);
        assert!(keygen(&SystemEntropy, &path).is_err());
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        assert!(Vault::load(&path, &[]).unwrap_err().to_string().contains("mode 640"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        std::fs::write(&path, "ab".repeat(32)).unwrap();
        Vault::load(&path, &[]).unwrap();
        std::fs::write(&path, "too short").unwrap();
        assert!(Vault::load(&path, &[]).unwrap_err().to_string().contains("32 bytes"));
    }
}
