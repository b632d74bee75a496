//! `ledger`: where entries go.

use std::fmt;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::form::FilePath;

/// `ledger`: exactly one store.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[schemars(extend("x-error" = "expected exactly one of `sqlite` and `postgres`"))]
pub enum Ledger {
    /// One SQLite file of this gate's own.
    Sqlite(Sqlite),
    /// A PostgreSQL database that gates share. Exactly one of `url`, `url_file` and `url_env` names it.
    Postgres(Postgres),
}

impl Default for Ledger {
    fn default() -> Self {
        Self::Sqlite(Sqlite::default())
    }
}

/// `ledger.sqlite`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sqlite {
    /// The database file. Default: `ledger.sqlite` in the state directory.
    #[schemars(with = "FilePath")]
    pub path: PathBuf,
}

/// `ledger.postgres`: exactly one of `url` (without a password), `url_file` and `url_env`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Postgres {
    /// Connection URL without a password.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = "postgres://gate@db.example.com/wicketgate?sslmode=verify-full")]
    pub url: Option<String>,
    /// A file of mode 0600 that holds the connection URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub url_file: Option<PathBuf>,
    /// Name of the environment variable that holds the connection URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub url_env: Option<String>,
    /// The tenant that the gate's chains in the database belong to.
    #[schemars(
        regex(pattern = r"^[a-z0-9_-]{1,63}$"),
        extend("x-error" = "expected a tenant: [a-z0-9_-]{1,63}")
    )]
    pub tenant: String,
    /// The pool from which this sidecar takes its slot: `local`, or `<namespace>/<service
    /// account>`.
    #[schemars(with = "SlotPool")]
    pub slots: String,
    /// Directory where the gate writes the exact bytes of the latest batches before it acknowledges
    /// them. Default: `spool` in the state directory.
    #[schemars(with = "FilePath")]
    pub spool: PathBuf,
    /// Seconds without a sign of life after which another sidecar may take over a sidecar's slot.
    #[schemars(range(min = 2, max = 300))]
    pub lease_seconds: u64,
    /// Whether to serve although a fail-over of this database may lose acknowledged entries.
    pub accept_failover_loss: bool,
    /// Whether to connect beyond this machine although `sslmode` is weaker than `verify-full`, so that the server's name
    /// is not verified.
    pub accept_unverified_server: bool,
    /// The connection URL, read once.
    #[serde(skip)]
    pub connect: Secret,
}

/// The schema of a pool of slots.
#[derive(JsonSchema)]
#[schemars(extend("x-error" = "expected a pool: local, or <namespace>/<service account>"))]
pub(super) struct SlotPool(
    #[schemars(regex(pattern = r"^[a-z0-9-]{1,63}(/[a-z0-9-]{1,63})?$"))]
    #[expect(dead_code, reason = "only its schema is used")]
    String,
);

impl Default for Postgres {
    fn default() -> Self {
        Self {
            url: None,
            url_file: None,
            url_env: None,
            tenant: "default".to_owned(),
            slots: "local".to_owned(),
            spool: PathBuf::new(),
            lease_seconds: 15,
            accept_failover_loss: false,
            accept_unverified_server: false,
            connect: Secret::default(),
        }
    }
}

/// A value that no output, log or error shows. Zeroed when dropped.
#[derive(Clone, Default)]
pub struct Secret(zeroize::Zeroizing<String>);

impl Secret {
    pub(super) const fn new(value: zeroize::Zeroizing<String>) -> Self {
        Self(value)
    }

    /// The value itself, for the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
