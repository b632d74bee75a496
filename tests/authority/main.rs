//! People in front of the built program: held calls that are approved and refused with SSH keys, on one
//! machine and through a hub in front of two gates over one database; and policies that are amended so.
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

mod alone;
mod amend;
mod amend_fleet;
mod api_server;
mod audited;
mod bindings;
mod browser;
mod custody;
mod elsewhere;
mod enrol;
mod enrolled;
mod example;
mod exceptions;
mod flow_cases;
mod flow_player;
mod flows;
mod found;
mod glass;
mod glass_fleet;
mod hub;
mod learned;
mod masked;
mod names;
mod night;
mod passkeys;
mod projected;
mod proposals;
mod reaper;
mod refused;
mod sealed_runs;
mod table;
mod tls;
mod trusted;

use waiting::until;
use wicketgate_support::{agent, ca, checker, people, proxy, sidecar, tool, waiting};
