//! Amendments of the policy as the list tells them: what is proposed, what was said about it, what came of it.
//!
//! The list carries; it decides nothing. Every gate checks each of these rows for itself, and what it made of a
//! row is its report.

use super::{Order, OrderReport, Row};
use crate::approval::amendment::{AmendmentStatement, Pending};
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::time::Timestamp;

/// The role of who may propose.
pub const AUTHOR: &str = "policy_author";
/// The role of who may have an approved bundle put in force.
pub const PUBLISHER: &str = crate::approval::amendment::ROLE;

/// One proposal, as its row says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proposal {
    /// The row.
    pub seq: u64,
    /// When it was made.
    pub at: Timestamp,
    /// The bundle.
    pub bundle: Digest,
    /// What it replaces.
    pub base: Digest,
    /// Its version, as the proposal says.
    pub version: String,
    /// Who proposed it.
    pub author: String,
    /// Why; may be empty.
    pub reason: String,
    /// When it ends.
    pub expires: Timestamp,
    /// What ties words to it.
    pub nonce: String,
    /// Its files, as JSON text.
    pub files: String,
}

impl Proposal {
    /// The proposal in a row. None if there is none in it, or it never ends.
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

    /// What a publisher's word about it has to say.
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

    /// Whether a row is a word about this very proposal.
    #[must_use]
    pub fn spoken_of(&self, row: &Row) -> bool {
        let Some(Order::Publish { bundle, statement, .. }) = &row.order else { return false };
        let said = AmendmentStatement::parse(statement.as_bytes());
        *bundle == self.bundle && said.is_ok_and(|said| said.nonce == self.nonce)
    }
}

/// Whether a gate obeyed what it reports about.
#[must_use]
pub fn obeyed(report: &OrderReport) -> bool {
    report.done.get("error").is_none()
}

/// A text out of what a gate did.
#[must_use]
pub fn text<'a>(done: &'a Json, name: &str) -> Option<&'a str> {
    done.get(name).and_then(Json::as_str)
}
