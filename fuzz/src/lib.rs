//! The bodies of `tests/fuzz`, for libFuzzer: the same functions, not a copy.

#![allow(missing_docs)]

#[path = "../../tests/fuzz/bodies/mod.rs"]
pub mod bodies;
