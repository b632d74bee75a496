//! What an approver signs about one held call, and what a signature is worth.
//!
//! The statement names the call by its digest, and everything that must still be so when it runs. It is
//! signed with the approver's own SSH key in the namespace [`NAMESPACE`], so that stock tools check it.
//! Nothing here reads a clock or a store.

use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// The SSHSIG namespace of approvals; a signature made for anything else is none.
pub const NAMESPACE: &str = "wicketgate-approval";

/// What an approver says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// It may run.
    Approve,
    /// It may not.
    Refuse,
}

impl Word {
    /// `approve` or `refuse`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Refuse => "refuse",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Approve, Self::Refuse].into_iter().find(|word| word.as_str() == text)
    }
}

/// What is signed: the canonical form (RFC 8785) of exactly these members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// Run, call id, tool and arguments: `call_digest` of the entry `call.held`.
    pub call_digest: Digest,
    /// What the tool was when the call was held; absent if it is none that is known.
    pub definition: Option<Digest>,
    /// Name and digest of each layer of the policy bundle that held it.
    pub layers: Vec<(String, Digest)>,
    /// The manifest of the run.
    pub manifest: Digest,
    /// The run.
    pub run: RunId,
    /// When the hold, and with it this statement, ends.
    pub expires: Timestamp,
    /// 16 random bytes in hex, drawn when the call was held: a statement is good for that hold only.
    pub nonce: String,
    /// What the approver says.
    pub verdict: Word,
}

impl Statement {
    /// The bytes that are signed.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
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
        canonical::bytes(&Json::object(members))
    }
}

/// One approver's word about one hold, its signature checked: what the policy is told of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Approval {
    /// Who: the subject that the list of approvers gives the key. Quorums count these.
    pub subject: String,
    /// What the subject may approve as, sorted.
    pub roles: Vec<String>,
    /// The key's fingerprint as `ssh-keygen -l` shows it: `SHA256:…`.
    pub key: String,
}
