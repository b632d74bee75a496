//! The bodies of `tests/fuzz`, for libFuzzer: the same functions, not a copy.

#![allow(dead_code, missing_docs)]

#[path = "../../tests/fuzz/bodies/mod.rs"]
pub mod bodies;
#[path = "../../tests/evidence/books.rs"]
mod books;
#[path = "../../tests/evidence/desk.rs"]
mod desk;
