//! Keys, envelopes, notes and trees: pure functions over bytes, each after a public specification.
//!
//! Ed25519 only (RFC 8032, verified strictly); DSSE v1; C2SP signed-note and tlog-checkpoint;
//! RFC 6962 Merkle trees. Nothing here reads a clock or the network.

pub mod consistency;
pub mod dsse;
pub mod keys;
pub mod merkle;
pub mod note;
pub mod range;
