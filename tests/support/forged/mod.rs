//! Ledgers, bundles and approvals in memory, made by the rules or, on demand, against them.

pub mod approved;
pub mod bundle;
mod entry;
mod ledger;

pub use entry::{Commitment, Draft, Entry, RunLink};
pub use ledger::{Fixed, ORIGIN, TAR, TestLedger, TestLedgers, YAML, json, key, run_id};
