//! The books.
pub mod entry;
pub mod permit;
pub mod store;
