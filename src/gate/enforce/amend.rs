//! Amendments. The keeper of the constitution (`Amender`) interprets a row about an amendment; the
//! road only passes it on.

pub use crate::record::chain::Basis as BasisKind;
use std::sync::Arc;

use async_trait::async_trait;

use super::Road;
use crate::control::Row;
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// Port to the component that decides which bundle may be put in force.
#[async_trait]
pub trait Amender: Send + Sync + std::fmt::Debug {
    /// Carries out an amendment row, after every earlier row, and returns the report for the list
    /// of orders. Idempotent.
    async fn amend(&self, road: &Arc<Road>, row: &Row) -> Json;
}

/// Why a bundle may be put in force where amendments are required.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Basis {
    /// Which of the three kinds of basis applies.
    pub kind: BasisKind,
    /// The bundle that was in force before; `None` if there was none.
    pub base: Option<Digest>,
    /// How many publishers must approve.
    pub approvals: u64,
}
