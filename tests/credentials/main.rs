//! A credential of the gate in every encoding and at every kind of tool: it goes in nowhere and comes out nowhere.
//! Personal data that a policy has masked comes out nowhere either.
//!
//! `tests/fetch` asks the same of URLs, in a network of its own.
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

mod alerts;
mod corpus;
mod demanded;
mod guesses;
mod kinds;
mod own_rules;
mod personal;
mod secrets;
mod tokens;
mod world;

use wicketgate_support::{agent, commands as estate, encodings, private, process};
