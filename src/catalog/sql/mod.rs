//! The `sql` kind: a database, and either statements of the operator or a list of tables that an
//! agent's own SELECT may read.
//!
//! The gate never sends an agent's text: a parser reads it, the check refuses everything that is
//! not on a list and makes names unambiguous, and the gate sends the parser's own rendering of the
//! checked statement.

mod check;
pub mod config;
mod functions;
mod named;
mod names;
mod read;
mod walk;

pub use functions::SQLITE_OPERATORS;
pub use functions::{POSTGRES, SQLITE};
pub use read::{SQL_BYTES_MAX, StatementRefusal, free_form};

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Reach;
use super::address::Cidr;
use super::host::Origin;
use super::secret::Secret;
use crate::domain::closed::texts;
use crate::domain::effect::ToolKind;
use crate::domain::json::Json;

texts! {
    /// The database system, and so the dialect.
    pub enum Engine {
        /// PostgreSQL.
        Postgres = "postgres",
        /// SQLite.
        Sqlite = "sqlite",
    }
}

/// A checked `sql` binding.
#[derive(Debug)]
pub struct Sql {
    /// Where the database is.
    pub target: SqlTarget,
    /// The statements that the tool accepts.
    pub statements: StatementSource,
    /// The operator says it changes nothing, and the connection is opened read-only.
    pub read_only: bool,
    /// The database's own time limit.
    pub statement_timeout: Duration,
    /// Maximum number of rows in one answer.
    pub rows_max: u64,
    /// Maximum number of connections at the same time.
    pub connections_max: usize,
}

impl Reach for Sql {
    fn kind(&self) -> ToolKind {
        ToolKind::Sql
    }

    fn definition(&self) -> Json {
        check::facts(self)
    }

    fn origins(&self) -> Vec<Origin> {
        match &self.target {
            SqlTarget::Postgres(pg) => vec![pg.origin.clone()],
            SqlTarget::Sqlite(_) => Vec::new(),
        }
    }

    fn secrets(&self) -> Vec<Secret> {
        match &self.target {
            SqlTarget::Postgres(pg) => pg.password.iter().cloned().collect(),
            SqlTarget::Sqlite(_) => Vec::new(),
        }
    }
}

/// Where a database is.
#[derive(Debug)]
pub enum SqlTarget {
    /// A PostgreSQL server.
    Postgres(Box<Postgres>),
    /// A SQLite file: absolute, without symbolic links when it was checked.
    Sqlite(PathBuf),
}

/// A PostgreSQL server and the role we are there.
#[derive(Debug)]
pub struct Postgres {
    /// Host and port, and whether TLS is used.
    pub origin: Origin,
    /// The database.
    pub database: String,
    /// The login role.
    pub user: String,
    /// Its password, if it has one.
    pub password: Option<Secret>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// Schemas that unqualified names of named queries are looked up in.
    pub search_path: Vec<String>,
}

/// The statements that a tool accepts.
#[derive(Debug)]
pub enum StatementSource {
    /// One of these statements of the operator, by name; never empty.
    Named(BTreeMap<String, Named>),
    /// Any single SELECT over these.
    Free(Allowed),
}

/// One statement of the operator.
#[derive(Debug)]
pub struct Named {
    /// The statement, as the operator wrote it.
    pub statement: Arc<Statement>,
    /// Names of its parameters: the first is `$1`.
    pub params: Vec<String>,
}

/// What an agent's own SELECT may read and call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Allowed {
    /// Schema and table; a table `*` is every table of the schema. SQLite knows one schema, `main`.
    pub tables: BTreeSet<(String, String)>,
    /// Functions beyond the built-in list, as they must be written.
    pub functions: BTreeSet<String>,
}

impl Allowed {
    /// Whether this table may be read.
    #[must_use]
    pub fn table(&self, schema: &str, table: &str) -> bool {
        let has = |table: &str| self.tables.contains(&(schema.to_owned(), table.to_owned()));
        has(table) || (has("*") && !table.starts_with("sqlite_"))
    }

    /// The schema of a table written without one; `None` if none or several match.
    pub fn schema_of(&self, table: &str) -> Option<&str> {
        let named = |name: &str| {
            let mut all =
                self.tables.iter().filter(|(_, one)| one == name).map(|(s, _)| s.as_str());
            (all.next(), all.next())
        };
        match (named(table), named("*")) {
            ((Some(schema), None), _) | ((None, _), (Some(schema), None)) => Some(schema),
            ((Some(_), Some(_)), _) | ((None, _), (None | Some(_), _)) => None,
        }
    }
}

/// One statement, and the parser's findings in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    /// What is sent.
    pub text: String,
    /// `select`, `insert`, `update`, `delete` or `merge`.
    pub kind: &'static str,
    /// Whether anything in it writes.
    pub writes: bool,
    /// Tables and views it names, sorted: `schema.table`; without the schema for SQLite.
    pub relations: Vec<String>,
    /// Functions it calls, sorted.
    pub functions: Vec<String>,
    /// Names it gives to parts of itself (`WITH`), sorted.
    pub parts: Vec<String>,
    /// The highest parameter, or how many there are.
    pub params: usize,
    /// Columns the database must have for `a.b` to be one; empty for a statement of the operator.
    pub fields: Vec<Field>,
}

/// A column that at least one of these tables must have. If none had it, PostgreSQL would look for a function of
/// its name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Field {
    /// The column.
    pub column: String,
    /// Schema and table.
    pub relations: Vec<(String, String)>,
}
