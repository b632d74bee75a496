//! The clients of `clients/` against the built program: their own surface, the agent frameworks that they adapt tools to,
//! and functions whose bodies run behind the gate. The frameworks are those that `tests/run` installs for `tests/agents`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::needless_pass_by_value,
    reason = "tests may stop at the first surprise"
)]

mod document;
mod gate;
mod program;

mod frameworks;
mod functions;
mod models;
mod pages;
mod surface;
mod typescript;

use wicketgate_support::{files, home, people, process, ran, sidecar};
