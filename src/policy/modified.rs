//! A call whose arguments an approver wrote: one person alone never lets it run.

use super::Answer;
use crate::approval::Approval;
use crate::domain::code::Code;
use crate::domain::decision::{LayerReason, Verdict};

/// What follows from a policy's answer about a call that `proposer` had asked with other arguments, where these have
/// approved it: what would run without anybody else waits for one. The same at the gate and in an audit.
#[must_use]
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
