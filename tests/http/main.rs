//! HTTP and JSON for agents through the built program: bytes on a socket, as any client could send
//! them; and another's tests made of the OpenAPI document.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::needless_pass_by_value,
    reason = "tests may stop at the first surprise, and look at a clock that is not the gate's"
)]

mod gate;

mod accounts;
mod bytes;
mod calls;
mod document;
mod events;
mod refusals;
mod results;
mod runs;
mod schemathesis;

use wicketgate_support::{agent, checker, people, sidecar, tool, wire};
