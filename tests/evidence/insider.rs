//! Mutations by a holder of every key and writes the whole log again (ledger.md §4, K), and the
//! limit that follows from it.

use crate::forged::Draft;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::{CallId, ChainId};
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::{Report, verify_files};
use wicketgate::record::Kind;

use crate::bundle::*;
use crate::forged::{TestLedger, json, key, run_id};

/// A log in which this happened between opening and sealing the run.
fn log(change: impl FnOnce(&mut TestLedger)) -> TestLedger {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    ledger.open(run_id(1));
    change(&mut ledger);
    ledger
}

fn judged(ledger: &TestLedger) -> Report {
    verify_files(&export_of(ledger, run_id(1), &[]), &trust())
}

#[test]
fn a_completion_needs_a_start_and_a_start_an_allow() {
    // K-06
    let ledger = log(|b| {
        b.complete(run_id(1), "c1");
        b.seal(run_id(1));
    });
    caught(&judged(&ledger), "S5");
    // K-07
    let ledger = log(|b| {
        b.decide(run_id(1), "c1", Kind::CallAuthorized, Verdict::Deny);
        b.complete(run_id(1), "c1");
        b.seal(run_id(1));
    });
    caught(&judged(&ledger), "S5");
    // A held call that runs without an approval.
    let ledger = log(|b| {
        b.decide(run_id(1), "c1", Kind::CallHeld, Verdict::RequireApproval);
        b.allow(run_id(1), "c1");
        b.complete(run_id(1), "c1");
        b.seal(run_id(1));
    });
    caught(&judged(&ledger), "S5");
}

#[test]
fn a_dropped_completion_is_missed_although_the_seal_counts_right() {
    // K-12
    let ledger = log(|b| {
        b.allow(run_id(1), "c1");
        b.seal(run_id(1));
    });
    caught(&judged(&ledger), "S5");
}

