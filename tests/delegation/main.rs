//! Agents that delegate to others, through the built program: who may open a child, what the child may do,
//! whose limits it uses up, and what becomes of it when its parent is stopped, sealed or restarted.
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

#[path = "../faults/agent.rs"]
mod agent;
#[path = "../faults/checker.rs"]
mod checker;
#[allow(unused_macros, unused_imports, reason = "this harness has no second store")]
#[path = "../control/desk.rs"]
mod desk;
#[path = "../faults/sidecar.rs"]
mod sidecar;
#[path = "../faults/tool.rs"]
mod tool;

mod evidence;
mod family;
mod grants;
mod limits;
mod opening;
mod restart;
mod stopping;

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/waiting.rs"]
mod waiting;

use waiting::{pause, until, within};
