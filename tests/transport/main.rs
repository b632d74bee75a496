//! The ways in and out of a gate: agents from other pods over mutual TLS, certificates that change while it runs,
//! and its own database over TLS; through the built program, with stock clients.
//!
//! Which test holds which row of the attack corpus on faults and isolation: FLT-038: `load::a_hundred_calls…`, `ending::a_gate_that_is_told_twice…`;
//! FLT-039: `load::a_call_that_waits_for_a_person…`; FLT-041: `load::ten_thousand…`; FLT-042: `load::a_gate_without_descriptors…`,
//! `ending::the_limit_of_open_files…`; FLT-028 to FLT-030: `swap::no_call_is_judged…`; FLT-029, FLT-055: `swap::a_configuration_that_was_cut_off…`;
//! FLT-035: `command` `together`; FLT-036: `simulation`; FLT-047: `load::a_caller_that_has_closed…`; ISO-023: `order`, as far as the kubelet's order of signals goes: not run on a cluster.
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

mod clients;
mod database;
mod dropped;
mod ending;
mod load;
mod mtls;
mod order;
mod quiet;
mod swap;

use waiting::{until, within};
use wicketgate_support::{agent, ca, checker, sidecar, tool, waiting};
