//! The books in PostgreSQL 15 or later, shared by many writers, each alone on its chain.
//!
//! Every call is one simple-protocol query: one round trip, no prepared statement, no session state,
//! so that it works through a pooler in transaction mode. Values are written by [`literal`] only.
//! The statement's text holds arguments and the lease's secret, so statement logging is off on our
//! side, and [`migrate`] turns it off for the writer roles on the server's side.

mod errors;
mod keeper;
pub(crate) mod lane;
pub(crate) mod literal;
mod migrate;
mod pools;
mod protection;
mod prune;
mod reader;
mod reaper;
pub(crate) mod rows;
mod subtrees;
mod version;
pub(crate) mod writer;

pub use keeper::PostgresKeeper;
pub use lane::Options;
pub use migrate::{Login, Migrated, SCHEMA_VERSION, migrate};
pub use pools::PostgresPools;
pub use protection::unprotected;
pub use prune::PostgresPruner;
pub use reader::PostgresReader;
pub use reaper::PostgresReaper;
pub use writer::{Postgres, Settings};
