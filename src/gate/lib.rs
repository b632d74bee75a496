//! The road between an agent and a tool: one governed call, from its preparation to its durable outcome.
//!
//! Every stop is a type that only the stop before can make ([`judge`], [`ledger::permit`]); the constructors are private
//! to this crate, so no face, command or test makes a permit. A [`ledger::permit::Permit`] exists only once the
//! allowance is durable, a reply only once its entry is.
//!
//! - [`ledger`] is the chain, its one writer and three stores; [`tool`] prepares and runs, one folder per kind, with the
//!   sandbox and the one outbound connector; [`enforce`] is the road itself
//! - [`control`] has the orders of operators, [`replay`] runs again what was recorded, [`evidence`] writes bundles,
//!   [`taint`] knows what runs have read, [`telemetry`] counts and traces, [`index`] finds calls and runs for operators, [`session`] knows who of them is
//!   logged in
//!
//! Faces stand right of it and know the road, not the stores.

use wicketgate_catalog::{self as catalog, identity, limits, mcp};
use wicketgate_crypto as crypto;
use wicketgate_policy::{self as policy, approval, firewall};
use wicketgate_record::{self as record, clock, domain};
use wicketgate_verify as verify;

pub mod control;
pub mod enforce;
pub mod evidence;
pub mod index;
pub mod judge;
pub mod ledger;
pub mod replay;
pub mod session;
pub mod taint;
pub mod telemetry;
pub mod tool;
