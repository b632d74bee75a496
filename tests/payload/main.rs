//! What calls carried: erased, held, expired, redacted, encrypted and never stored, through the built
//! program on real databases.
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
#[path = "../support/record.rs"]
mod json_entry;
#[path = "../faults/sidecar.rs"]
mod sidecar;
#[path = "../support/mod.rs"]
mod support;

mod backtest;
mod desk;
mod tool;

mod erase;
mod hold;
mod incognito;
mod orders;
mod postgres;
mod redact;
mod sealed;

#[path = "../support/waiting.rs"]
mod waiting;

use waiting::{pause, until};
