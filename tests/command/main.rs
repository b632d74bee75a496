//! Sandboxed commands through the built program: what works in there, and what nothing gets out of.
//!
//! Judged by what is there afterwards: files, connections, processes.
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

mod benign;
mod check;
mod directory;
mod escape;
mod launch;
mod limits;
mod modes;
mod others;
mod processor;
mod servers;
mod start;
mod together;
mod workspace;

use wicketgate_support::{agent, commands as estate, home, ports, process, waiting};
