//! What approvers sign, checked by us and by stock OpenSSH, and every signature that has to count for nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    missing_docs,
    reason = "tests may stop at the first surprise"
)]

mod hardware;
mod holds;
mod list;
mod passkey;
mod statement;
mod stock;
