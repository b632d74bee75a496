//! The log of logs and what hangs on it: heads that others have seen, ledgers that were set back, losses
//! that are told, keys that change. Through the built program, on real databases, with a real witness.
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

mod anchor;
mod keys;
mod origins;
mod recover;
mod rollback;
mod shared;

use waiting::until;
use wicketgate_support::{fleet, sidecar, tool, waiting};
