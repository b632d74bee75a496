//! Runs recorded and replayed through the built program, by agents in processes of their own. The tools of the
//! recorded runs are a server that counts who came: while a recording is replayed it is gone.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may stop at the first surprise"
)]

mod rig;
mod tool;

mod drifted;
mod family;
mod faults;
mod forked;
mod frameworks;
mod glass;
mod named;
mod opened;
mod recorded;
mod replayed;
mod spoiled;

use wicketgate_support::{home, process};
