//! Bad input and faults, through the built program: a real process, a real database, a real tool that
//! counts for itself, and a ledger that is read by code that is not ours.
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

mod archived;
mod bad_input;
mod clock;
mod crash;
mod database;
mod disk;
mod ending;
mod passing;
mod reload;
mod slots;
mod stopped;
mod syscalls;
mod telemetry;
mod traces;

use waiting::{pause, until, within};
use wicketgate_support::{agent, ca, checker, collector, proxy, sidecar, tool, waiting};
