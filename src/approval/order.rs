//! What an operator signs to take back a stop, and what that signature is worth.
//!
//! Stopping needs a role and a token; whatever loosens is signed with the operator's own SSH key in the namespace
//! [`NAMESPACE`]. The statement names the newest order that its signer saw, by number and digest: it takes back
//! stops up to that one and no later ones, so that a row which is put on the list a second time takes back nothing.

use super::approvers::Purpose;
use super::check::{Refused, refuse, signer};
use super::{Approval, Approvers, Signed};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::domain::time::Timestamp;

/// The SSHSIG namespace of orders that loosen.
pub const NAMESPACE: &str = "wicketgate-order";
/// The role without which nobody's order loosens anything.
pub const ROLE: &str = "operator";
/// Version of the statement (`v`).
pub const VERSION: &str = "wicketgate/order/1";
/// The only word of a statement so far (`order`).
pub const REINSTATE: &str = "reinstate";

/// Bytes of a statement.
const BYTES_MAX: usize = 4096;
/// Bytes of a tenant, a target's name and a reason.
const TEXT_MAX: usize = 1024;
/// How far the signer's clock may be ahead of whoever checks.
const AHEAD: std::time::Duration = std::time::Duration::from_secs(300);

/// The order that a statement speaks after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Previous {
    /// Its number on the list.
    pub seq: u64,
    /// SHA-256 of its row.
    pub digest: Digest,
}

impl Previous {
    /// What stands before the first order: the number 0 and a digest of nothing.
    pub const NONE: Self = Self { seq: 0, digest: Digest::from_bytes([0; 32]) };
}

/// What is signed: the canonical form (RFC 8785) of exactly these members, `order` and `v`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// Whose gates it is for.
    pub tenant: String,
    /// `all`, `agent`, `run`, `tool`, `manifest` or `key`.
    pub target: String,
    /// The target's name; empty for `all`.
    pub name: String,
    /// Why, for whoever reads it later.
    pub reason: String,
    /// When it was signed.
    pub at: Timestamp,
    /// When what was stopped is stopped again, if it is taken back for a time only.
    pub expires: Option<Timestamp>,
    /// The newest order that the signer saw.
    pub previous: Previous,
}

impl Statement {
    /// Reads the bytes that were signed: canonical form, exactly the members of a statement.
    ///
    /// # Errors
    /// What is wrong, in words for a person.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > BYTES_MAX {
            return Err(format!("longer than {BYTES_MAX} bytes"));
        }
        let json = Json::parse(bytes, &Limits::ENTRY).map_err(|e| e.to_string())?;
        let wrong = |name: &'static str| move || format!("`{name}` is missing or malformed");
        let text = |name: &'static str| {
            let text = json.get(name).and_then(Json::as_str);
            text.filter(|text| text.len() <= TEXT_MAX).ok_or_else(wrong(name))
        };
        let time = |name: &'static str| Timestamp::parse(text(name)?).ok_or_else(wrong(name));
        if text("v")? != VERSION || text("order")? != REINSTATE {
            return Err(format!("`v` is `{VERSION}` and `order` is `{REINSTATE}`"));
        }
        let digest = Digest::parse(text("previous")?).ok_or_else(wrong("previous"))?;
        let seq = json.get("previous_seq").and_then(Json::as_u64);
        let expires = json.get("expires").map(|_| time("expires")).transpose()?;
        let statement = Self {
            tenant: text("tenant")?.to_owned(),
            target: text("target")?.to_owned(),
            name: text("name")?.to_owned(),
            reason: text("reason")?.to_owned(),
            at: time("at")?,
            expires,
            previous: Previous { seq: seq.ok_or_else(wrong("previous_seq"))?, digest },
        };
        if statement.reason.trim().is_empty() {
            return Err("`reason` says why".into());
        }
        // Further members, and whatever else could be written otherwise, are caught here.
        if statement.bytes() == bytes {
            Ok(statement)
        } else {
            Err("not the canonical form (RFC 8785) of exactly a statement's members".into())
        }
    }

    /// The bytes that are signed.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let mut members = vec![
            ("v", Json::from(VERSION)),
            ("order", Json::from(REINSTATE)),
            ("tenant", Json::from(self.tenant.as_str())),
            ("target", Json::from(self.target.as_str())),
            ("name", Json::from(self.name.as_str())),
            ("reason", Json::from(self.reason.as_str())),
            ("at", Json::from(self.at.to_string())),
            ("previous", Json::from(self.previous.digest.prefixed())),
            ("previous_seq", Json::from(self.previous.seq)),
        ];
        members.extend(self.expires.map(|at| ("expires", Json::from(at.to_string()))));
        canonical::bytes(&Json::object(members))
    }
}

