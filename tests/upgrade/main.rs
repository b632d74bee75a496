//! A gate that takes over from the one before it. A SQLite ledger of schema 8 (`tests/data/schema8`) is upgraded; an older
//! one is refused and left as it is, its configuration is served and its evidence verified. `tests/data/upgrade` was made
//! by `tests/upgrade/make.py` with the commit that its `MADE` names; there is no release to upgrade from yet.
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

mod older;
mod postgres;
mod rolling;
mod schema8;
mod sqlite;

use wicketgate_support::{agent, sidecar, tool};
