//! The obligation `justify`: a call needs a reason of its agent's own.

use super::Answer;
use crate::domain::code::Code;
use crate::domain::decision::{LayerReason, PolicyObligation, Verdict};

/// The finer code of the denial.
pub const UNJUSTIFIED: &str = "obligation.justify";
/// What the agent is told. One text, because an audit makes the same denial again.
const MESSAGE: &str = "the policy asks for a reason: call again with a new id and say in one sentence why the call is \
    needed, in `justification` of ExecuteTool or of the JSON body, or over MCP in `_meta` as \
    `wicketgate.dev/justification`; a request to a model, and a tool call that a model's answer asks for, cannot carry one";

/// The answer to a call with or without a reason of the agent: what would run or wait without the
/// reason that the policy demands is denied. The gate and an audit compute the same.
pub fn justified(answer: Answer, is_given: bool) -> Answer {
    let demands = answer.obligations.contains(&PolicyObligation::Justify);
    // A denial that is merely observed runs.
    let is_refused = answer.verdict == Verdict::Deny && answer.enforced;
    if is_given || !demands || is_refused {
        return answer;
    }
    let reason = LayerReason {
        code: Code::PolicyDenied,
        detail: UNJUSTIFIED.into(),
        message: MESSAGE.into(),
        rule: "obligation".into(),
    };
    Answer {
        verdict: Verdict::Deny,
        reasons: vec![reason],
        obligations: Vec::new(),
        enforced: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(verdict: Verdict, obligations: Vec<PolicyObligation>) -> Answer {
        Answer { verdict, reasons: Vec::new(), obligations, enforced: true }
    }

    #[test]
    fn only_a_missing_reason_that_is_demanded_denies() {
        let demand = || vec![PolicyObligation::CapBytes { bytes: 1 }, PolicyObligation::Justify];
        for verdict in [Verdict::Allow, Verdict::RequireApproval] {
            assert_eq!(justified(answer(verdict, demand()), true), answer(verdict, demand()));
            assert_eq!(justified(answer(verdict, vec![]), false), answer(verdict, vec![]));
            let denied = justified(answer(verdict, demand()), false);
            assert_eq!((denied.verdict, denied.enforced), (Verdict::Deny, true));
            assert_eq!(denied.reasons.first().map(|reason| &*reason.detail), Some(UNJUSTIFIED));
            assert!(denied.obligations.is_empty());
        }
        assert_eq!(justified(answer(Verdict::Deny, vec![]), false), answer(Verdict::Deny, vec![]));
        let observed = Answer { enforced: false, ..answer(Verdict::Deny, demand()) };
        assert!(justified(observed, false).enforced, "what is merely observed runs");
    }
}
