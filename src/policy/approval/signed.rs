//! Statements with their signatures, as they travel and as entries commit to them.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::Statement as _;
use super::break_glass::BreakGlassStatement;
use crate::domain::canonical;
use crate::domain::json::{Json, Limits};
use crate::record::List;

/// Signatures under one statement.
pub const SIGNATURES_MAX: usize = 16;

/// The payload of a signed statement: the canonical JSON of exactly its members.
fn payload(signed: &impl Serialize) -> Vec<u8> {
    canonical::bytes(&Json::of(signed))
}

fn of_payload<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let signed: T = Json::parse(bytes, &Limits::FILE).ok()?.read().ok()?;
    (payload(&signed) == bytes).then_some(signed)
}

/// A statement and the signature over it, as an entry commits to them under the role `approval`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedApproval {
    /// The statement's bytes, which are UTF-8.
    pub statement: String,
    /// The SSHSIG, armored as stock tools write it.
    pub signature: String,
}

impl SignedApproval {
    /// The payload: canonical JSON of exactly these two.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        payload(self)
    }

    /// Reads the payload back; `None` if it is not the canonical form of exactly the two.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        of_payload(bytes)
    }
}

/// A statement and the signatures over it, as they travel. The entry of a call that ran under it
/// commits to them under the role `approval`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SignedBreakGlass {
    /// The statement's bytes, which are UTF-8.
    pub statement: String,
    /// SSHSIGs, armored as stock tools write them; at most [`SIGNATURES_MAX`] are read.
    #[serde(deserialize_with = "few")]
    pub signatures: Vec<String>,
}

impl SignedBreakGlass {
    /// The payload: canonical JSON.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        payload(self)
    }

    /// The statement; `None` if the bytes are none.
    #[must_use]
    pub fn statement(&self) -> Option<BreakGlassStatement> {
        BreakGlassStatement::parse(self.statement.as_bytes()).ok()
    }

    /// Reads the payload back; `None` if it is not in canonical form.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        of_payload(bytes)
    }
}

fn few<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    List::<String, SIGNATURES_MAX>::deserialize(from).map(|list| list.to_vec())
}
