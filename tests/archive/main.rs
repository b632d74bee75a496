//! Ledgers that were damaged by whoever owns the database, archives as tiles, and pruning: all through
//! the program itself.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    clippy::disallowed_methods,
    clippy::print_stderr,
    dead_code,
    missing_docs,
    reason = "tests may stop at the first surprise"
)]

mod blocks;
mod bucket;
mod damage;
mod gone;
mod holds;
mod ledgers;
mod prune;
mod tiles;

use wicketgate_support::{forged, record as json_entry};
