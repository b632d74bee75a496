//! The operator console as browsers meet it: sessions, forms, headers and pages, over real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise"
)]

#[path = "../operator/api.rs"]
#[allow(dead_code, reason = "the tests of the operator API use all of it")]
mod api;
mod browser;
mod forms;
mod governed;
mod issuer;
mod live;
mod oidc;
mod pages;
mod replicas;
mod sessions;
mod tables;

use wicketgate_support::record as json_entry;