/// An order that loosens and whose signature holds. Nothing else makes one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Loosening {
    statement: Statement,
    by: Approval,
    signers: Digest,
    signed: Signed,
}

impl Loosening {
    /// What it says.
    #[must_use]
    pub const fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Who signed it.
    #[must_use]
    pub const fn by(&self) -> &Approval {
        &self.by
    }

    /// SHA-256 of the list of approvers that says so.
    #[must_use]
    pub const fn signers(&self) -> &Digest {
        &self.signers
    }

    /// The statement and its signature, as they go on the books.
    #[must_use]
    pub const fn signed(&self) -> &Signed {
        &self.signed
    }
}

/// Whether somebody of the list who is an operator signed this, for this tenant. The key is judged as of `now`.
///
/// # Errors
/// The first thing that is wrong, under its code: `order.unsigned`, `order.statement`, `order.signature`,
/// `order.namespace`, `order.signer`, `order.revoked`, `order.early`, `order.lapsed`, `order.role`, `order.tenant`,
/// `order.future` (signed later than `now`).
pub fn check(
    approvers: &Approvers,
    tenant: &str,
    signed: &Signed,
    now: Timestamp,
) -> Result<Loosening, Refused> {
    if signed.signature.is_empty() {
        return refuse("order.unsigned", "the order takes back a stop, and nobody signed it");
    }
    let bytes = signed.statement.as_bytes();
    let statement = Statement::parse(bytes)
        .or_else(|why| refuse("order.statement", format!("the statement: {why}")))?;
    let by = signer(approvers, bytes, &signed.signature, now, Purpose::Order);
    let by = by.map_err(|why| Refused { code: code(why.code), why: why.why })?;
    if statement.tenant != tenant {
        return refuse("order.tenant", "the statement is for another tenant");
    }
    if statement.at > now.plus(AHEAD) {
        return refuse(
            "order.future",
            format!("it was signed at {}, later than now", statement.at),
        );
    }
    Ok(Loosening { statement, by, signers: *approvers.digest(), signed: signed.clone() })
}

/// The code of what is wrong with the signature.
fn code(of: &'static str) -> &'static str {
    match of {
        "approval.namespace" => "order.namespace",
        "approval.signer" => "order.signer",
        "approval.revoked" => "order.revoked",
        "approval.early" => "order.early",
        "approval.lapsed" => "order.lapsed",
        "approval.role" => "order.role",
        _ => "order.signature",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement() -> Statement {
        Statement {
            tenant: "default".into(),
            target: "agent".into(),
            name: "refund-agent".into(),
            reason: "provider is back".into(),
            at: Timestamp::from_millis(1_000),
            expires: None,
            previous: Previous { seq: 7, digest: Digest::of(&[b"row"]) },
        }
    }

    #[test]
    fn a_statement_reads_back_and_no_other_spelling_of_it_is_one() {
        let later = Statement { expires: Some(Timestamp::from_millis(9_000)), ..statement() };
        for statement in [statement(), later] {
            let bytes = statement.bytes();
            assert_eq!(Statement::parse(&bytes), Ok(statement));
            let text = String::from_utf8(bytes).unwrap();
            for other in [
                text.replace(':', ": "),
                text.replace("reinstate", "erase"),
                text.replace('}', ",\"z\":1}"),
                text.replace("\"previous_seq\":7", "\"previous_seq\":-7"),
                text.replace("sha256:", ""),
                text.replace("provider is back", "  "),
            ] {
                assert!(Statement::parse(other.as_bytes()).is_err(), "{other}");
            }
        }
    }
}
