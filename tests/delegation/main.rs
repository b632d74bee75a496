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

mod evidence;
mod family;
mod grants;
mod limits;
mod opening;
mod restart;
mod stopping;
mod taint;

use waiting::until;
use wicketgate_support::{agent, checker, control, sidecar, tool, waiting};
