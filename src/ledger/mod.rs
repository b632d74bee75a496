//! The books.
pub mod entry;
pub mod permit;
pub mod schema;
pub mod store;
pub mod verify;
