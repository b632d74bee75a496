//! Fetching through the built program, in a network of its own: public and private addresses with a
//! listener on each, a resolver that lies, and servers that break the protocol. Judged by who was
//! reached, not by what the gate says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests may stop at the first surprise"
)]

mod answers;
mod bounds;
mod exhausted;
mod inside;
mod names;
mod servers;
mod world;

use wicketgate_support::{encodings, observed as gate};
