//! The statement that an approver signs about one held call, and the check of its signature.
//!
//! The statement names the call by its digest, and everything that must still hold when it runs. It
//! is signed with the approver's own SSH key in the namespace [`NAMESPACE`], so that stock tools
//! check it. This module reads no clock and no store. [`approvers`] is the list of people who may
//! sign, [`check()`] decides whether one signature counts for one hold, [`amendment`] does the same
//! for a new policy, [`break_glass`] replaces approvers for a short time, [`order`] reinstates what
//! operators stopped, [`proposal`] submits a call again with other arguments, `sign` makes a
//! signature with a key file or an ssh-agent. Passkeys sign in a browser: see [`PasskeyTerms`].

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::record::List;
use crate::record::approval::KeyKind;
use approvers::Purpose;

pub mod amendment;
pub mod approvers;
pub mod break_glass;
mod check;
mod list;
pub mod order;
mod passkey;
pub mod proposal;
mod refusal;
pub mod sign;
mod signed;
mod statement;

pub use approvers::Approvers;
pub use check::{Hold, ROLE, VerifiedStatement, check, people};
pub use passkey::{PasskeyScope, PasskeyTerms};
pub use refusal::{ApprovalRefusal, RefusalReason};
pub use signed::SignedApproval;
pub use statement::{MalformedStatement, Statement};

/// The SSHSIG namespace of approvals; a signature in another one does not count.
pub const NAMESPACE: &str = "wicketgate-approval";

/// Bytes of arguments that a person is shown at once. Longer ones are shown in parts, each whole or not
/// at all, so that nothing can be hidden at the end; all of them are a file to read.
pub const REVIEW_MAX: usize = 64 * 1024;

/// Bytes of arguments that can wait for an approval at all, and of what a policy sees of them: no more
/// is stored, so no approver could see it.
pub const HELD_MAX: usize = 1024 * 1024;

/// Layers of a policy bundle.
const LAYERS_MAX: usize = 256;

/// An approver's verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
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
        [Self::Approve, Self::Refuse].into_iter().find(|verdict| verdict.as_str() == text)
    }
}

/// The signed statement: the canonical form (RFC 8785) of exactly these members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalStatement {
    /// Run, call id, tool and arguments: `call_digest` of the entry `call.held`.
    #[serde(serialize_with = "hex")]
    pub call_digest: Digest,
    /// The tool's definition when the call was held; absent for an unknown tool.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "some_tagged")]
    pub definition: Option<Digest>,
    /// Name and digest of each layer of the policy bundle that held it.
    #[serde(deserialize_with = "layers", serialize_with = "from_layers")]
    pub layers: Vec<(String, Digest)>,
    /// The manifest of the run.
    #[serde(serialize_with = "Digest::serialize_prefixed")]
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

impl Statement for ApprovalStatement {
    const PURPOSE: Purpose = Purpose::Approval;
    /// One with 256 layers has fewer.
    const BYTES_MAX: usize = 48 * 1024;

    fn of(members: Json) -> Result<Self, MalformedStatement> {
        Ok(members.read()?)
    }

    fn members(&self) -> Json {
        Json::of(self)
    }

    fn bounded(&self) -> Result<(), MalformedStatement> {
        statement::check_nonce(&self.nonce)
    }
}

/// One layer of a policy bundle.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    layer: String,
    #[serde(serialize_with = "Digest::serialize_prefixed")]
    digest: Digest,
}

fn layers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<(String, Digest)>, D::Error> {
    let list = List::<Layer, LAYERS_MAX>::deserialize(from)?;
    Ok(list.iter().map(|one| (one.layer.clone(), one.digest)).collect())
}

fn from_layers<S: Serializer>(layers: &[(String, Digest)], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(
        layers.iter().map(|(layer, digest)| Layer { layer: layer.clone(), digest: *digest }),
    )
}

fn hex<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(digest)
}

fn some_tagged<S: Serializer>(digest: &Option<Digest>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&digest.map(|digest| digest.prefixed()).unwrap_or_default())
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
    /// The kind of that key; `None` in what gates recorded that knew no passkeys.
    pub key_kind: Option<KeyKind>,
    /// Where a passkey signed what that console showed. The policy does not see it.
    #[serde(skip)]
    pub origin: Option<String>,
}

impl Approval {
    /// Whether this is its subject. Letters may be written otherwise in a manifest or by an identity
    /// provider.
    #[must_use]
    pub fn is(&self, subject: &str) -> bool {
        self.subject.eq_ignore_ascii_case(subject)
    }

    /// Whether an entry records this approval. Gates that knew no passkeys recorded no kind of key.
    #[must_use]
    pub fn is_recorded_as(&self, recorded: &Self) -> bool {
        let older = recorded.key_kind.is_none() && !self.is_by_passkey();
        let key_kind = self.key_kind.filter(|_| !older);
        Self { key_kind, ..self.clone() } == *recorded
    }
}

/// Whether a text is a nonce: 32 hex digits.
#[must_use]
pub fn is_nonce(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}
