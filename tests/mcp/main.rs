//! The gate as an MCP server, through the built program: bytes on a socket, as any client could send
//! them, against tools that are no MCP servers.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::needless_pass_by_value,
    clippy::type_complexity,
    reason = "tests may stop at the first surprise, and look at a clock that is not the gate's"
)]

mod client;
mod gate;

mod calls;
mod exchange;
mod faces;
mod golden;
mod http2;
mod ids;
mod legacy;
mod modern;
mod streams;

use wicketgate_support::{agent, checker, sidecar, tool};
