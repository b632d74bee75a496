//! What several test binaries share. Use it with `#[path = "../support/mod.rs"] mod support;`.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise, and not every binary uses everything"
)]

pub mod pg;
pub mod ports;
