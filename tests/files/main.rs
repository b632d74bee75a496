//! Files behind the gate, through the built program: read, listed, written, and put back. What happened is
//! read off the file system, never off what the gate says of itself.
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

mod rig;

mod faults;
mod list;
mod names;
mod races;
mod read_back;
mod rollback;
mod steering;
mod write;

use wicketgate_support::{agent, checker, keeper, sidecar};
