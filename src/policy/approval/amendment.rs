//! The statement that a publisher signs about an amendment of the policy, and the check of its
//! signature.
//!
//! The statement names the new bundle, the bundle it is to replace, and who proposed it. The
//! publisher signs it with their own SSH key in the namespace [`NAMESPACE`], so a signature made
//! for a call does not count here.

use serde::{Deserialize, Serialize};

use super::approvers::Purpose;
use super::check::Ballot;
use super::statement::{check_name, check_nonce};
use super::{
    ApprovalRefusal, ApproverVerdict, Approvers, MalformedStatement, RefusalReason, Statement,
    VerifiedStatement,
};
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// The SSHSIG namespace of approvals and refusals of amendments.
pub const NAMESPACE: &str = "wicketgate-amendment";
/// The role that a signer needs for an approval or refusal of an amendment to count.
pub const ROLE: &str = "policy_publisher";

/// Bytes of an author's name.
const AUTHOR_MAX: usize = 128;

/// The signed statement: the canonical form (RFC 8785) of exactly these members.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AmendmentStatement {
    /// The bundle that is to be put in force.
    #[serde(serialize_with = "Digest::serialize_prefixed")]
    pub bundle: Digest,
    /// The bundle that must be in force then; otherwise the signature is void.
    #[serde(serialize_with = "Digest::serialize_prefixed")]
    pub base: Digest,
    /// Who proposed it.
    pub author: String,
    /// When the proposal, and with it this statement, ends.
    pub expires: Timestamp,
    /// 16 random bytes in hex, drawn with the proposal: a statement is good for that proposal only.
    pub nonce: String,
    /// The publisher's verdict.
    pub verdict: ApproverVerdict,
}

impl Statement for AmendmentStatement {
    const PURPOSE: Purpose = Purpose::Amendment;
    /// Two digests, a name and a nonce are far fewer.
    const BYTES_MAX: usize = 2048;

    fn of(members: Json) -> Result<Self, MalformedStatement> {
        Ok(members.read()?)
    }

    fn members(&self) -> Json {
        Json::of(self)
    }

    fn bounded(&self) -> Result<(), MalformedStatement> {
        check_name("author", &self.author, AUTHOR_MAX)?;
        check_nonce(&self.nonce)
    }
}

/// A proposal that waits for its publishers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    /// What every statement about it contains besides the verdict.
    pub bundle: Digest,
    /// See [`AmendmentStatement::base`].
    pub base: Digest,
    /// Who proposed it, and may not approve it.
    pub author: String,
    /// When it ends.
    pub expires: Timestamp,
    /// Its nonce.
    pub nonce: String,
    /// Subjects who have approved it already: a second approval of theirs does not count.
    pub given: Vec<String>,
}

impl Pending {
    fn ballot(&self) -> Ballot<'_> {
        let author = std::slice::from_ref(&self.author);
        Ballot {
            purpose: Purpose::Amendment,
            names: ("the proposal", "it"),
            expires: self.expires,
            excluded: (author, "proposed it: another approver has to approve"),
            given: self.given.iter().map(String::as_str).collect(),
        }
    }

    /// Refuses what comes after its end.
    ///
    /// # Errors
    /// `amendment.expired`.
    pub fn in_time(&self, now: Timestamp) -> Result<(), ApprovalRefusal> {
        self.ballot().in_time(now)
    }

    /// The statement that a publisher signs for this verdict.
    #[must_use]
    pub fn statement(&self, verdict: ApproverVerdict) -> AmendmentStatement {
        AmendmentStatement {
            bundle: self.bundle,
            base: self.base,
            author: self.author.clone(),
            expires: self.expires,
            nonce: self.nonce.clone(),
            verdict,
        }
    }
}

/// The approval or refusal in this statement and its signer, if it counts for this proposal at this
/// time.
///
/// # Errors
/// The first thing that is wrong, under its code: those of [`VerifiedStatement::check`], and `amendment.other`
/// (another proposal, bundle or base), `amendment.expired`, `amendment.self` (the author approves),
/// `amendment.again`.
pub fn check(
    pending: &Pending,
    publishers: &Approvers,
    signed: (&[u8], &str),
    now: Timestamp,
) -> Result<VerifiedStatement<AmendmentStatement>, ApprovalRefusal> {
    let signed = VerifiedStatement::<AmendmentStatement>::check(publishers, signed, now)?;
    let statement = &signed.statement;
    if *statement != pending.statement(statement.verdict) {
        let other = RefusalReason::Other("amendment.other", "another proposal");
        return Purpose::Amendment.refuse(other);
    }
    pending.ballot().accepts(&signed.by, statement.verdict, now)?;
    Ok(signed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> AmendmentStatement {
        AmendmentStatement {
            bundle: Digest::of(&[b"new"]),
            base: Digest::of(&[b"old"]),
            author: "ada".into(),
            expires: Timestamp::from_millis(1_000_000),
            nonce: "0".repeat(32),
            verdict: ApproverVerdict::Approve,
        }
    }

    #[test]
    fn a_key_for_amendments_says_nothing_about_calls_and_one_for_calls_nothing_about_amendments() {
        use crate::approval::check::signer;
        use crate::approval::sign::{Key, sign_bytes};
        use crate::crypto::keys::SecretKey;
        use crate::crypto::ssh::SshKey;
        use wicketgate_record::clock::SystemEntropy;
        let secret = SecretKey::generate(&SystemEntropy);
        let public = SshKey::Plain(secret.public()).line();
        let key = Key::File(secret);
        let (now, message) = (Timestamp::from_millis(0), b"word");
        let checked_by = |listed: &str, purpose: Purpose| {
            let line =
                format!("ada namespaces=\"{listed}\" {public} roles=approver,policy_publisher");
            let list = Approvers::parse(line.as_bytes()).unwrap();
            let signature = sign_bytes(&key, purpose.namespace(), message).unwrap();
            let found = signer(&list, (message, &signature), now, purpose);
            found.map(|(approval, _)| approval.subject).map_err(|refused| refused.code())
        };
        let (calls, amendments) = (Purpose::Approval, Purpose::Amendment);
        assert_eq!(checked_by(NAMESPACE, amendments), Ok("ada".into()));
        assert_eq!(checked_by(NAMESPACE, calls), Err("approval.signer"));
        assert_eq!(checked_by(calls.namespace(), amendments), Err("approval.signer"));
        assert_eq!(checked_by(calls.namespace(), calls), Ok("ada".into()));
    }

    #[test]
    fn a_statement_has_one_spelling_and_no_further_member() {
        let bytes = statement().bytes();
        assert_eq!(AmendmentStatement::parse(&bytes), Ok(statement()));
        let text = String::from_utf8(bytes).unwrap();
        let changed = |from: &str, to: &str| {
            assert!(text.contains(from), "{from}");
            AmendmentStatement::parse(text.replace(from, to).as_bytes())
        };
        for (from, to) in [
            ("{\"author\"", "{\"a\":1,\"author\""),
            ("\"author\":\"ada\"", "\"author\":\"\""),
            ("\"base\":\"sha256:", "\"base\":\""),
            ("\"approve\"", "\"APPROVE\""),
            (":", ": "),
            ("\"nonce\":\"00", "\"nonce\":\"0"),
        ] {
            assert!(changed(from, to).is_err(), "{from}");
        }
    }
}
