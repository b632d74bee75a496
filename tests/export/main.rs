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

#[path = "../faults/agent.rs"]
mod agent;
#[path = "../support/authority.rs"]
mod authority;
#[path = "../faults/checker.rs"]
mod checker;
#[path = "../fleet/desk.rs"]
mod desk;
#[path = "../faults/sidecar.rs"]
mod sidecar;
#[path = "../support/mod.rs"]
mod support;
#[path = "../faults/tool.rs"]
mod tool;
#[path = "../support/waiting.rs"]
mod waiting;

mod auditor;
mod door;
mod killed;
mod scopes;
mod stamps;

use waiting::{pause, until, within};
