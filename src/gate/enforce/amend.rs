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
    async fn amend(&self, row: &Row) -> Json;
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

impl Road {
    /// From now on, this decides about rows that amend the policy. Said once.
    pub fn trust_amender(&self, amender: Arc<dyn Amender>) {
        drop(self.control.amender.set(amender));
    }

    /// What became of a row that amends the policy.
    pub(super) async fn amend(&self, row: &Row) -> Json {
        match self.control.amender.get() {
            Some(amender) => amender.amend(row).await,
            None => Json::object([
                ("error", Json::from("`policy.amendments` is off at this gate")),
                ("code", Json::from("amendment.off")),
            ]),
        }
    }
}
