//! Why a manifest, a caller or a token is refused. Every kind has a stable dotted code.

use crate::crypto::keys;
use crate::yaml;

/// Why an identity does not hold.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The manifest is not strict YAML.
    #[error("{0}")]
    Format(yaml::Error),
    /// Fields of the manifest are wrong: all of them.
    #[error("{}", lines(.0))]
    Schema(Vec<yaml::Error>),
    /// The signature is missing, made by an untrusted key, or over other bytes.
    #[error("{path}: signatures: {why}")]
    Signature {
        /// The signature file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// Too few trusted keys signed.
    #[error("{path}: signatures: {found} of the {required} required trusted signatures are valid")]
    Threshold {
        /// The signature file.
        path: String,
        /// Distinct trusted keys with a valid signature.
        found: usize,
        /// How many are required.
        required: usize,
    },
    /// The envelope names an algorithm, or carries a signature that cannot be Ed25519.
    #[error("{path}: signatures: {why}")]
    Algorithm {
        /// The signature file.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// A trusted or signing key cannot be used.
    #[error(transparent)]
    Key(#[from] keys::Error),
    /// A template that the manifest names cannot be used.
    #[error("{path}: {why}")]
    Template {
        /// The template.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The manifest's time is over.
    #[error("{path}: spec.validity.not_after: expired at `{at}`")]
    Expired {
        /// The manifest.
        path: String,
        /// `not_after`.
        at: String,
    },
    /// The manifest's time has not begun.
    #[error("{path}: spec.validity.not_before: not valid before `{at}`")]
    NotYetValid {
        /// The manifest.
        path: String,
        /// `not_before`.
        at: String,
    },
    /// An older version than one already used.
    #[error(
        "manifest `{name}`: metadata.version: `{version}` is older than `{previous}`, used before"
    )]
    Downgrade {
        /// The agent.
        name: String,
        /// The refused version.
        version: String,
        /// The newest version used.
        previous: String,
    },
    /// The same version with other bytes.
    #[error("manifest `{name}`: metadata.version: `{version}` was used before with other content")]
    Equivocation {
        /// The agent.
        name: String,
        /// The version.
        version: String,
    },
    /// Callers are not mapped to manifests without doubt.
    #[error("{key}: {message}")]
    Callers {
        /// The field of the configuration: `agents[0].callers[1].token_file`.
        key: String,
        /// What is wrong.
        message: String,
    },
    /// The key of the run tokens cannot be used.
    #[error("{path}: {why}")]
    TokenKey {
        /// The file.
        path: String,
        /// What is wrong.
        why: String,
    },
}

impl Error {
    /// What to do about it, where that is always the same.
    pub const fn next(&self) -> Option<&'static str> {
        match self {
            Self::Signature { .. } | Self::Threshold { .. } | Self::Algorithm { .. } => Some(
                "sign the file as it is: `wicketgate manifest sign FILE --key KEY`, with a key of `trust.manifest_keys`",
            ),
            Self::Io { .. } => Some(
                "a manifest lies beside its `.sig.json`: `wicketgate manifest init`, then `sign`",
            ),
            Self::Template { .. } => Some(
                "templates lie in the directory `templates` beside the manifest, each as `<SHA-256 of its bytes>.txt`, and are not edited",
            ),
            Self::Expired { .. } => {
                Some("sign a newer version with a later `spec.validity.not_after`")
            }
            Self::NotYetValid { .. } => Some("wait, or sign an earlier `spec.validity.not_before`"),
            Self::Downgrade { .. } | Self::Equivocation { .. } => {
                Some("raise `metadata.version` and sign it again")
            }
            Self::Format(_)
            | Self::Schema(_)
            | Self::Key(_)
            | Self::Callers { .. }
            | Self::TokenKey { .. } => None,
        }
    }

    /// The stable code: `manifest.format`, `manifest.schema`, `manifest.signature`, …
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } => "manifest.unreadable",
            Self::Format(_) => "manifest.format",
            Self::Schema(_) => "manifest.schema",
            Self::Signature { .. } => "manifest.signature",
            Self::Threshold { .. } => "manifest.threshold",
            Self::Algorithm { .. } => "manifest.alg",
            Self::Key(_) => "manifest.key",
            Self::Template { .. } => "manifest.template",
            Self::Expired { .. } => "manifest.expired",
            Self::NotYetValid { .. } => "manifest.not_yet_valid",
            Self::Downgrade { .. } => "manifest.downgrade",
            Self::Equivocation { .. } => "manifest.equivocation",
            Self::Callers { .. } => "callers.config",
            Self::TokenKey { .. } => "token.key",
        }
    }
}

fn lines(errors: &[yaml::Error]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Why a request has no identity. Every face answers `identity.missing` with this message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IdentityError {
    /// No credential was shown, and neither socket peer nor certificate is known.
    #[error(
        "the request carries no credential and the connection maps to no agent: send `authorization: Bearer` and one"
    )]
    Missing,
    /// `authorization` holds something else than one bearer credential.
    #[error("`authorization` must be `Bearer` and one credential")]
    Malformed,
    /// The client showed a credential that is not configured.
    #[error("unknown credential")]
    Unknown,
    /// Token, socket peer and certificate do not all belong to the same caller.
    #[error("the credentials belong to different callers: send only one")]
    Ambiguous,
}

impl IdentityError {
    /// Every one, for code that goes over all of them.
    pub const ALL: [Self; 4] = [Self::Missing, Self::Malformed, Self::Unknown, Self::Ambiguous];

    /// The finer code beside `identity.missing`.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Missing => "credential.missing",
            Self::Malformed => "credential.malformed",
            Self::Unknown => "credential.unknown",
            Self::Ambiguous => "credential.ambiguous",
        }
    }
}
