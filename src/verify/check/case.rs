//! The input of the checks: the bundle, the trust roots, and what reading the bundle has shown.

use crate::bundle::Files;
use crate::domain::json::Json;
use crate::payloads::Payloads;
use crate::projection::BundleMaterial;
use crate::scope::{ChainSlice, Scope};
use crate::trust::Trust;

/// Everything a check may use. Checks only read it; the reading phase fills it.
#[derive(Debug)]
pub struct Case<'a> {
    /// The bundle's files.
    pub files: &'a Files,
    /// What the verifier trusts.
    pub trust: &'a Trust,
    /// What kind of bundle it is.
    pub scope: Scope,
    /// Its chains: one, or those of a population.
    pub slices: Vec<ChainSlice>,
    /// The tenant's fleet log, as far as the bundle has it. Only the form of its entries is
    /// checked; `F1` checks the rest.
    pub fleet: Option<ChainSlice>,
    /// What opens the commitments, if it could be read.
    pub payloads: Option<Payloads>,
    /// The statement's predicate about the files; `Null` if it could not be read.
    pub predicate: Json,
}

impl Case<'_> {
    /// One [`BundleMaterial`] for each run of each chain; empty if payloads or a checkpoint do not hold.
    pub fn materials(&self) -> Vec<BundleMaterial<'_>> {
        let Some(payloads) = &self.payloads else { return Vec::new() };
        self.slices.iter().flat_map(|slice| slice.materials(payloads)).collect()
    }

    /// Whether every chain has a checkpoint that holds and the payloads could be read.
    #[must_use]
    pub fn readable(&self) -> bool {
        self.payloads.is_some() && self.slices.iter().all(|slice| slice.checkpoint.is_some())
    }
}
