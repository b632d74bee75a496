//! Break-glass: a statement that several key holders sign so that, for a short time, calls of one
//! agent to some tools need no approver.
//!
//! It has a list of keys and a namespace of its own, so that no approver's signature opens anything
//! and no key of this list approves a call. Pure, like everything here: the same at the gate and in
//! an audit.

use std::collections::BTreeSet;

use serde::{Deserialize, Deserializer, Serialize};

use super::approvers::Purpose;
pub use super::check::ApprovalRefusal;
use super::check::signer;
use super::form::of_version;
use super::{Approval, Approvers, MalformedStatement};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::json::{Json, Limits};
use crate::domain::plural::many;
use crate::domain::time::Timestamp;
use crate::record::List;

/// The SSHSIG namespace of break-glass statements.
pub const NAMESPACE: &str = "wicketgate-break-glass";
/// The role that a key of the list needs to count.
pub const ROLE: &str = "break_glass";
/// Minutes that a statement may span; a configuration may allow fewer, never more.
pub const MINUTES_MAX: u64 = 60;
/// Different subjects that have to sign; a configuration may ask for more, never for fewer.
pub const QUORUM_MIN: usize = 2;
/// Signatures under one statement.
pub const SIGNATURES_MAX: usize = 16;
/// Version of the statement (`v`).
pub const VERSION: &str = "wicketgate/break-glass/1";

/// Bytes of a statement.
const BYTES_MAX: usize = 16 * 1024;
/// Tools of a statement.
const TOOLS_MAX: usize = 64;
/// Bytes of a reason, and of an agent's or a tenant's name.
const REASON_MAX: usize = 1024;
const NAME_MAX: usize = 256;

/// The signed statement: the canonical form (RFC 8785) of exactly these members and `v`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakGlassStatement {
    /// Whose gates it is for.
    pub tenant: String,
    /// The agent, by `metadata.name` of its manifest.
    pub agent: String,
    /// The tools, sorted, each once; never empty.
    pub tools: Vec<ToolName>,
    /// Why, for the reviewer.
    pub reason: String,
    /// The order has no effect before this time.
    pub not_before: Timestamp,
    /// The order has no effect from this time on; at most [`MINUTES_MAX`] after `not_before`.
    pub expires: Timestamp,
    /// 16 random bytes in hex: a statement is good for one opening.
    pub nonce: String,
}

impl BreakGlassStatement {
    /// Reads the bytes that were signed: canonical form, exactly the members of a statement, each in its
    /// one spelling, and within the bounds of every configuration.
    ///
    /// # Errors
    /// See [`Malformed`].
    pub fn parse(bytes: &[u8]) -> Result<Self, MalformedStatement> {
        if bytes.len() > BYTES_MAX {
            return Err(MalformedStatement::Long(BYTES_MAX));
        }
        let statement: Self = of_version(bytes, &Limits::FILE, VERSION)?;
        statement.bounded()?;
        // Whatever else could be written otherwise, and white space, is caught here.
        if statement.bytes() == bytes { Ok(statement) } else { Err(MalformedStatement::Canonical) }
    }

    /// Whether every member is one that a statement may have.
    ///
    /// # Errors
    /// The first that is not.
    pub fn bounded(&self) -> Result<(), MalformedStatement> {
        let named = |name: &str| !name.is_empty() && name.len() <= NAME_MAX;
        let names = [("tenant", &self.tenant), ("agent", &self.agent)];
        if let Some((name, _)) = names.into_iter().find(|(_, text)| !named(text)) {
            return Err(MalformedStatement::Name { name, most: NAME_MAX });
        }
        let unique: BTreeSet<&str> = self.tools.iter().map(ToolName::as_str).collect();
        let sorted = unique.iter().copied().eq(self.tools.iter().map(ToolName::as_str));
        if self.tools.is_empty() || self.tools.len() > TOOLS_MAX || !sorted {
            return Err(MalformedStatement::Tools(TOOLS_MAX));
        }
        if self.reason.trim().is_empty() || self.reason.len() > REASON_MAX {
            return Err(MalformedStatement::Reason(REASON_MAX));
        }
        let hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
        if self.nonce.len() != 32 || !self.nonce.bytes().all(hex) {
            return Err(MalformedStatement::Member("nonce"));
        }
        if self.expires <= self.not_before {
            return Err(MalformedStatement::Ends);
        }
        if self.span_millis() > millis(MINUTES_MAX) {
            return Err(MalformedStatement::Span(MINUTES_MAX));
        }
        Ok(())
    }

    const fn span_millis(&self) -> i64 {
        self.expires.millis().saturating_sub(self.not_before.millis())
    }

    /// The bytes that are signed.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let tools = self.tools.iter().map(|tool| Json::from(tool.as_str())).collect::<Vec<_>>();
        canonical::bytes(&Json::object([
            ("v", Json::from(VERSION)),
            ("tenant", Json::from(self.tenant.as_str())),
            ("agent", Json::from(self.agent.as_str())),
            ("tools", tools.into()),
            ("reason", Json::from(self.reason.as_str())),
            ("not_before", Json::from(self.not_before.to_string())),
            ("expires", Json::from(self.expires.to_string())),
            ("nonce", Json::from(self.nonce.as_str())),
        ]))
    }
}

