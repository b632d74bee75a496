//! What all statements that people sign have in common: one form, a namespace, a list of signers.

use super::approvers::Purpose;
use super::is_nonce;
use crate::domain::canonical;
use crate::domain::json::{self, Json, Limits};
use crate::domain::members::Mismatch;
use crate::domain::plural::many;

/// A statement that people sign: the canonical form (RFC 8785) of exactly its members.
pub trait Statement: Sized {
    /// The namespace of its signatures, the list of its signers, and the role that they need.
    const PURPOSE: Purpose;
    /// Bytes of the longest statement of this kind.
    const BYTES_MAX: usize;
    /// The member `v`, for kinds that have it.
    const VERSION: Option<&'static str> = None;

    /// The statement with these members besides `v`.
    ///
    /// # Errors
    /// A member that is absent, unknown or of another type.
    fn of(members: Json) -> Result<Self, MalformedStatement>;

    /// Its members besides `v`.
    fn members(&self) -> Json;

    /// Whether every member is one that a statement may have.
    ///
    /// # Errors
    /// The first that is not.
    fn bounded(&self) -> Result<(), MalformedStatement>;

    /// Reads the bytes that were signed: exactly the members of a statement, each in its one
    /// spelling, and within the bounds of every configuration.
    ///
    /// # Errors
    /// See [`MalformedStatement`].
    fn parse(bytes: &[u8]) -> Result<Self, MalformedStatement> {
        if bytes.len() > Self::BYTES_MAX {
            return Err(MalformedStatement::Long(Self::BYTES_MAX));
        }
        let mut json = Json::parse(bytes, &Limits::FILE)?;
        let Json::Object(members) = &mut json else { return Err(MalformedStatement::Object) };
        if let Some(expected) = Self::VERSION
            && members.remove("v").as_ref().and_then(Json::as_str) != Some(expected)
        {
            return Err(MalformedStatement::Value { name: "v", expected });
        }
        let statement = Self::of(json)?;
        statement.bounded()?;
        // Whatever else could be written otherwise, and white space, is caught here.
        if statement.bytes() == bytes { Ok(statement) } else { Err(MalformedStatement::Canonical) }
    }

    /// The bytes that are signed.
    fn bytes(&self) -> Vec<u8> {
        canonical::bytes(&self.to_json())
    }

    /// The bytes that are signed, which are UTF-8.
    fn text(&self) -> String {
        canonical::text(&self.to_json())
    }

    /// All its members.
    fn to_json(&self) -> Json {
        let mut json = self.members();
        if let (Json::Object(members), Some(version)) = (&mut json, Self::VERSION) {
            members.insert("v".into(), Json::from(version));
        }
        json
    }
}

/// Refuses a name that is empty or longer than `most` bytes.
pub(super) fn check_name(
    name: &'static str,
    text: &str,
    most: usize,
) -> Result<(), MalformedStatement> {
    if (1..=most).contains(&text.len()) {
        return Ok(());
    }
    Err(MalformedStatement::Name { name, most })
}

/// Refuses a reason that is blank or longer than `most` bytes.
pub(super) fn check_reason(reason: &str, most: usize) -> Result<(), MalformedStatement> {
    if reason.trim().is_empty() || reason.len() > most {
        return Err(MalformedStatement::Reason(most));
    }
    Ok(())
}

/// Refuses what is no nonce.
pub(super) fn check_nonce(nonce: &str) -> Result<(), MalformedStatement> {
    if is_nonce(nonce) { Ok(()) } else { Err(MalformedStatement::Member("nonce")) }
}

/// What is wrong with a statement, an order or a proposal.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MalformedStatement {
    /// The statement is longer than this many bytes, the most for its kind.
    #[error("longer than {0} bytes")]
    Long(usize),
    /// Not strict JSON.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// JSON, and not an object.
    #[error("no object")]
    Object,
    /// A member that is absent, unknown or of another type.
    #[error(transparent)]
    Shape(#[from] Mismatch),
    /// A member that is absent or out of its bounds.
    #[error("`{0}` is missing or malformed")]
    Member(&'static str),
    /// A member that must have one value.
    #[error("`{name}` is not `{expected}`")]
    Value {
        /// The member.
        name: &'static str,
        /// Its only value.
        expected: &'static str,
    },
    /// A name that is empty or longer than `most` bytes.
    #[error("`{name}` is a name of at most {most} bytes")]
    Name {
        /// The member.
        name: &'static str,
        /// Bytes.
        most: usize,
    },
    /// Tools that are missing, too many, not sorted, or there twice.
    #[error("`tools` are one to {0} names, sorted, each once")]
    Tools(usize),
    /// A reason that is empty or longer than this many bytes.
    #[error("`reason` says why, in at most {0} bytes")]
    Reason(usize),
    /// An end that is not after the begin.
    #[error("`expires` is not after `not_before`")]
    Ends,
    /// A period that is longer than this many minutes.
    #[error("it spans more than {}", many(.0, "minute"))]
    Span(u64),
    /// Members that an order of this kind has no use for.
    #[error("`{order}` of `{target}` does not fit its other members")]
    Order {
        /// What is ordered.
        order: &'static str,
        /// What it is about.
        target: String,
    },
    /// Further members, or another spelling of the same ones.
    #[error("not the canonical form (RFC 8785) of exactly a statement's members")]
    Canonical,
}
