//! Witnesses: formats others read, the server through the built program and raw HTTP, the client, time
//! stamps by stock `openssl`, and what a verifier makes of it all.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    reason = "tests may stop at the first surprise, and look at a clock that is not the program's"
)]

mod anchors;
mod client;
mod crash;
mod formats;
mod process;
mod server;
mod stamps;

use wicketgate_support::authority;
use wicketgate_support::forged::{self, bundle};
