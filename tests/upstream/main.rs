//! The gate as a client of MCP servers: real children, real sockets, and servers that lie, flood,
//! hang, die and change. Every call walks the whole road.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise"
)]

mod children;
mod drift;
mod gate;
mod hostile;
mod http;
mod rig;
mod stdio;

use wicketgate_support::{inside, ports};
