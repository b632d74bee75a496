//! The ledger in PostgreSQL 15 or later, shared by many writers, each alone on its chain.
//!
//! Every call is one transaction in one round trip: BEGIN, one statement with bound values, and
//! COMMIT are sent together. No statement is prepared and no session state is changed, so every
//! call works through a pooler in transaction mode. Values are bound in binary and never part of a
//! statement's text. They include arguments and the lease's secret, so our side logs nothing, and
//! [`migrate`] turns off the server's logging for the writer roles.

mod address;
mod eraser;
mod errors;
pub(crate) mod lane;
mod link;
mod migrate;
mod pools;
mod protection;
mod prune;
mod reader;
mod reaper;
pub(crate) mod rows;
mod subtrees;
pub(crate) mod values;
mod version;
pub(crate) mod writer;

pub use eraser::PostgresEraser;
pub use lane::Options;
pub use migrate::{Login, Migrated, migrate};
pub use pools::PostgresPools;
pub use protection::unprotected;
pub use prune::PostgresPruner;
pub use reader::PostgresReader;
pub use reaper::PostgresReaper;
pub use version::SCHEMA_VERSION;
pub use writer::{PostgresStore, ServerSettings};
