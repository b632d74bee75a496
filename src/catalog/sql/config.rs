//! `sql:` of a tool, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::check::{CONNECTIONS, CONNECTIONS_MAX, ROWS, ROWS_MAX};
use crate::form::FilePath;

/// A database and what may be asked of it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SqlConfig {
    /// Kind of database: `postgres` or `sqlite`.
    #[schemars(extend("examples" = ["postgres", "sqlite"]))]
    pub engine: String,
    /// File that holds `postgres://user:password@host:port/database`, relative to the configuration file. It is a secret,
    /// and the gate reads it once.
    #[schemars(with = "Option<FilePath>")]
    pub url_file: Option<PathBuf>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub ca_file: Option<PathBuf>,
    /// Address ranges outside the public Internet that the database may be reached at.
    #[serde(default)]
    #[schemars(example = ["10.0.0.0/8"])]
    pub private_addresses: Vec<String>,
    /// The SQLite file, relative to the configuration file.
    #[schemars(with = "Option<FilePath>")]
    pub path: Option<PathBuf>,
    /// PostgreSQL schemas that unqualified names of named queries are looked up in. Default: `public`.
    pub search_path: Option<Vec<String>>,
    /// Statements of the operator, by name. The agent chooses one and gives its parameters.
    #[serde(default)]
    pub queries: BTreeMap<String, Query>,
    /// Tables and views that an agent's own SELECT may read: `schema.table`, `schema.*`; with SQLite `table` or `*`.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Functions that an agent's own SELECT may call beyond the built-in list; with PostgreSQL `schema.function`.
    #[serde(default)]
    pub functions: Vec<String>,
    /// Milliseconds after which the database itself cancels a statement, at most `timeout_ms`.
    /// Default: three quarters of `timeout_ms`.
    #[schemars(range(min = 1))]
    pub statement_timeout_ms: Option<u64>,
    /// Maximum number of rows in one answer.
    #[schemars(range(min = 1, max = ROWS_MAX), extend("default" = ROWS))]
    pub rows_max: Option<u64>,
    /// Maximum number of connections at the same time.
    #[schemars(range(min = 1, max = CONNECTIONS_MAX), extend("default" = CONNECTIONS))]
    pub connections_max: Option<u64>,
}

/// One statement of the operator.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// One SELECT, INSERT, UPDATE, DELETE or MERGE, with `$1`, `$2`, … for its parameters.
    #[schemars(example = "SELECT id, total FROM invoices WHERE customer = $1")]
    pub text: String,
    /// Parameters of the statement. The first is `$1`.
    #[serde(default)]
    pub params: Vec<Param>,
}

/// One parameter of a named query.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// Name of the argument: `[A-Za-z_][A-Za-z0-9_]{0,63}`.
    pub name: String,
    /// JSON Schema of the value. Without a type the value may be text, a number, a boolean or null.
    pub schema: Option<serde_json::Value>,
    /// Whether the agent may leave the argument out. The parameter is NULL then.
    #[serde(default)]
    pub optional: bool,
}
