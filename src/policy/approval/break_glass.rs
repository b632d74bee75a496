//! Break-glass: a statement that several key holders sign so that, for a short time, calls of one
//! agent to some tools need no approver.
//!
//! It has a list of keys and a namespace of its own, so that no approver's signature opens anything
//! and no key of this list approves a call. Pure, like everything here: the same at the gate and in
//! an audit.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::approvers::Purpose;
use super::check::{check_all, people};
pub use super::signed::{SIGNATURES_MAX, SignedBreakGlass};
use super::statement::{check_name, check_nonce, check_reason};
use super::{Approval, ApprovalRefusal, Approvers, MalformedStatement, RefusalReason, Statement};
use crate::domain::digest::Digest;
use crate::domain::id::ToolName;
use crate::domain::json::Json;
use crate::domain::plural::many;
use crate::domain::time::Timestamp;

/// The SSHSIG namespace of break-glass statements.
pub const NAMESPACE: &str = "wicketgate-break-glass";
/// The role that a key of the list needs to count.
pub const ROLE: &str = "break_glass";
/// Minutes that a statement may span; a configuration may allow fewer, never more.
pub const MINUTES_MAX: u64 = 60;
/// Different subjects that have to sign; a configuration may ask for more, never for fewer.
pub const QUORUM_MIN: usize = 2;
/// Version of the statement (`v`).
pub const VERSION: &str = "wicketgate/break-glass/1";

/// Tools of a statement.
const TOOLS_MAX: usize = 64;
/// Bytes of a reason, and of an agent's or a tenant's name.
const REASON_MAX: usize = 1024;
const NAME_MAX: usize = 256;

/// The signed statement: the canonical form (RFC 8785) of exactly these members and `v`.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
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

impl Statement for BreakGlassStatement {
    const PURPOSE: Purpose = Purpose::BreakGlass;
    const BYTES_MAX: usize = 16 * 1024;
    const VERSION: Option<&'static str> = Some(VERSION);

    fn of(members: Json) -> Result<Self, MalformedStatement> {
        Ok(members.read()?)
    }

    fn members(&self) -> Json {
        Json::of(self)
    }

    fn bounded(&self) -> Result<(), MalformedStatement> {
        check_name("tenant", &self.tenant, NAME_MAX)?;
        check_name("agent", &self.agent, NAME_MAX)?;
        let sorted = self.tools.is_sorted_by(|a, b| a.as_str() < b.as_str());
        if self.tools.is_empty() || self.tools.len() > TOOLS_MAX || !sorted {
            return Err(MalformedStatement::Tools(TOOLS_MAX));
        }
        check_reason(&self.reason, REASON_MAX)?;
        check_nonce(&self.nonce)?;
        if self.expires <= self.not_before {
            return Err(MalformedStatement::Ends);
        }
        if self.span_millis() > millis(MINUTES_MAX) {
            return Err(MalformedStatement::Span(MINUTES_MAX));
        }
        Ok(())
    }
}

impl BreakGlassStatement {
    const fn span_millis(&self) -> i64 {
        self.expires.millis().saturating_sub(self.not_before.millis())
    }
}

fn millis(minutes: u64) -> i64 {
    i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(60_000)
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
        people(self.by.iter().filter(|one| !revoked(&one.key))) >= self.quorum
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
    let quorum = terms.quorum.max(QUORUM_MIN);
    let given = (signed.statement.as_bytes(), signed.signatures.as_slice());
    let (statement, all) = check_all(list, given, (SIGNATURES_MAX, quorum), now)?;
    about(terms, &statement, now)?;
    let (mut by, signatures): (Vec<Approval>, _) = all.into_iter().unzip();
    by.sort_by(|a, b| (&a.subject, &a.key).cmp(&(&b.subject, &b.key)));
    let signed = SignedBreakGlass { statement: signed.statement.clone(), signatures };
    Ok(Open { statement, by, quorum, signers: *list.digest(), signed })
}

/// Whether it is for this tenant, no longer than allowed, and in force now.
fn about(
    terms: &Terms,
    statement: &BreakGlassStatement,
    now: Timestamp,
) -> Result<(), ApprovalRefusal> {
    let minutes = terms.minutes.min(MINUTES_MAX);
    Purpose::BreakGlass.refuse(if statement.tenant != terms.tenant {
        RefusalReason::Tenant
    } else if statement.span_millis() > millis(minutes) {
        RefusalReason::Span(many(minutes, "minute"))
    } else if now < statement.not_before {
        RefusalReason::NotYet(statement.not_before)
    } else if now >= statement.expires {
        RefusalReason::Expired("it", statement.expires)
    } else {
        return Ok(());
    })
}
