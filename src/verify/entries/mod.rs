//! Every rule of the format, over entries as they are stored.
//!
//! Sync functions over bytes: the gate checks its ledger with them, and the verifier a bundle. A
//! finding is a [`Damage`] of one entry.

pub mod alerted;
pub mod amended;
pub mod approval;
pub mod approved;
pub mod chain;
pub mod epochs;
pub mod lineage;
pub mod read;
mod row;
pub mod runs;
mod stream;

pub use chain::Chain;
pub use read::{Damage, EntryLine};
pub use row::{EntryRow, HeadRow};
