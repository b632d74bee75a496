//! A gate that takes over from the one before it: what an older build of this repository wrote, served, continued and
//! verified by this one. `tests/data/upgrade` and `tests/data/upgrade-postgres` were made by `tests/upgrade/make.py` with
//! the commits that their `MADE` names; there is no release to upgrade from yet.
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

mod older;
mod postgres;
mod rolling;
mod sqlite;

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/waiting.rs"]
mod waiting;

use waiting::{pause, until, within};
