//! The operator's side: who is let in, what is shown of a held call, and what is said of an order.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise"
)]

mod access;
mod api;
mod approvals;
mod commands;
mod control;
mod crowd;
mod evidence;
mod grpc;
mod health;
mod hub;
mod index;
mod live;
mod pending;
mod search;
mod webhook;

use wicketgate_support::{observed as gate, record as json_entry};
