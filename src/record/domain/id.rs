//! Identifiers: each has its own type and is valid by construction.

use std::fmt;

use uuid::Uuid;

use super::closed::{name, textual, write_hex};

/// One execution of an agent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RunId(Uuid);

impl RunId {
    /// A run id of these random bytes (UUID version 4).
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
    }

    /// Reads the hyphenated lowercase form.
    pub fn parse(text: &str) -> Option<Self> {
        let id = Uuid::try_parse(text).ok()?;
        let mut written = Uuid::encode_buffer();
        (id.hyphenated().encode_lower(&mut written) == text).then_some(Self(id))
    }

    /// The same id for libraries that speak UUID.
    pub const fn uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.hyphenated())
    }
}

/// One chain of entries: 128 random bits fixed in its genesis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChainId([u8; 16]);

impl ChainId {
    /// The id these 16 bytes are.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads 32 lowercase hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != 32 || text.bytes().any(|b| b.is_ascii_uppercase()) {
            return None;
        }
        let mut bytes = [0_u8; 16];
        hex::decode_to_slice(text, &mut bytes).ok()?;
        Some(Self(bytes))
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

impl fmt::Debug for ChainId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_hex(&self.0, f)
    }
}

name! {
    /// The id of one call, from the agent or the gate: `[A-Za-z0-9_.-]{1,64}`, unique in its run.
    pub struct CallId("1 to 64 of [A-Za-z0-9_.-]", 64, "^[A-Za-z0-9_.-]{1,64}$")
}

name! {
    /// The name of a tool: `[A-Za-z0-9_.-]{1,128}`, matched exactly.
    pub struct ToolName("1 to 128 of [A-Za-z0-9_.-]", 128, "^[A-Za-z0-9_.-]{1,128}$")
}

textual!(
    RunId,
    "a hyphenated lowercase UUID",
    "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
);
textual!(ChainId, "32 lowercase hex digits", "^[0-9a-f]{32}$");

/// The place of an entry in its chain, from 0; also its leaf index in the Merkle tree.
pub type Seq = u64;

/// The fencing token of a writer, from 1; each take-over adds one.
pub type Epoch = u64;
