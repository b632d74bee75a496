//! Amendments of the policy, as read from the list of orders: proposals, approvals of publishers,
//! and results.
//!
//! The list transports these rows and decides nothing. Every gate checks each row itself and
//! reports the result.

use super::{Order, OrderReport, Row};
use crate::approval::Statement as _;
use crate::approval::amendment::{AmendmentStatement, Pending};
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// The role that may propose a bundle.
pub const AUTHOR: &str = "policy_author";
/// The role that may approve a bundle and put it in force.
pub const PUBLISHER: &str = crate::approval::amendment::ROLE;

/// One proposal, read from its row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// The number of the row.
    pub seq: u64,
    /// When the row was listed.
    pub at: Timestamp,
    /// The digest of the proposed bundle.
    pub bundle: Digest,
    /// The digest of the bundle that it replaces.
    pub base: Digest,
    /// The version that the proposal claims.
    pub version: String,
    /// The operator who proposed it.
    pub author: String,
    /// The reason given; may be empty.
    pub reason: String,
    /// When the proposal expires.
    pub expires: Timestamp,
    /// Ties publishers' approvals to this proposal.
    pub nonce: String,
    /// The files of the bundle, as JSON text.
    pub files: String,
}

impl Proposal {
    /// The proposal of a row. `None` if the row has none, or if it has no expiry.
    #[must_use]
    pub fn of(row: &Row) -> Option<Self> {
        let Some(Order::Propose { bundle, base, version, nonce, files }) = &row.order else {
            return None;
        };
        Some(Self {
            seq: row.seq,
            at: row.at,
            bundle: *bundle,
            base: *base,
            version: version.clone(),
            author: row.given.subject.clone(),
            reason: row.given.reason.clone(),
            expires: row.given.expires?,
            nonce: nonce.clone(),
            files: files.clone(),
        })
    }

    /// The statement that a publisher's approval of it must match.
    #[must_use]
    pub fn pending(&self, given: Vec<String>) -> Pending {
        Pending {
            bundle: self.bundle,
            base: self.base,
            author: self.author.clone(),
            expires: self.expires,
            nonce: self.nonce.clone(),
            given,
        }
    }

    /// Whether the row is a publisher's approval of this very proposal.
    #[must_use]
    pub fn is_approval_of(&self, row: &Row) -> bool {
        let Some(Order::Publish { bundle, statement, .. }) = &row.order else { return false };
        let approval = AmendmentStatement::parse(statement.as_bytes());
        *bundle == self.bundle && approval.is_ok_and(|approval| approval.nonce == self.nonce)
    }
}

/// Whether the gate obeyed the order that it reports about.
#[must_use]
pub fn is_applied(report: &OrderReport) -> bool {
    report.done.get("error").is_none()
}

/// A text member of a gate's report.
#[must_use]
pub fn text<'a>(done: &'a Json, name: &str) -> Option<&'a str> {
    done.get(name).and_then(Json::as_str)
}
