//! One stored line, read by the rules: strict, canonical, inside the profile and its kind's schema.

use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::ledger::entry::{self, Entry};
use crate::ledger::schema;

/// What is wrong, and which check of ledger.md §2.15 says so.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{check}: {why}")]
pub struct Damage {
    /// `L3`, `S2`, …; `D1` is a shadow column, `D2` a stored hash.
    pub check: &'static str,
    /// For a person.
    pub why: String,
}

impl Damage {
    /// Damage found by this check.
    pub fn new(check: &'static str, why: impl Into<String>) -> Self {
        Self { check, why: why.into() }
    }
}

/// One entry with the exact bytes it was read from.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// The exact bytes.
    pub bytes: Vec<u8>,
    /// What they say. Of a kind this build does not know, `draft.kind` means nothing: see `unknown`.
    pub entry: Entry,
    /// Leaf hash of the bytes.
    pub leaf: Digest,
    /// The kind, if this build does not know it: structure, links and proofs can be checked, its meaning
    /// cannot.
    pub unknown: Option<String>,
}

impl Line {
    /// Reads exact bytes.
    ///
    /// # Errors
    /// `L3`, and why the bytes are no entry.
    pub fn read(bytes: &[u8]) -> Result<Self, Damage> {
        let bad = |why: String| Damage::new("L3", why);
        let json = Json::parse(bytes, &Limits::ENTRY).map_err(|e| bad(e.to_string()))?;
        // The reader has bounded the bytes, so the one canonical form made here serves every check.
        schema::shape(&json).map_err(bad)?;
        if canonical::bytes(&json) != bytes {
            return Err(bad(entry::Error::Canonical.to_string()));
        }
        let (entry, unknown) = match Entry::of(&json) {
            Ok(entry) => (entry, None),
            Err(entry::Error::Kind(kind)) => (stand_in(json)?, Some(kind)),
            Err(
                other @ (entry::Error::Json(_)
                | entry::Error::Canonical
                | entry::Error::Field(_)
                | entry::Error::Unknown(_)),
            ) => return Err(bad(other.to_string())),
        };
        if unknown.is_none() {
            // Catches what reads as the same value in another spelling, such as `mono: "007"`.
            if entry.bytes() != bytes {
                return Err(bad("a member is not in its one spelling".into()));
            }
            schema::header(&entry).map_err(bad)?;
            schema::check(entry.draft.kind, &entry.draft.data).map_err(bad)?;
        }
        Ok(Self { bytes: bytes.to_vec(), entry, leaf: Entry::leaf(bytes), unknown })
    }

    /// The kind's word, known or not.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.unknown.as_deref().unwrap_or_else(|| self.entry.draft.kind.as_str())
    }

    /// Whether it is of this kind.
    #[must_use]
    pub fn is(&self, kind: entry::Kind) -> bool {
        self.unknown.is_none() && self.entry.draft.kind == kind
    }

    /// A text member of `data`.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.entry.draft.data.get(name).and_then(Json::as_str)
    }
}

/// An entry of an unknown kind, read for its header only.
fn stand_in(json: Json) -> Result<Entry, Damage> {
    let mut members = match json {
        Json::Object(members) => members,
        Json::Null
        | Json::Bool(_)
        | Json::Int(_)
        | Json::Float(_)
        | Json::String(_)
        | Json::Array(_) => return Err(Damage::new("L3", "an entry is an object")),
    };
    members.insert("kind".into(), Json::from(entry::Kind::Heartbeat.as_str()));
    let bytes = canonical::bytes(&Json::Object(members));
    let read = Entry::parse(&bytes).map_err(|e| Damage::new("L3", e.to_string()))?;
    if read.bytes() == bytes {
        Ok(read)
    } else {
        Err(Damage::new("L3", "a member is not in its one spelling"))
    }
}
