//! Agents and servers nobody here wrote, through the built program: real clients, real servers, and the official
//! conformance suite; model SDKs and coding agents. What they need is installed by `tests/run`, which says where in
//! `WICKETGATE_TEST_MCP` and `WICKETGATE_TEST_LLM`.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may stop at the first surprise"
)]

mod client;
mod estate;
mod forwarder;
mod suite;

mod conformance;
mod first_day;
mod frameworks;
mod llm;

use wicketgate_support::{home, process};
