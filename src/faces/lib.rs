//! What agents, operators and witnesses speak to: they decode, ask the road, and encode.
//!
//! - [`serve`] is gRPC, HTTP/JSON, MCP and models for agents, the listeners, and every error as callers see it
//! - [`operator`] is the API of operators: who may see and order what, over HTTP and gRPC
//! - [`injector`] gives pods of Kubernetes their gate
//! - [`witness`] cosigns the heads of logs, and asks other witnesses to

use wicketgate_catalog::{self as catalog, identity, mcp};
use wicketgate_crypto as crypto;
use wicketgate_gate::{control, enforce, evidence, index, ledger, session, telemetry, tool};
use wicketgate_policy::{self as policy, approval};
use wicketgate_record::{self as record, clock, domain};

pub mod injector;
pub mod operator;
pub mod serve;
pub mod witness;
