//! The three stores: what they share, and what each alone promises.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    reason = "tests may stop at the first surprise"
)]

mod batches;
#[macro_use]
mod conformance;
mod memory;
mod postgres;
mod proofs;
mod proxy;
mod reaper;
mod rig;
mod sqlite;

use wicketgate_support::record as json_entry;
