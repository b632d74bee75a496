//! `sql:` of a tool, exactly as it may be written.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::catalog::described::described;

described! {
/// A database and what may be asked of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sql {
    /// `postgres` or `sqlite`.
    pub engine: String,
    /// File with `postgres://user:password@host:port/database`, relative to the configuration file;
    /// a secret, read once.
    pub url_file: Option<PathBuf>,
    /// PEM file of the only certificate authorities to trust, relative to the configuration file.
    pub ca_file: Option<PathBuf>,
    /// Address ranges outside the public Internet that the database may be reached at.
    #[serde(default)]
    pub private_addresses: Vec<String>,
    /// The SQLite file, relative to the configuration file.
    pub path: Option<PathBuf>,
    /// Schemas that unqualified names of named queries are looked up in; `public` if absent (PostgreSQL).
    pub search_path: Option<Vec<String>>,
    /// Statements the operator wrote, by name. The agent chooses one and gives its parameters.
    #[serde(default)]
    pub queries: BTreeMap<String, Query>,
    /// Tables and views an agent's own SELECT may read: `schema.table`, `schema.*`; SQLite: `table`, `*`.
    #[serde(default)]
    pub tables: Vec<String>,
    /// Functions an agent's own SELECT may call beyond the built-in list; PostgreSQL: `schema.function`.
    #[serde(default)]
    pub functions: Vec<String>,
    /// When the database itself gives up: 1 to `timeout_ms`; three quarters of that if absent.
    pub statement_timeout_ms: Option<u64>,
    /// Rows of one answer: 1 to 100,000, 1,000 if absent.
    pub rows_max: Option<u64>,
    /// Connections at the same time: 1 to 64, 4 if absent.
    pub connections_max: Option<u64>,
}

/// One statement of the operator.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Query {
    /// One SELECT, INSERT, UPDATE, DELETE or MERGE, with `$1`, `$2`, … for its parameters.
    pub text: String,
    /// Its parameters: the first is `$1`.
    #[serde(default)]
    pub params: Vec<Param>,
}

/// One parameter of a named query.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Param {
    /// The argument's name: `[A-Za-z_][A-Za-z0-9_]{0,63}`.
    pub name: String,
    /// JSON Schema of its value; without a type it may be any plain value.
    pub schema: Option<serde_json::Value>,
    /// It may be left out, and is NULL then.
    #[serde(default)]
    pub optional: bool,
}
}
