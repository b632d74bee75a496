//! Bundles that hold, and every way of tampering with one that has to be noticed.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    clippy::too_many_lines,
    clippy::type_complexity,
    missing_docs,
    reason = "tests hold long tables of cases and may stop at the first surprise"
)]

mod alone;
mod approvals;
mod chain;
mod chosen;
mod exceptions;
mod families;
mod flip;
mod glass;
mod insider;
mod named;
mod observed;
mod orders;
mod progress;
mod proposals;
mod replay;
mod scopes;
mod tamper;
mod templates;
mod times;
mod windows;
mod zips;

use wicketgate_support::forged::{self, approved, bundle};
