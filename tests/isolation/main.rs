//! Where agents run: `wicketgate config doctor` as the agent, in network namespaces with listeners that count, and a gate
//! that believes an opening.
//!
//! Which test holds which row of the attack corpus on isolation: ISO-001, 002, 007, 010: `topologies::under_uid_rules…`; ISO-012, 014,
//! 018: `privileges`. ISO-022 (the agent starts after the gate is ready) and ISO-023 (it ends before) are orders of
//! Kubernetes: they need a cluster.
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

mod canaries;
mod gate;
mod pods;
mod privileges;
mod topologies;
mod world;

use waiting::{until, within};
use wicketgate_support::{agent, ca, checker, sidecar, tool, waiting};
