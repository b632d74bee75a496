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

#[path = "../faults/agent.rs"]
mod agent;
#[path = "../faults/checker.rs"]
mod checker;
#[path = "../faults/sidecar.rs"]
mod sidecar;
#[path = "../faults/tool.rs"]
mod tool;

mod cut_off;
mod desk;
mod file;
mod fleet;
mod glass;
mod kill;
mod road;
mod selftest;
mod stores;
mod suspend;
mod unsigned;

#[path = "../support/inside.rs"]
mod inside;
#[path = "../support/mod.rs"]
mod support;

#[path = "../support/waiting.rs"]
mod waiting;

use waiting::{pause, until, within};
