//! Digests, salted commitments and the call digest: every hash that the product makes of its own
//! values.

use serde::{Deserialize, Deserializer, Serializer};
use sha2::{Digest as _, Sha256};

use super::canonical;
use super::closed::{self, write_hex};
use super::id::{CallId, RunId, ToolName};

/// A SHA-256 value (32 bytes). Shown as 64 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest these 32 bytes are.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Hashes the pieces in order.
    pub fn of(pieces: &[&[u8]]) -> Self {
        let mut hasher = Sha256::new();
        for piece in pieces {
            hasher.update(piece);
        }
        Self(hasher.finalize().into())
    }

    /// Hashes everything that can be read, without holding it.
    ///
    /// # Errors
    /// It cannot be read to its end.
    pub fn of_reader(mut from: impl std::io::Read) -> std::io::Result<Self> {
        let (mut hasher, mut piece) = (Sha256::new(), vec![0_u8; 64 << 10]);
        loop {
            match from.read(&mut piece) {
                Ok(0) => return Ok(Self(hasher.finalize().into())),
                Ok(n) => hasher.update(piece.get(..n).unwrap_or_default()),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Reads 64 lowercase hex digits, with or without the `sha256:` prefix.
    pub fn parse(text: &str) -> Option<Self> {
        let hex_text = text.strip_prefix("sha256:").unwrap_or(text);
        if hex_text.len() != 64 || hex_text.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        let mut bytes = [0_u8; 32];
        hex::decode_to_slice(hex_text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lowercase hex digits.
    pub fn hex(&self) -> String {
        self.to_string()
    }

    /// `sha256:` and 64 lowercase hex digits.
    pub fn prefixed(&self) -> String {
        format!("sha256:{}", self.hex())
    }

    /// Writes it as [`Self::prefixed`], for members that have it so (`serialize_with`).
    pub fn serialize_prefixed<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.prefixed())
    }
}

/// Accepts both spellings; `HexDigest` and `TaggedDigest` accept exactly one.
impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        closed::read(from, "64 lowercase hex digits", Self::parse)
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_hex(&self.0, f)
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_hex(&self.0, f)
    }
}

/// 32 random bytes that protect a commitment from guessing.
pub type Salt = [u8; 32];

/// Commits to a payload as one piece (`commit/1`): `SHA-256("wicketgate/commit/1\0" || salt || u64be(len) || payload)`.
///
/// The entry holds only this and never an unsalted hash, so that after payload and salt are erased
/// nothing can be guessed (ledger.md §0.3).
pub fn commitment(salt: &Salt, payload: &[u8]) -> Digest {
    let length = u64::try_from(payload.len()).unwrap_or(u64::MAX).to_be_bytes();
    Digest::of(&[b"wicketgate/commit/1\0", salt, &length, payload])
}

/// Identifies one call for approvals and proofs, by its commitment and not by its arguments.
pub fn call_digest(run: &RunId, call: &CallId, tool: &ToolName, args: &Digest) -> Digest {
    let mut body = canonical::Members::with_capacity(384);
    body.text("args_commitment", &args.hex());
    body.text("call", call.as_str());
    body.text("run", &run.to_string());
    body.text("tool", tool.as_str());
    Digest::of(&[b"wicketgate/call/1\0", &body.finish()])
}
