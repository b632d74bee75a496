//! Wicketgate: a sidecar between an AI agent and every tool it can reach.
//!
//! # The road
//!
//! One governed call walks `enforce::Road`, and every stop is a type that only the stop before can make:
//!
//! ```text
//! wire ─decode→ ToolCall ─prepare→ Prepared ─judge→ Judged ─commit→ Permit ─run→ Finished ─settle→ Settled ─encode→ wire
//!                                                            ├→ Refusal ──────────────────────────encode→ wire
//!                                                            └→ Held    ──────────────────────────encode→ wire
//! ```
//!
//! A `Permit` exists only once the allowance is durable, a reply only once its entry is.
//!
//! # The crates, left may not know right (what a crate does not depend on it cannot use)
//!
//! `record < crypto < policy < verify`, `record < crypto < catalog`, then `gate < faces < wicketgate`: this one, with the
//! configuration, the composition root ([`app`]) and the commands ([`cli`]). Each says at its top what it is for. Their
//! rooms are named here as well, so that a test or a benchmark needs one name.

pub use wicketgate_catalog::{self as catalog, identity, limits, mcp};
pub use wicketgate_crypto as crypto;
pub use wicketgate_faces::{injector, operator, serve, witness};
pub use wicketgate_gate::{
    control, enforce, evidence, index, judge, ledger, replay, session, telemetry, tool,
};
pub use wicketgate_policy::{self as policy, approval, firewall};
pub use wicketgate_record::{self as record, clock, domain, yaml};
pub use wicketgate_verify as verify;

pub mod app;
pub mod cli;
pub mod config;
