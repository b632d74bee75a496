//! What the test programs and the benchmarks share: a gate as a process with its files, the agent that calls it, the
//! tool that counts, the servers around it, and waiting for them. Compiled once; nothing of it is in the product.
#![allow(
    missing_docs,
    missing_debug_implementations,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    clippy::new_without_default,
    clippy::len_without_is_empty,
    reason = "tests may stop at the first surprise, look at a clock that is not the gate's, and are no library for others"
)]

pub mod agent;
pub mod authority;
pub mod bench;
pub mod ca;
pub mod checker;
pub mod collector;
pub mod commands;
pub mod control;
pub mod dropped;
pub mod encodings;
pub mod evidence;
pub mod files;
pub mod fleet;
pub mod forged;
pub mod grpc_service;
pub mod home;
pub mod hub;
pub mod in_process;
pub mod inside;
pub mod keeper;
pub mod memory;
pub mod observed;
pub mod passkey;
pub mod people;
pub mod pg;
pub mod ports;
pub mod private;
pub mod process;
pub mod program;
pub mod proxy;
pub mod ran;
pub mod record;
pub mod sidecar;
pub mod tokens;
pub mod tool;
pub mod waiting;
pub mod wire;

pub use waiting::{pause, until, within};
