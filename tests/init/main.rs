//! From somebody else's MCP configuration to a governed one: `mcp`, `init`, `mcp wrap`, as programs.

#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "tests may stop at the first surprise, and look at a clock that is not the gate's"
)]

mod bridge;
mod confined;
mod folder;
mod from;
mod gate;
mod starter;
mod wrapped;

use wicketgate_support::{home, waiting};
