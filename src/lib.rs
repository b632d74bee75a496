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
//! # The layers, left may not know right (a test reads the paths)
//!
//! `domain, clock, telemetry < crypto, yaml, mcp, record < identity, catalog, firewall, limits, approval < policy < ledger <
//! control < tool < enforce, evidence, replay < serve, operator, witness < config, app, cli`
//!
//! - `domain` values, strict JSON, the one canonical form · `crypto` keys, DSSE, notes, Merkle trees
//! - `record` the ledger entry: one struct per kind, its text forms, its schema
//! - `mcp` framing, names and headers of the Model Context Protocol
//! - `identity` manifests, callers, run tokens · `catalog` tool bindings · `firewall` findings · `limits` budgets
//! - `approval` what an approver signs · `control` what operators tell the gates
//! - `policy` bundles, the engine, `judge` · `ledger` tokens, entries, the sequencer, three stores
//! - `tool` `prepare` and `run`, one file per kind, the one outbound connector in `tool::net`
//! - `enforce` the whole road on one screen · `evidence` export and offline verification · `replay` runs again
//! - `serve` gRPC and the operator's door · `operator` who may see and order what · `witness` cosigns heads of logs, and asks others to · `app` the composition root · `cli` the commands

pub use wicketgate_catalog::{self as catalog, identity, limits, mcp};
pub use wicketgate_crypto as crypto;
pub use wicketgate_faces::{operator, serve, witness};
pub use wicketgate_gate::{control, enforce, evidence, judge, ledger, replay, telemetry, tool};
pub use wicketgate_policy::{self as policy, approval, firewall};
pub use wicketgate_record::{self as record, clock, domain, yaml};
pub use wicketgate_verify as verify;

pub mod app;
pub mod cli;
pub mod config;
