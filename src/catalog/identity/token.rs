//! Makes tokens, and looks run tokens up: the agent keeps 256 random bits, and the gate only a
//! keyed hash of them.

use std::fmt;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::error::Error;
use crate::clock::{Entropy, random16, random32};
use crate::domain::call::ToolCall;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::token::{self, Family};

/// A fresh token, and the bits in it.
pub fn mint(family: Family, entropy: &dyn Entropy) -> (String, zeroize::Zeroizing<[u8; 32]>) {
    let bits = zeroize::Zeroizing::new(random32(entropy));
    (token::write(family, &bits), bits)
}

/// Makes run tokens and the keyed hashes for their lookup.
pub struct RunTokens {
    key: zeroize::Zeroizing<[u8; 32]>,
}

impl fmt::Debug for RunTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunTokens")
    }
}

impl RunTokens {
    /// Tokens hashed under this key.
    pub fn new(key: [u8; 32]) -> Self {
        Self { key: zeroize::Zeroizing::new(key) }
    }

    /// Tokens hashed under the key in `run-token.key` of the state directory. The first start makes
    /// the file (32 bytes, mode 0600); without it the tokens of open runs become invalid.
    ///
    /// # Errors
    /// The file cannot be read or made, other users may read it, or it is not 32 bytes.
    pub fn open(state: &Path, entropy: &dyn Entropy) -> Result<Self, Error> {
        let path = state.join("run-token.key");
        if !path.exists() {
            make(state, &path, entropy)?;
        }
        let refuse = |why: String| Error::TokenKey { path: path.display().to_string(), why };
        let mut file = std::fs::File::open(&path).map_err(|e| refuse(e.to_string()))?;
        let facts = file.metadata().map_err(|e| refuse(e.to_string()))?;
        if facts.mode() & 0o077 != 0 {
            return Err(refuse("only its owner may read it (chmod 600)".into()));
        }
        let mut key = zeroize::Zeroizing::new([0_u8; 32]);
        if facts.len() != 32 || file.read_exact(key.as_mut_slice()).is_err() {
            return Err(refuse("expected exactly 32 bytes".into()));
        }
        Ok(Self { key })
    }

    /// A fresh token and the hash to keep of it.
    pub fn issue(&self, entropy: &dyn Entropy) -> (String, Digest) {
        let (token, secret) = mint(Family::Run, entropy);
        let hash = self.keyed(b"wicketgate/run-token/1\0", secret.as_slice());
        (token, hash)
    }

    /// The hash for the lookup of this token; `None` if it is not a run token.
    pub fn hash(&self, token: &str) -> Option<Digest> {
        let (family, secret) = token::parse(token)?;
        (family == Family::Run).then(|| self.keyed(b"wicketgate/run-token/1\0", secret.as_slice()))
    }

    /// 16 hex digits that distinguish credentials in entries, and reveal nothing about them.
    pub fn thumbprint(&self, credential: &str) -> String {
        let hash = self.keyed(b"wicketgate/credential/1\0", credential.as_bytes());
        hash.hex().chars().take(16).collect()
    }

    /// The hash a thread of work is found by, of everything that distinguishes it from others: the
    /// same in every life of this sidecar, and never a valid token.
    pub fn thread(&self, parts: &[&[u8]]) -> Digest {
        self.keyed(b"wicketgate/thread/1\0", &framed(parts))
    }

    /// The fingerprint of a call: the same for the same run, id, tool and canonical arguments, in
    /// every life of this sidecar. Without the key it does not help to guess arguments.
    pub fn mark(&self, run: &RunId, call: &CallId, tool: &ToolName, args: &[u8]) -> Digest {
        let run = run.to_string();
        let parts = [run.as_bytes(), call.as_str().as_bytes(), tool.as_str().as_bytes(), args];
        self.keyed(b"wicketgate/call-mark/1\0", &framed(&parts))
    }

    /// The mark of this call.
    pub fn mark_of(&self, call: &ToolCall) -> Digest {
        self.mark(call.run(), call.id(), call.tool(), call.canonical())
    }

