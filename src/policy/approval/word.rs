//! The payload of the entries `approval.granted` and `approval.refused`: statement and signature as texts.

use serde::{Deserialize, Serialize};

use crate::domain::canonical;
use crate::domain::json::{Json, Limits};

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
        canonical::bytes(&Json::of(self))
    }

    /// Reads the payload back; `None` if it is not the canonical form of exactly the two.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let signed: Self = Json::parse(bytes, &Limits::FILE).ok()?.read().ok()?;
        (signed.bytes() == bytes).then_some(signed)
    }
}
