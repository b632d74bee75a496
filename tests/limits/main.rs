//! Limits that hold: through the built program where one gate is enough, through several gates over one
//! store where they share a pool.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    reason = "tests may stop at the first surprise, and look at a clock that is not the gate's"
)]

mod again;
mod batches;
mod breakers;
mod conversations;
mod duties;
mod floods;
mod forgotten;
mod models;
mod order;
mod pools;
mod settings;
mod shared;

use waiting::until;
use wicketgate_support::{agent, checker, collector, in_process, private, sidecar, tool, waiting};
