//! The quickstart's bundle, checked by programs that nobody here wrote, by the commands VERIFY.md gives.
//!
//! The bundle is made by the built binary. What is run is read out of the bundle's own VERIFY.md: the indented
//! lines with Python's standard library and OpenSSL, the `python` blocks with the pinned packages of
//! `tests/interop/evidence.txt`, which `tests/run` installs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may stop at the first surprise"
)]

mod approvals;
mod checker;
mod demo;
mod guide;
mod page;
mod scopes;
mod stamps;

use wicketgate_support::forged::{self, approved, bundle};