fn millis(minutes: u64) -> i64 {
    i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(60_000)
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
    /// As one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Json {
        Json::of(self)
    }

    /// The payload: canonical JSON.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        canonical::bytes(&self.to_json())
    }

    /// Reads the payload back; `None` if it is not in canonical form.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let signed: Self = Json::parse(bytes, &Limits::FILE).ok()?.read().ok()?;
        (signed.bytes() == bytes).then_some(signed)
    }
}

fn few<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    List::<String, SIGNATURES_MAX>::deserialize(from).map(|list| list.to_vec())
}

/// The rules for a statement besides its list of keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// Whose gate this is.
    pub tenant: String,
    /// Different subjects that have to have signed, at least [`QUORUM_MIN`].
    pub quorum: usize,
    /// Minutes that a statement may span, at most [`MINUTES_MAX`].
    pub minutes: u64,
}

/// A valid statement, and its signers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Open {
    /// The statement.
    pub statement: BreakGlassStatement,
    /// Who signed, one entry for each signature, in the order of their subjects.
    pub by: Vec<Approval>,
    /// How many different subjects it needs.
    pub quorum: usize,
    /// SHA-256 of the list of keys by which it is valid.
    pub signers: Digest,
    /// The signed statement, as the ledger records it.
    pub signed: SignedBreakGlass,
}

impl Open {
    /// The distinct subjects who signed, sorted.
    #[must_use]
    pub fn subjects(&self) -> Vec<&str> {
        let all: BTreeSet<&str> = self.by.iter().map(|one| one.subject.as_str()).collect();
        all.into_iter().collect()
    }

    /// Whether enough distinct subjects remain without the keys that `revoked` reports as revoked.
    pub fn stands_without(&self, revoked: impl Fn(&str) -> bool) -> bool {
        let left = self.by.iter().filter(|one| !revoked(&one.key));
        let left: BTreeSet<&str> = left.map(|one| one.subject.as_str()).collect();
        left.len() >= self.quorum
    }
}

/// Whether a statement holds at this time: every signature over it is one of the list's, enough different
/// subjects signed, and it is about this tenant and now.
///
/// # Errors
/// The first thing that is wrong, under its code: `break_glass.statement`, `.signature`, `.namespace`,
/// `.signer`, `.revoked`, `.early` and `.lapsed` (the key's own time), `.role`, `.again` (two signatures of one
/// key), `.quorum`, `.tenant`, `.span` (longer than configured), `.not_yet`, `.expired`.
pub fn check(
    terms: &Terms,
    list: &Approvers,
    signed: &SignedBreakGlass,
    now: Timestamp,
) -> Result<Open, ApprovalRefusal> {
    let bytes = signed.statement.as_bytes();
    let statement = BreakGlassStatement::parse(bytes)
        .or_else(|why| refuse("break_glass.statement", format!("the statement: {why}")))?;
    if signed.signatures.len() > SIGNATURES_MAX {
        return refuse("break_glass.quorum", format!("more than {SIGNATURES_MAX} signatures"));
    }
    let mut by: Vec<Approval> = Vec::new();
    for signature in &signed.signatures {
        let one = signer(list, bytes, signature, now, Purpose::BreakGlass);
        let one = one.map_err(|why| ApprovalRefusal { code: code(why.code), why: why.why })?;
        if by.iter().any(|other| other.key == one.key) {
            return refuse("break_glass.again", format!("{} signed twice", one.key));
        }
        by.push(one);
    }
    by.sort_by(|a, b| (&a.subject, &a.key).cmp(&(&b.subject, &b.key)));
    let subjects: BTreeSet<&str> = by.iter().map(|one| one.subject.as_str()).collect();
    let quorum = terms.quorum.max(QUORUM_MIN);
    if subjects.len() < quorum {
        let have = subjects.len();
        return refuse("break_glass.quorum", format!("{have} people signed, {quorum} are needed"));
    }
    about(terms, &statement, now)?;
    let (signers, signed) = (*list.digest(), signed.clone());
    Ok(Open { statement, by, quorum, signers, signed })
}

/// Whether it is for this tenant, no longer than allowed, and in force now.
fn about(
    terms: &Terms,
    statement: &BreakGlassStatement,
    now: Timestamp,
) -> Result<(), ApprovalRefusal> {
    if statement.tenant != terms.tenant {
        return refuse("break_glass.tenant", "the statement is for another tenant");
    }
    let minutes = terms.minutes.min(MINUTES_MAX);
    if statement.span_millis() > millis(minutes) {
        let why = format!("it spans more than {}", many(minutes, "minute"));
        return refuse("break_glass.span", why);
    }
    if now < statement.not_before {
        let from = statement.not_before;
        return refuse("break_glass.not_yet", format!("it opens nothing before {from}"));
    }
    if now >= statement.expires {
        let end = statement.expires;
        return refuse("break_glass.expired", format!("it ended at {end}"));
    }
    Ok(())
}

fn refuse<T>(code: &'static str, why: impl Into<String>) -> Result<T, ApprovalRefusal> {
    Err(ApprovalRefusal { code, why: why.into() })
}

/// The break-glass code for an error in one signature.
fn code(of: &'static str) -> &'static str {
    match of {
        "approval.namespace" => "break_glass.namespace",
        "approval.signer" => "break_glass.signer",
        "approval.revoked" => "break_glass.revoked",
        "approval.early" => "break_glass.early",
        "approval.lapsed" => "break_glass.lapsed",
        "approval.role" => "break_glass.role",
        _ => "break_glass.signature",
    }
}
