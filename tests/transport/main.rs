//! The ways in and out of a gate: agents from other pods over mutual TLS, certificates that change while it runs,
//! and its own database over TLS; through the built program, with stock clients.
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

use std::time::Duration;

#[path = "../faults/agent.rs"]
mod agent;
#[path = "../faults/checker.rs"]
mod checker;
#[path = "../faults/sidecar.rs"]
mod sidecar;
#[path = "../faults/tool.rs"]
mod tool;

mod database;
mod ending;
mod house;
mod mtls;
mod quiet;
mod swap;

#[path = "../support/ca.rs"]
mod ca;
#[path = "../support/mod.rs"]
mod support;

#[path = "../support/waiting.rs"]
mod waiting;

use waiting::{pause, until, within};

/// How long anything may take that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);
