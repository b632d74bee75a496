//! Exports through the built program, on real databases: spans and populations, with a time stamping
//! authority beside the fleet log, and killed at the worst moments.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may stop at the first surprise, and look at a clock that is not the gate's"
)]

mod auditor;
mod killed;
mod scopes;
mod stamps;
mod tsa;

use wicketgate_support::{authority, fleet, sidecar, tool};
