//! What a bundle would let slip: findings about its rules, told before it is put in force.

use super::bundle::Bundle;
use crate::domain::tier::Tier;

/// How much a finding weighs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The bundle is not put in force with it.
    Error,
    /// Somebody should look.
    Warning,
}

/// One thing about a bundle that somebody should know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How much it weighs.
    pub level: Level,
    /// Stable.
    pub code: &'static str,
    /// For a person.
    pub message: String,
    /// File and line, or a name.
    pub place: String,
}

/// What a bundle works with.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Tools that are bound, and their tiers.
    pub tools: &'a [(String, Tier)],
    /// Subjects with the role `approver`; 0: nobody can approve.
    pub approvers: usize,
    /// Whether somebody is told of a held call.
    pub webhook: bool,
}

/// Everything there is to find.
#[must_use]
pub const fn lint(_bundle: &Bundle, _around: &Surroundings<'_>) -> Vec<Finding> {
    Vec::new()
}
