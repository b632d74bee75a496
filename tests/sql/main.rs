//! Databases behind the gate: a real PostgreSQL and real SQLite files, through the built program. What an
//! attack did is read from the database and the disk, never from what the gate says.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    reason = "tests hold long tables, may stop at the first surprise, and look at a clock that is not the gate's"
)]

#[path = "../faults/agent.rs"]
mod agent;
#[path = "../support/ca.rs"]
mod ca;
#[path = "../faults/checker.rs"]
mod checker;
#[path = "../payload/desk.rs"]
mod desk;
#[path = "../support/private.rs"]
mod private;
#[path = "../faults/sidecar.rs"]
mod sidecar;
#[path = "../support/mod.rs"]
mod support;
#[path = "../faults/tool.rs"]
mod tool;
#[path = "../support/waiting.rs"]
mod waiting;

mod attacks;
mod bench;
mod binding;
mod faults;
mod named;
mod names;
mod postgres;
mod probe;
mod sqlite;
mod tls;

use waiting::{pause, until, within};
