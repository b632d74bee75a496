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

#[path = "../faults/agent.rs"]
mod agent;
#[path = "../faults/checker.rs"]
mod checker;
#[path = "../faults/sidecar.rs"]
mod sidecar;
#[path = "../faults/tool.rs"]
mod tool;

mod canaries;
mod gate;
mod pods;
mod privileges;
mod topologies;
mod world;

#[path = "../support/ca.rs"]
mod ca;
#[path = "../support/waiting.rs"]
mod waiting;

use waiting::{pause, until, within};
