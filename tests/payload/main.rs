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

mod backtest;

mod erase;
mod hold;
mod incognito;
mod orders;
mod postgres;
mod redact;
mod sealed;

use wicketgate_support::{checker, keeper, record as json_entry, sidecar};
