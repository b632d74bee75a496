//! A call with an approver's arguments: that approver alone can never let it run.

use super::Answer;
use crate::approval::Approval;
use crate::domain::code::Code;
use crate::domain::decision::{LayerReason, Verdict};

/// The answer to a call whose arguments `proposer` changed, given who approved it: a call that
/// would run without a second approver is held for one. The gate and an audit compute the same.
pub fn weighed(answer: Answer, proposer: Option<&str>, approvals: &[Approval]) -> Answer {
    let Some(proposer) = proposer else { return answer };
    let others = approvals.iter().any(|one| !one.subject.eq_ignore_ascii_case(proposer));
    // What is merely observed runs too.
    let runs = answer.verdict == Verdict::Allow || !answer.enforced;
    if others || !runs {
        return answer;
    }
    let reason = LayerReason {
        code: Code::CallHeld,
        detail: "approval.modified".into(),
        message: format!("`{proposer}` changed the arguments: another approver has to approve"),
        rule: "approval".into(),
    };
    Answer {
        verdict: Verdict::RequireApproval,
        reasons: vec![reason],
        obligations: Vec::new(),
        enforced: true,
    }
}
