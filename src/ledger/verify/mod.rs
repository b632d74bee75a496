//! The auditor's reading of the books: every rule of the format, over the bytes as they are stored.
//!
//! `read`, `epochs`, `runs` and `chain` are sync functions over bytes, shared by the evidence
//! verifier; only `whole` and what tells the kinds of damage know a store, and only through the reading
//! port.

pub mod amended;
#[cfg(feature = "gate")]
pub mod announced;
pub mod approved;
pub mod chain;
pub mod epochs;
#[cfg(feature = "gate")]
pub mod fleet;
#[cfg(feature = "gate")]
pub mod kinds;
pub mod lineage;
#[cfg(feature = "gate")]
mod pruned;
pub mod read;
pub mod runs;
#[cfg(feature = "gate")]
mod whole;

pub use chain::Chain;
pub use read::{Damage, Line};
#[cfg(feature = "gate")]
pub use whole::{Report, Roots, Trail, chain_from, chain_of};
