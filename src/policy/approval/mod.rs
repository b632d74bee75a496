//! The statement that an approver signs about one held call, and the check of its signature.
//!
//! The statement names the call by its digest, and everything that must still hold when it runs. It
//! is signed with the approver's own SSH key in the namespace [`NAMESPACE`], so that stock tools
//! check it. This module reads no clock and no store. [`approvers`] is the list of people who may
//! sign, [`check()`] decides whether one signature counts for one hold, [`amendment`] does the same
//! for a new policy, [`break_glass`] replaces approvers for a short time, [`order`] reinstates what
//! operators stopped, [`proposal`] submits a call again with other arguments, `sign` makes a
//! signature with a key file or an ssh-agent.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;
use crate::record::List;

pub mod amendment;
pub mod approvers;
pub mod break_glass;
mod check;
mod form;
mod list;
pub mod order;
pub mod proposal;
pub mod sign;
mod word;

pub use approvers::Approvers;
pub use check::{ApprovalRefusal, Hold, ROLE, check};
pub use form::MalformedStatement;
pub use word::SignedApproval;

/// The SSHSIG namespace of approvals; a signature in another one does not count.
pub const NAMESPACE: &str = "wicketgate-approval";

/// Bytes of a statement: one with 256 layers has fewer.
const BYTES_MAX: usize = 48 * 1024;
/// Layers of a policy bundle.
const LAYERS_MAX: usize = 256;

/// An approver's verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApproverVerdict {
    /// It may run.
    Approve,
    /// It may not.
    Refuse,
}

impl ApproverVerdict {
    /// `approve` or `refuse`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Refuse => "refuse",
        }
    }

    /// Reads the verdict's name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Approve, Self::Refuse].into_iter().find(|word| word.as_str() == text)
    }
}

/// The signed statement: the canonical form (RFC 8785) of exactly these members.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalStatement {
    /// Run, call id, tool and arguments: `call_digest` of the entry `call.held`.
    pub call_digest: Digest,
    /// The tool's definition when the call was held; absent for an unknown tool.
    pub definition: Option<Digest>,
    /// Name and digest of each layer of the policy bundle that held it.
    #[serde(deserialize_with = "layers")]
    pub layers: Vec<(String, Digest)>,
    /// The manifest of the run.
    pub manifest: Digest,
    /// The run.
    pub run: RunId,
    /// When the hold, and with it this statement, ends.
    pub expires: Timestamp,
    /// 16 random bytes in hex, drawn when the call was held: a statement counts for that hold only.
    pub nonce: String,
    /// The approver's verdict.
    pub verdict: ApproverVerdict,
}

impl ApprovalStatement {
    /// Reads the bytes that were signed: canonical form, exactly the members of a statement, each in its
    /// one spelling.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Self, MalformedStatement> {
        if bytes.len() > BYTES_MAX {
            return Err(MalformedStatement::Long(BYTES_MAX));
        }
        let statement: Self = Json::parse(bytes, &Limits::FILE)?.read()?;
        if !is_nonce(&statement.nonce) {
            return Err(MalformedStatement::Member("nonce"));
        }
        // Whatever else could be written otherwise, and white space, is caught here.
        if statement.bytes() == bytes { Ok(statement) } else { Err(MalformedStatement::Canonical) }
    }

    /// The bytes that are signed.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        canonical::bytes(&Json::Object(self.members()))
    }

    /// The members of the statement.
    fn members(&self) -> BTreeMap<String, Json> {
        let layer = |(layer, digest): &(String, Digest)| {
            Json::object([
                ("layer", Json::from(layer.as_str())),
                ("digest", Json::from(digest.prefixed())),
            ])
        };
        let mut members = vec![
            ("call_digest", Json::from(self.call_digest.hex())),
            ("layers", self.layers.iter().map(layer).collect::<Vec<_>>().into()),
            ("manifest", Json::from(self.manifest.prefixed())),
            ("run", Json::from(self.run.to_string())),
            ("expires", Json::from(self.expires.to_string())),
            ("nonce", Json::from(self.nonce.as_str())),
            ("verdict", Json::from(self.verdict.as_str())),
        ];
        members.extend(self.definition.map(|d| ("definition", Json::from(d.prefixed()))));
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

fn layers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, Digest)>, D::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Layer {
        layer: String,
        digest: Digest,
    }
    let list = List::<Layer, LAYERS_MAX>::deserialize(from)?;
    Ok(list.iter().map(|one| (one.layer.clone(), one.digest)).collect())
}

/// One approver's decision about one hold, its signature checked, as the policy sees it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
pub struct Approval {
    /// The subject that the list of approvers gives the key. Quorums count subjects.
    #[serde(rename = "approver")]
    pub subject: String,
    /// What the subject may approve as, sorted.
    pub roles: Vec<String>,
    /// The key's fingerprint as `ssh-keygen -l` shows it: `SHA256:…`.
    pub key: String,
}

/// Whether a text is a nonce: 32 hex digits.
#[must_use]
pub fn is_nonce(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
