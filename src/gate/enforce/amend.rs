//! Amendments: who keeps the constitution decides what a row about it means; the road only passes it on.

pub use crate::record::chain::Basis as BasisKind;
use std::sync::Arc;

use async_trait::async_trait;

use super::Road;
use crate::control::Row;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// The port to whoever decides which bundle may be put in force.
#[async_trait]
pub trait Amender: Send + Sync + std::fmt::Debug {
    /// Obeys a row about an amendment, after every earlier one; what it did, for the list. Repeating it
    /// changes nothing.
    async fn amend(&self, road: &Arc<Road>, row: &Row) -> Json;
}

/// Why a bundle may be put in force where amendments are required.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Basis {
    /// Which of the three.
    pub kind: BasisKind,
    /// What was in force before; none if nothing was.
    pub base: Option<Digest>,
    /// How many publishers must approve.
    pub approvals: u64,
}
