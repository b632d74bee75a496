//! Operators stop agents: the list of orders in three stores, and gates that obey it, through the built
//! program: a real process, a real database, a real tool that counts for itself.
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

mod cleared;
mod cut_off;
mod file;
mod fleet;
mod glass;
mod kill;
mod parts;
mod road;
mod selftest;
mod stores;
mod suspend;
mod unsigned;

use waiting::{pause, until, within};
use wicketgate_support::{agent, checker, control, inside, sidecar, tool, waiting};
