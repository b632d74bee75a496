//! The books.
pub mod entry;
pub mod memory;
pub mod permit;
pub mod postgres;
pub mod sqlite;
pub mod store;
