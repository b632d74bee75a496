//! From somebody else's MCP configuration to a governed one: `mcp`, `init`, `mcp wrap`, as programs.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may stop at the first surprise"
)]

mod bridge;
mod desk;
mod from;
mod gate;
mod starter;
mod wrapped;
