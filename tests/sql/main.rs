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

use waiting::until;
use wicketgate_support::{agent, ca, checker, keeper, private, sidecar, waiting};
