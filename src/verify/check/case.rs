//! What is being judged: the bundle, the trust roots, and what reading the bundle has shown so far.

use crate::bundle::Files;
use crate::domain::json::Json;
use crate::payloads::Payloads;
use crate::projection::BundleMaterial;
use crate::scope::{ChainSlice, Scope};
use crate::trust::Trust;

/// Everything a check may look at. Checks read it; only the reading at the start fills it.
#[derive(Debug)]
pub struct Case<'a> {
    /// The bundle's files.
    pub files: &'a Files,
    /// What the verifier trusts.
    pub trust: &'a Trust,
    /// What kind of bundle it is.
    pub scope: Scope,
    /// Its chains: one, or those of a population.
    pub strands: Vec<ChainSlice>,
    /// The tenant's fleet log, as far as the bundle has it. Nothing of it has been checked but the form of
    /// its entries: `F1` does that.
    pub fleet: Option<ChainSlice>,
    /// What opens the commitments, if it could be read.
    pub payloads: Option<Payloads>,
    /// What the statement says about the files; `Null` if it could not be read.
    pub predicate: Json,
}

impl Case<'_> {
    /// One [`Material`] for each run of each chain; empty if payloads or a checkpoint do not hold.
    #[must_use]
    pub fn materials(&self) -> Vec<BundleMaterial<'_>> {
        let Some(payloads) = &self.payloads else { return Vec::new() };
        self.strands.iter().flat_map(|strand| strand.materials(payloads)).collect()
    }

    /// Whether every chain has a checkpoint that holds and the payloads could be read.
    #[must_use]
    pub fn readable(&self) -> bool {
        self.payloads.is_some() && self.strands.iter().all(|strand| strand.checkpoint.is_some())
    }
}
