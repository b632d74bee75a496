//! What is wrong with a caller of the configuration.

use std::path::PathBuf;

use super::TOKEN_CHARS_MIN;
use crate::crypto::private;
use crate::domain::token::Family;
use crate::identity::certificate::NoThumbprint;

/// What is wrong with a caller entry.
#[derive(Debug, thiserror::Error)]
pub enum CallerError {
    /// Not a service account.
    #[error("`{0}` is not a service account like `agents/reviewer`: its namespace and its name")]
    Account(String),
    /// A service account of no cluster.
    #[error(
        "`k8s_service_account` needs `trust.kubernetes`: the issuer and the keys of its cluster"
    )]
    NoCluster,
    /// A second form beside this one.
    #[error("`{0}` stands alone")]
    Alone(&'static str),
    /// A `uid` without a socket that it could come over.
    #[error("`socket` is missing and `listen.socket` is off")]
    NoSocket,
    /// A socket that every user may use.
    #[error("`socket` needs a `uid`")]
    NoUid,
    /// No form at all.
    #[error(
        "expected `uid` (with `socket`), `spiffe`, `certificate`, `token_file` or `k8s_service_account`"
    )]
    NoForm,
    /// Not a SPIFFE id in its one spelling.
    #[error("`{0}` is not a SPIFFE id like `spiffe://example.org/ns/agents/sa/reviewer`")]
    Spiffe(String),
    /// Not a thumbprint.
    #[error(transparent)]
    Certificate(#[from] NoThumbprint),
    /// A token file that cannot be used.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// A user of one socket that another entry has.
    #[error("uid `{uid}` on `{}` is mapped twice", .1.display(), uid = .0)]
    PeerTwice(u32, PathBuf),
    /// A SPIFFE id or thumbprint that another entry has.
    #[error("`{0}` is mapped twice")]
    Twice(String),
    /// A token that another entry has.
    #[error("the token in `{}` is mapped twice", .0.display())]
    TokenTwice(PathBuf),
}

/// What is wrong with a token file. Never shows its content.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read, or other users may read it.
    #[error("token file {0}")]
    File(#[from] private::Error),
    /// Not one line, or too short.
    #[error("token file `{}` needs one line of at least {TOKEN_CHARS_MIN} printable characters", .0.display())]
    Form(PathBuf),
    /// A token that was not copied whole.
    #[error(
        "the token in `{}` begins as one that wicketgate made, and its checksum is wrong: copy it whole",
        .0.display()
    )]
    Checksum(PathBuf),
    /// A token of another family.
    #[error(
        "the token in `{}` is one of kind `{}`: make one with `wicketgate config keygen --token {} --out FILE`",
        .path.display(), .found.as_str(), .expected.as_str()
    )]
    Family {
        /// The file.
        path: PathBuf,
        /// The family of the token.
        found: Family,
        /// The required family.
        expected: Family,
    },
}
