//! What can be wrong with a bundle: every finding names its file, line and column.

use std::fmt;

use crate::crypto::dsse;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;

/// One thing wrong with one file of a bundle.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LoadError {
    /// The file, relative to the bundle; `.` for the bundle itself.
    pub file: String,
    /// Line, from 1; 0 for the whole file.
    pub line: u32,
    /// Column, from 1; 0 for the whole file.
    pub column: u32,
    /// Stable dotted code: `policy.syntax`, `policy.banned_builtin`, …
    pub code: &'static str,
    /// What is wrong, for a person.
    pub message: String,
}

impl LoadError {
    /// A finding about a whole file.
    pub fn file(code: &'static str, file: &str, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: 0, column: 0, code, message: message.into() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line == 0 {
            write!(f, "{}: {}: {}", self.file, self.code, self.message)
        } else {
            let Self { file, line, column, code, message } = self;
            write!(f, "{file}:{line}:{column}: {code}: {message}")
        }
    }
}

impl std::error::Error for LoadError {}

/// Why a bundle is not put in force.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its files are not a bundle.
    #[error("the bundle does not load: {}", list(.0))]
    Load(Vec<LoadError>),
    /// There is no `bundle.sig.json`.
    #[error("the bundle is not signed (no `bundle.sig.json`)")]
    Unsigned,
    /// The envelope does not hold.
    #[error("the bundle's signature does not hold: {0}")]
    Signature(#[from] dsse::Error),
    /// The envelope is valid, but for other bytes.
    #[error("the signature is for other bytes than this bundle's")]
    OtherBytes,
    /// Not yet, or no longer.
    #[error("the bundle is valid from {from} until {until}, not now")]
    Validity {
        /// `not_before`, or `always`.
        from: String,
        /// `not_after`, or `always`.
        until: String,
    },
    /// A layer would observe for too long.
    #[error("layer `{layer}` observes until {until}; 30 days from now is {latest}")]
    Observe {
        /// The layer.
        layer: &'static str,
        /// `until`.
        until: Timestamp,
        /// The latest `until` that would do.
        latest: Timestamp,
    },
    /// The bundle names the manifests it is for, and not this one.
    #[error("the bundle is not for manifest `{0}`")]
    OtherManifest(String),
    /// An older version than the one in force.
    #[error("version {found} is older than {active}, which is in force")]
    Rollback {
        /// Version of the candidate.
        found: semver::Version,
        /// Version in force.
        active: semver::Version,
    },
    /// The version in force with other bytes.
    #[error("version {version} is in force with other bytes ({active})")]
    Equivocation {
        /// The version both claim.
        version: semver::Version,
        /// Digest in force.
        active: Digest,
    },
    /// The bundle's name is not the one in force.
    #[error("bundle `{found}` cannot follow bundle `{active}`")]
    OtherName {
        /// Name of the candidate.
        found: String,
        /// Name in force.
        active: String,
    },
    /// The engine refuses it.
    #[error("the engine refuses the bundle: {0}")]
    Engine(String),
    /// The candidate did not survive its trial in a child process.
    #[error("the bundle failed its self-test: {0}")]
    SelfTest(String),
    /// The archive is not the deterministic tar of its files.
    #[error("not a valid archive: {0}")]
    Archive(String),
}

impl Error {
    /// `policy.downgrade`, `policy.equivocation` or `policy.name`: why a bundle may not follow the one in force, if
    /// this is a reason of that kind.
    #[must_use]
    pub const fn succession(&self) -> Option<&'static str> {
        match self {
            Self::Rollback { .. } => Some("policy.downgrade"),
            Self::Equivocation { .. } => Some("policy.equivocation"),
            Self::OtherName { .. } => Some("policy.name"),
            Self::Load(_)
            | Self::Unsigned
            | Self::Signature(_)
            | Self::OtherBytes
            | Self::Validity { .. }
            | Self::Observe { .. }
            | Self::OtherManifest(_)
            | Self::Engine(_)
            | Self::SelfTest(_)
            | Self::Archive(_) => None,
        }
    }

    /// What to do about it.
    pub const fn next(&self) -> &'static str {
        match self {
            Self::Load(_) | Self::Engine(_) | Self::SelfTest(_) | Self::Archive(_) => {
                "`wicketgate policy check DIR` says what is wrong, each with its line"
            }
            Self::Unsigned | Self::Signature(_) | Self::OtherBytes => {
                "sign it as it is: `wicketgate policy sign DIR --key KEY`, with a key of `trust.policy_keys`"
            }
            Self::Validity { .. } | Self::OtherManifest(_) => {
                "change `bundle.json`, raise its `version`, and sign it again"
            }
            Self::Observe { .. } => {
                "name an earlier `until` in `bundle.json`, raise its `version`, and sign it again"
            }
            Self::Rollback { .. } | Self::Equivocation { .. } => {
                "raise `version` in `bundle.json` above the one in force, and sign it again"
            }
            Self::OtherName { .. } => "sign it under the name in force",
        }
    }
}

pub(super) fn list(errors: &[LoadError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The place and the text of an engine's message, without the source text it quotes.
///
/// Values that are not plain names are masked: they may come from a call's arguments.
pub(super) fn read_engine_message(text: &str) -> (String, u32, u32, String) {
    let place = text.lines().find_map(|line| line.strip_prefix("--> "));
    let mut parts = place.unwrap_or_default().rsplitn(3, ':');
    let column = parts.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let line = parts.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    let file = parts.next().unwrap_or(".").to_owned();
    let message = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("error: "))
        .unwrap_or_else(|| text.lines().next().unwrap_or_default());
    (file, line, column, mask(message))
}

fn mask(message: &str) -> String {
    let message = message.split(". Got").next().unwrap_or_default();
    let masked: Vec<&str> = message
        .split('`')
        .enumerate()
        .map(|(i, part)| if i % 2 == 1 && !is_name(part) { "…" } else { part })
        .collect();
    masked.join("`").chars().take(256).collect()
}

fn is_name(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_message_gives_its_place_and_keeps_arguments_to_itself() {
        let text = "\n--> agent/a.rego:3:7\n  |\n3 | x if startswith(input.a, \"b\")\n  |       ^\nerror: `startswith` expects string argument. Got `[\"secret\"]` instead";
        let (file, line, column, message) = read_engine_message(text);
        assert_eq!((file.as_str(), line, column), ("agent/a.rego", 3, 7));
        assert_eq!(message, "`startswith` expects string argument");
        assert_eq!(read_engine_message("bad `4111 1111`").3, "bad `…`");
    }
}
