//! Why signed bytes do not have the required form of a statement.

use serde::de::DeserializeOwned;

use crate::domain::json::{self, Json, Limits};
use crate::domain::members::Mismatch;
use crate::domain::plural::many;

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
    /// A member that statements of its kind do not have, printable and cut to 64 characters.
    #[error("unknown member `{0}`")]
    Unknown(String),
    /// A member that is absent or of another type.
    #[error(transparent)]
    Shape(Mismatch),
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

impl MalformedStatement {
    /// The error for an unknown member, whose name comes from the bytes.
    fn unknown(name: &str) -> Self {
        Self::Unknown(name.chars().filter(|c| !c.is_control()).take(64).collect())
    }
}

impl From<Mismatch> for MalformedStatement {
    fn from(mismatch: Mismatch) -> Self {
        match &mismatch {
            Mismatch::Unknown(name) => Self::unknown(name),
            Mismatch::Missing(_) | Mismatch::Value { .. } if mismatch.member().is_empty() => {
                Self::Object
            }
            Mismatch::Missing(_) | Mismatch::Value { .. } => Self::Shape(mismatch),
        }
    }
}

/// Reads a signed statement: the members of `T`, and `v` with this version.
pub(super) fn of_version<T: DeserializeOwned>(
    bytes: &[u8],
    limits: &Limits,
    expected: &'static str,
) -> Result<T, MalformedStatement> {
    let mut json = Json::parse(bytes, limits)?;
    let Json::Object(members) = &mut json else { return Err(MalformedStatement::Object) };
    if members.remove("v").as_ref().and_then(Json::as_str) != Some(expected) {
        return Err(MalformedStatement::Value { name: "v", expected });
    }
    Ok(json.read()?)
}
