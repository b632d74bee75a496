//! `ledger`: where entries go.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `ledger`: exactly one store.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ledger {
    /// One file on this machine.
    Sqlite(Sqlite),
    /// A shared database.
    Postgres(Postgres),
}

/// `ledger.sqlite`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sqlite {
    /// The database file.
    pub path: PathBuf,
}

/// `ledger.postgres`: exactly one of `url` (without a password), `url_file` and `url_env`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    /// A connection URL without a password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// A file of mode 0600 that holds the connection URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_file: Option<PathBuf>,
    /// An environment variable that holds the connection URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url_env: Option<String>,
    /// Whose entries these are.
    pub tenant: String,
    /// The pool of slots this sidecar takes one of: `local`, or `<namespace>/<service account>`.
    pub slots: String,
    /// Directory for the exact bytes of the last batches, kept before they are acknowledged.
    pub spool: PathBuf,
    /// Seconds after which the slot of a sidecar that went silent may be taken over.
    pub lease_seconds: u64,
    /// Serve although a fail-over of this database may lose acknowledged entries.
    pub accept_failover_loss: bool,
    /// Connect beyond this machine although nobody checks which server answers there (`sslmode` weaker than
    /// `verify-full`).
    pub accept_unverified_server: bool,
    /// The connection URL, read once.
    #[serde(skip)]
    pub connect: Secret,
}

/// A value that is never shown, logged or printed. Zeroed when dropped.
#[derive(Clone, Default)]
pub struct Secret(zeroize::Zeroizing<String>);

impl Secret {
    pub(super) const fn new(value: zeroize::Zeroizing<String>) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that needs it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
