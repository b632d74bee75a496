//! Agents that talk to a model through the built program: bytes on a socket on one side, a scripted
//! provider on the other.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::needless_pass_by_value,
    reason = "tests may stop at the first surprise, and look at a clock that is not the gate's"
)]

mod gate;
mod provider;
mod said;

mod binding;
mod bypassed;
mod conversations;
mod faults;
mod gemini;
mod guarded;
mod held;
mod inputs;
mod loops;
mod managed;
mod many;
mod masking;
mod ollama;
mod pin;
mod proposals;
mod refusals;
mod remembered;
mod replayed;
mod small;
mod spans;
mod streams;
mod traps;
mod upstreams;

use wicketgate_support::{checker, people, program, ran, sidecar, tool, wire, within};
