//! The ledger in PostgreSQL 15 or later, shared by many writers, each alone on its chain.
//!
//! Every call is one transaction in one round trip: its beginning, one statement with bound values, and its end are sent
//! together. No statement is prepared and no state of the session is touched, so every call works through a pooler in
//! transaction mode. Values are bound in binary; a statement's text holds none. Arguments and the lease's secret are
//! among them, so nothing is logged on our side, and [`migrate`] turns it off for the writer roles on the server's side.

mod address;
mod errors;
mod keeper;
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

pub use keeper::PostgresKeeper;
pub use lane::Options;
pub use migrate::{Login, Migrated, migrate};
pub use pools::PostgresPools;
pub use protection::unprotected;
pub use prune::PostgresPruner;
pub use reader::PostgresReader;
pub use reaper::PostgresReaper;
pub use version::SCHEMA_VERSION;
pub use writer::{PostgresStore, ServerSettings};
