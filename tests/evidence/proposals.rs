//! Calls whose arguments an approver wrote, in a bundle: whose proposal it was, and that it never counted (P4).

use wicketgate::approval::ApproverVerdict;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::Digest;
use wicketgate::record::Kind;

use crate::approved::*;
use crate::bundle::caught;
use crate::forged::json;

/// Bob proposes; Alice approves.
fn modified(s: &mut ApprovedCall) {
    s.proposed = Some(Proposed {
        by: BOB,
        subject: "bob",
        arguments: Vec::new(),
        nonce: OLD_NONCE,
        kept: true,
    });
    s.votes.truncate(1);
    s.policy_saw.truncate(1);
    let released = s.released.as_mut().unwrap();
    set(released, "approvals", json(&format!(r#"["{NONCE}"]"#)));
}

/// P4 notices it, and says so.
#[track_caller]
fn noticed(said: &str, change: impl FnOnce(&mut ApprovedCall)) {
    let report = judged(|s| {
        modified(s);
        change(s);
    });
    caught(&report, "P4");
    let detail = report.outcome("P4").unwrap().detail().to_owned();
    assert!(detail.contains(said), "`{said}` is not in `{detail}`");
}

fn proposal(s: &mut ApprovedCall) -> &mut Proposed {
    s.proposed.as_mut().unwrap()
}

#[test]
fn a_call_that_somebody_else_approved_is_proven_with_both_signatures() {
    let files = export(&ledger_of(modified));
    let report = wicketgate::evidence::verify::verify_files(&files, &trusting());
    holds(&report);
    let detail = report.outcome("P4").unwrap().detail();
    assert_eq!(
        detail,
        "1 approval and 0 refusals by 2 people; 1 call released; 1 call repeated with arguments that an approver wrote"
    );
    assert_eq!(files.0.keys().filter(|name| name.starts_with("approvals/")).count(), 6);
}

#[test]
fn a_proposer_who_counted_is_noticed_under_whatever_name() {
    noticed("approves arguments that the same person wrote", |s| {
        s.votes[0].by = BOB;
        s.votes[0].subject = "bob";
        s.policy_saw[0] = ("bob", BOB);
    });
    // Beside somebody else it does not count either.
    noticed("approves arguments that the same person wrote", |s| {
        let mut more = approved_votes();
        more.truncate(2);
        s.votes = more;
        s.policy_saw = vec![("alice", ALICE), ("bob", BOB)];
    });
    // Recorded as somebody else, with the proposer's key.
    noticed("approval.self", |s| {
        s.votes[0].by = BOB;
        s.policy_saw[0] = ("alice", BOB);
    });
    noticed("`asked_by` does not name the person", |s| proposal(s).subject = "alice_");
}

fn approved_votes() -> Vec<Vote> {
    let mut ledger =
        crate::forged::TestLedger::new(1, crate::forged::key(crate::bundle::ENROLMENT));
    approved_call(&mut ledger).votes
}

#[test]
fn what_was_proposed_is_what_was_signed_about_a_call_that_was_held() {
    noticed("about other arguments", |s| proposal(s).arguments = br#"{"a":9}"#.to_vec());
    noticed("no call was held that its proposal is about", |s| {
        proposal(s).nonce = "00000000000000000000000000000000";
    });
    noticed("approval.signer", |s| proposal(s).by = MALLORY);
    noticed("exactly one signed proposal", |s| proposal(s).kept = false);
}

#[test]
fn a_modified_call_that_ran_without_another_approval_is_found() {
    noticed("no other approver approved the call", |s| {
        s.votes.clear();
        s.policy_saw.clear();
        unset(s.released.as_mut().unwrap(), "approvals");
        let signers = Digest::of(&[list().as_bytes()]).prefixed();
        let broken = format!(
            r#"{{"by":["a","b"],"nonce":"0123456789abcdef0123456789abcdef","signers":"{signers}","until":"2099-01-01T00:00:00.000Z"}}"#
        );
        set(s.released.as_mut().unwrap(), "break_glass", json(&broken));
    });
}

#[test]
fn a_refused_proposal_is_proven_too() {
    holds(&judged(|s| {
        modified(s);
        s.votes[0].kind = Kind::ApprovalRefused;
        s.votes[0].statement.verdict = ApproverVerdict::Refuse;
        let denied = s.released.as_mut().unwrap();
        (denied.kind, denied.verdict) = (Kind::CallDenied, Some(Verdict::Deny));
        unset(denied, "approvals");
        s.policy_saw.clear();
    }));
}
