//! gRPC services behind the gate: a real grpcio service, and servers that break the protocol, through the built
//! program. What reached a service is what it wrote down itself.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::too_many_lines,
    clippy::needless_pass_by_value,
    clippy::cast_possible_truncation,
    reason = "tests hold long tables, may stop at the first surprise, and look at a clock that is not the gate's"
)]

mod answers;
mod binding;
mod broken;
mod frames;
mod reflection;
mod secure;
mod values;
mod world;

use waiting::until;
use wicketgate_support::program::python;
use wicketgate_support::{agent, ca, checker, keeper, private, sidecar, waiting};
