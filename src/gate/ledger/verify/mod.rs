//! The auditor's reading of the ledger: checks every rule of the format over the stored bytes.
//!
//! The rules are in [`crate::verify::entries`], shared with the evidence verifier. This module
//! reads a store through the reading port.

pub mod announced;
pub mod fleet;
pub mod kinds;
mod pruned;
mod whole;

pub use crate::verify::entries::{
    Chain, Damage, EntryLine, amended, approved, chain, epochs, lineage, read, runs,
};
pub use whole::{ChainReport, Roots, Trail, chain_from, chain_of};
