//! `wicketgate.v1`, compiled from `proto/`: messages, the server's trait and the client.
#![allow(
    clippy::all,
    clippy::disallowed_types,
    clippy::clone_on_ref_ptr,
    clippy::implicit_clone,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    clippy::wildcard_enum_match_arm,
    clippy::large_futures,
    clippy::too_many_lines,
    clippy::allow_attributes_without_reason,
    clippy::match_wildcard_for_single_variants,
    missing_docs,
    unused_qualifications,
    reason = "generated code keeps its own taste"
)]

tonic::include_proto!("wicketgate.v1");

/// The compiled descriptor set: reflection answers from it, and tests compare `SURFACE` with it.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/wicketgate.v1.bin"));