    fn keyed(&self, purpose: &[u8], secret: &[u8]) -> Digest {
        // A short HMAC key is padded with zeros to one block (RFC 2104); done here, it cannot fail.
        let mut block = zeroize::Zeroizing::new([0_u8; 64]);
        for (to, from) in block.iter_mut().zip(self.key.iter()) {
            *to = *from;
        }
        let mut mac = Hmac::<Sha256>::new((&*block).into());
        mac.update(purpose);
        mac.update(secret);
        Digest::from_bytes(mac.finalize().into_bytes().into())
    }
}

/// The parts with their lengths: no two lists of parts make the same bytes.
fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let mut framed = Vec::new();
    for part in parts {
        framed.extend(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        framed.extend_from_slice(part);
    }
    framed
}

/// Writes the key aside and links it in: of two processes starting at once, one key stays.
fn make(state: &Path, path: &Path, entropy: &dyn Entropy) -> Result<(), Error> {
    let refuse = |e: std::io::Error| Error::TokenKey {
        path: path.display().to_string(),
        why: e.to_string(),
    };
    let aside = state.join(format!(".run-token.{}", hex::encode(random16(entropy))));
    let key = zeroize::Zeroizing::new(random32(entropy));
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&aside)
        .and_then(|mut file| file.write_all(key.as_slice()).and_then(|()| file.sync_all()))
        .map_err(refuse)?;
    let linked = std::fs::hard_link(&aside, path);
    std::fs::remove_file(&aside).map_err(refuse)?;
    match linked {
        Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => Err(refuse(e)),
        Ok(()) | Err(_) => {
            std::fs::File::open(state).and_then(|dir| dir.sync_all()).map_err(refuse)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SystemEntropy;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_token_is_found_by_its_hash_and_only_under_its_key() {
        let tokens = RunTokens::new([7; 32]);
        let (token, hash) = tokens.issue(&SystemEntropy);
        assert_eq!(token::parse(&token).unwrap().0, Family::Run);
        assert_eq!(tokens.hash(&token), Some(hash));
        assert_ne!(RunTokens::new([8; 32]).hash(&token), Some(hash));
        assert_ne!(tokens.issue(&SystemEntropy).1, hash);
    }

    #[test]
    fn what_is_no_run_token_has_no_hash() {
        let tokens = RunTokens::new([7; 32]);
        let (token, _) = tokens.issue(&SystemEntropy);
        for other in [
            "",
            "wgr_",
            "wgr_AAAA",
            token.trim_start_matches("wgr_"),
            &mint(Family::Agent, &SystemEntropy).0,
            &mint(Family::Operator, &SystemEntropy).0,
            &format!("{token}A"),
            &format!(" {token}"),
        ] {
            assert_eq!(tokens.hash(other), None, "{other}");
        }
    }

    #[test]
    fn the_key_is_made_once_kept_and_refused_when_others_may_read_it() {
        let dir = tempfile::tempdir().unwrap();
        let (token, hash) =
            RunTokens::open(dir.path(), &SystemEntropy).unwrap().issue(&SystemEntropy);
        assert_eq!(RunTokens::open(dir.path(), &SystemEntropy).unwrap().hash(&token), Some(hash));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        let file = dir.path().join("run-token.key");
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        assert!(RunTokens::open(dir.path(), &SystemEntropy).is_err());
    }

    #[test]
    fn threads_are_distinguished_by_every_part_and_by_the_key() {
        let tokens = RunTokens::new([7; 32]);
        let hash = tokens.thread(&[b"ab", b"c"]);
        assert_eq!(tokens.thread(&[b"ab", b"c"]), hash);
        for other in [&[b"a".as_slice(), b"bc"], &[b"abc".as_slice(), b""]] {
            assert_ne!(tokens.thread(other), hash);
        }
        assert_ne!(RunTokens::new([8; 32]).thread(&[b"ab", b"c"]), hash);
    }

    #[test]
    fn a_thumbprint_names_a_credential_without_showing_it() {
        let tokens = RunTokens::new([7; 32]);
        assert_eq!(tokens.thumbprint("a").len(), 16);
        assert_ne!(tokens.thumbprint("a"), tokens.thumbprint("b"));
    }
}