#[test]
fn nothing_may_follow_the_seal() {
    // K-08
    let ledger = log(|b| {
        b.seal(run_id(1));
        b.allow(run_id(1), "late");
        b.complete(run_id(1), "late");
    });
    caught(&judged(&ledger), "S4");
    let ledger = log(|b| {
        let mut draft = Draft::of(Kind::RunSealed, json(r#"{"entries":9,"calls":[]}"#));
        draft.run = Some(run_id(1));
        b.add(draft);
    });
    caught(&judged(&ledger), "S4");
}

#[test]
fn time_and_epochs_do_not_go_backwards() {
    // K-10
    let ledger = log(|b| {
        b.allow(run_id(1), "c1");
        let draft = b.decided(run_id(1), "c2", Kind::CallDenied, Verdict::Deny);
        b.add_with(draft, |e| e.ts = Timestamp::from_millis(e.ts.millis() - 500));
        b.complete(run_id(1), "c1");
        b.seal(run_id(1));
    });
    caught(&judged(&ledger), "C1");
    // K-11
    let ledger = log(|b| {
        b.start(2, key(21));
        b.allow(run_id(1), "c1");
        let draft = b.decided(run_id(1), "c2", Kind::CallDenied, Verdict::Deny);
        b.add_with(draft, |e| e.epoch = 1);
        b.complete(run_id(1), "c1");
        b.seal(run_id(1));
    });
    caught(&judged(&ledger), "S2");
    // K-09, for a verifier that has a clock.
    let ledger = ledger_of_today();
    let now = Trust { now: Some(Timestamp::from_millis(1_700_000_000_000)), ..trust() };
    caught(&verify_files(&export_of(&ledger, run_id(1), &[]), &now), "C1");
}

fn ledger_of_today() -> TestLedger {
    log(|b| b.seal(run_id(1)))
}

#[test]
fn a_run_that_was_taken_over_by_another_writer_holds() {
    let ledger = log(|b| {
        b.allow(run_id(1), "c1");
        b.start(2, key(21));
        b.end(run_id(1), "c1", Kind::CallUnknown, r#"{"cause":"crash"}"#);
        b.seal(run_id(1));
    });
    let report = judged(&ledger);
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
}

#[test]
fn what_left_of_an_answer_after_its_last_progress_is_named_as_not_proven() {
    let progress = |bytes: u64| {
        let sha256 = "ab".repeat(32);
        format!(r#"{{"bytes":{bytes},"pieces":{bytes},"sha256":"{sha256}"}}"#)
    };
    let ended = |left: [u64; 2], covered: u64| {
        let ledger = log(|b| {
            b.allow(run_id(1), "c1");
            for bytes in left {
                b.end(run_id(1), "c1", Kind::CallProgress, &progress(bytes));
            }
            let end = format!(r#"{{"cause":"writer_lost","covered_bytes":{covered}}}"#);
            b.end(run_id(1), "c1", Kind::CallUnknown, &end);
            b.seal(run_id(1));
        });
        judged(&ledger)
    };
    let report = ended([3, 7], 7);
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    let tail = "call `c1`: the answer left at least 7 bytes; what left after that is not recorded";
    assert!(report.to_text().contains(tail), "{}", report.to_text());
    caught(&ended([7, 3], 3), "S5");
    caught(&ended([3, 7], 3), "S5");
}

/// A run whose ledger says that `left` left, and that stores `kept` as the events.
fn streamed(left: &str, kept: &str) -> Report {
    let (bytes, sha256) = (left.len(), Digest::of(&[left.as_bytes()]).hex());
    let ledger = log(|b| {
        b.allow(run_id(1), "c1");
        let result = b.commit("result", br#"{"text":"hello"}"#);
        let stream = format!(r#"{{"bytes":{bytes},"pieces":1,"sha256":"{sha256}"}}"#);
        let data = format!(
            r#"{{"us":1200,"status":"200","attempts":1,"observed":{{"stream":{stream}}}}}"#
        );
        let mut draft = Draft::of(Kind::CallCompleted, json(&data));
        draft.run = Some(run_id(1));
        draft.call = CallId::parse("c1");
        draft.commit = vec![result, b.commit("stream", kept.as_bytes())];
        b.add(draft);
        b.seal(run_id(1));
    });
    judged(&ledger)
}

#[test]
fn events_that_are_kept_are_those_that_left() {
    let left = "data: {\"text\":\"hello\"}\n\n";
    let report = streamed(left, left);
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    // Of the same length, and with a commitment of its own.
    let other = left.replace("hello", "jello");
    let report = streamed(left, &other);
    caught(&report, "P1");
    assert!(report.to_text().contains("not the events that left"), "{}", report.to_text());
    // Cut, with a commitment of its own.
    caught(&streamed(left, left.trim_end()), "S5");
}

#[test]
fn the_key_of_a_writer_that_was_fenced_out_vouches_for_nothing() {
    let mut ledger = log(|b| {
        b.start(2, key(21));
        b.seal(run_id(1));
    });
    ledger.writer = key(20);
    caught(&judged(&ledger), "H1");
}

#[test]
fn an_entry_of_another_chain_and_a_writer_that_was_not_enrolled_are_refused() {
    // X-02
    let ledger = log(|b| {
        let draft = b.decided(run_id(1), "c2", Kind::CallDenied, Verdict::Deny);
        b.add_with(draft, |e| e.chain = ChainId::from_bytes([9; 16]));
        b.seal(run_id(1));
    });
    caught(&judged(&ledger), "S1");
    // C-01 with everything re-signed below another enrolment key.
    let mut ledger = TestLedger::new(1, key(66));
    ledger.whole_run(run_id(1));
    caught(&judged(&ledger), "S1");
    let wanted = Trust { origins: vec!["wicketgate.dev/bank/pay/0/0".into()], ..trust() };
    caught(&verify_files(&export_of(&ledger_of_today(), run_id(1), &[]), &wanted), "H1");
}

#[test]
fn a_policy_that_was_not_in_force_or_not_approved_is_refused() {
    // K-03
    let ledger = log(|b| {
        let mut draft = b.decided(run_id(1), "c2", Kind::CallDenied, Verdict::Deny);
        draft.policy = Some(Digest::of(&[b"other"]));
        b.add(draft);
        b.seal(run_id(1));
    });
    caught(&judged(&ledger), "P3");
    let wanted = Trust { policies: vec![Digest::of(&[b"approved"])], ..trust() };
    caught(&verify_files(&export_of(&two_runs(), run_id(1), &[]), &wanted), "P3");
}

#[test]
fn limit_1_a_rewritten_history_is_not_detected_without_a_pinned_head_and_is_with_one() {
    let noted = pin(&log(|b| {
        b.decide(run_id(1), "c1", Kind::CallDenied, Verdict::Deny);
        b.seal(run_id(1));
    }));
    // K-01: the denial becomes an allowed call, everything signed again with the real keys.
    let rewritten = log(|b| {
        b.allow(run_id(1), "c1");
        b.complete(run_id(1), "c1");
        b.seal(run_id(1));
    });
    let report = judged(&rewritten);
    assert_eq!(report.exit_code(), 0, "not detected, as documented: {}", report.to_text());
    assert!(report.not_proven.iter().any(|item| item.contains("no head of this log is pinned")));
    let pinned = Trust { heads: vec![noted.clone()], ..trust() };
    let files = export_of(&rewritten, run_id(1), &[noted.size]);
    caught(&verify_files(&files, &pinned), "H2");
}
