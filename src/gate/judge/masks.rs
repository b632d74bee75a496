//! What a policy wants masked in the arguments of a call.

use std::fmt;

use super::{Criteria, Prepared};
use crate::domain::decision::{Course, Decision, LayerReason, PolicyObligation};
use crate::policy::error;
use crate::policy::flow::TaintFacts;

/// Searches and prepares a call anew, with these kinds of findings masked in its arguments. Called only if the policy
/// demands that.
#[derive(Clone, Copy)]
pub struct ArgumentMasks<'a>(pub &'a MakeAnew<'a>);

type MakeAnew<'a> = dyn Fn(&Criteria<'_>, Prepared, Vec<String>) -> Remade + 'a;

/// A call that was searched and prepared anew.
#[derive(Debug)]
pub struct Remade {
    /// The call.
    pub prepared: Prepared,
    /// What its run has read of what is in it now.
    pub taint: TaintFacts,
    /// A reason against it that there was not before.
    pub refusal: Option<LayerReason>,
}

impl fmt::Debug for ArgumentMasks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ArgumentMasks")
    }
}

/// How often the policy is asked about a call of which it wants more masked each time.
pub(super) const MASKED_MAX: usize = 4;

pub(super) fn masked_proposal() -> LayerReason {
    let why = "the policy masks something in the arguments that an approver signed: leave it out";
    LayerReason::denied("approval", "approval.masked", why.to_owned())
}

pub(super) fn masked_again() -> LayerReason {
    let why = "the policy wants something else masked in the arguments each time it is asked";
    error("redact_arguments", why)
}

/// The kinds that have to be masked in the arguments of a call that would run or wait, with those that are masked
/// already; `None`: no other ones.
pub(super) fn unmasked(
    decision: &Decision,
    duties: &[PolicyObligation],
    prepared: &Prepared,
) -> Option<Vec<String>> {
    if decision.course() == Course::Refuse {
        return None;
    }
    let known = &prepared.screening().demanded;
    let wanted = duties.iter().filter_map(PolicyObligation::redacts_arguments).flatten();
    let new: Vec<&String> = wanted.filter(|kind| !known.contains(kind)).collect();
    (!new.is_empty()).then(|| known.iter().chain(new).cloned().collect())
}
