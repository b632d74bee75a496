//! The auditor's reading of the books: every rule of the format, over the bytes as they are stored.
//!
//! The rules themselves are [`crate::verify::entries`], shared with the evidence verifier; what stands here reads a
//! store, through the reading port.

pub mod announced;
pub mod fleet;
pub mod kinds;
mod pruned;
mod whole;

pub use crate::verify::entries::{
    Chain, Damage, EntryLine, amended, approved, chain, epochs, lineage, read, runs,
};
pub use whole::{ChainReport, Roots, Trail, chain_from, chain_of};
