//! Approvals in a bundle: what was signed, by whom, about what, and everything that has to be noticed about it (P4).

use wicketgate::approval::sign::{Key, sign};
use wicketgate::approval::{ApprovalStatement, ApproverVerdict, Statement as _};
use wicketgate::crypto::ssh::{PLAIN, SshKey, put};
use wicketgate::crypto::sshsig::{SshHash, SshSig, covered};
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::bundle::{APPROVERS, Files};
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::{Outcome, Report, verify_files};
use wicketgate::record::Kind;

use crate::approved::*;
use crate::bundle::*;
use crate::forged::{TestLedger, json, key, run_id};

/// P4 notices it, and says so.
fn noticed(said: &str, change: impl FnOnce(&mut ApprovedCall)) {
    let report = judged(change);
    caught(&report, "P4");
    let detail = report.outcome("P4").unwrap().detail().to_owned();
    assert!(detail.contains(said), "`{said}` is not in `{detail}`");
}

fn unverifiable(report: &Report, said: &str) {
    assert_eq!(report.exit_code(), 2, "{}", report.to_text());
    let outcome = report.outcome("P4").unwrap();
    assert!(matches!(outcome, Outcome::Unverifiable(why) if why.contains(said)), "{outcome:?}");
}

#[test]
fn a_call_that_two_people_approved_is_proven_with_their_signatures() {
    let files = export(&ledger_of(|_| {}));
    let report = verify_files(&files, &trusting());
    holds(&report);
    let detail = report.outcome("P4").unwrap().detail();
    assert_eq!(detail, "2 approvals and 0 refusals by 2 people; 1 call released");
    assert_eq!(files.get(APPROVERS).unwrap(), list().as_bytes());
    assert!(files.0.keys().filter(|name| name.starts_with("approvals/")).count() == 6);
    // Known by its digest the list needs no key.
    let digest = Digest::of(&[list().as_bytes()]);
    holds(&verify_files(&files, &Trust { approvers: vec![digest], ..trust() }));
    let page = String::from_utf8(files.get("report.html").unwrap().to_vec()).unwrap();
    assert!(page.contains("alice") && page.contains(&fingerprint(BOB)), "{page}");
}

#[test]
fn an_approval_under_a_list_that_was_not_in_force_is_found() {
    noticed("was not in force on this chain", |s| s.lists.clear());
    noticed("was not in force on this chain", |s| s.lists[0].1.push('#'));
    noticed("was in force until", |s| s.lists[0].2 = Some(Timestamp::from_millis(1)));
    let newer = || (2, format!("{}# newer\n", list()), None);
    noticed("was in force until", |s| {
        s.lists.push(newer());
        s.votes[0].after_ms = 100_000;
    });
    // Whoever heard the word a moment before the list changed wrote it down a moment later.
    holds(&judged(|s| {
        s.lists.push(newer());
        s.votes.iter_mut().for_each(|vote| vote.after_ms = 1);
    }));
    // An older list never comes back.
    noticed("version 1 of a list follows version 2", |s| s.lists.insert(0, newer()));
    noticed("version 1 of a list follows version 1", |s| {
        s.lists.insert(0, (1, format!("{}# other\n", list()), None));
    });
    holds(&judged(|s| s.lists.insert(0, (0, "# older\n".into(), None))));
}

#[test]
fn a_refusal_and_a_hold_that_ran_out_are_proven_too() {
    let report = judged(|s| {
        s.votes.truncate(1);
        s.votes[0].kind = Kind::ApprovalRefused;
        s.votes[0].statement.verdict = ApproverVerdict::Refuse;
        s.released = None;
    });
    holds(&report);
    assert!(report.outcome("P4").unwrap().detail().starts_with("0 approvals and 1 refusal"));
    // Approved, and the policy says no all the same: an approval overrides nothing.
    holds(&judged(|s| {
        let denied = s.released.as_mut().unwrap();
        (denied.kind, denied.verdict) = (Kind::CallDenied, Some(Verdict::Deny));
        unset(denied, "approvals");
    }));
    // One of two, and then the time was over.
    holds(&judged(|s| {
        s.votes.truncate(1);
        s.released = None;
        s.after_ms = 1_000_000;
    }));
}

#[test]
fn evidence_of_an_approval_or_an_execution_after_a_refusal_is_refused() {
    let report = judged(|s| {
        s.votes[0].kind = Kind::ApprovalRefused;
        s.votes[0].statement.verdict = ApproverVerdict::Refuse;
        let released = s.released.as_mut().unwrap();
        set(released, "approvals", json(&format!(r#"["{NONCE}"]"#)));
        s.policy_saw = vec![("bob", BOB)];
    });
    caught(&report, "S5");
    let detail = report.outcome("S5").unwrap().detail();
    assert!(detail.contains("`approval.granted` does not follow a refusal"), "{detail}");
    // Nor does anything run after it.
    let report = judged(|s| {
        s.votes.truncate(1);
        s.votes[0].kind = Kind::ApprovalRefused;
        s.votes[0].statement.verdict = ApproverVerdict::Refuse;
    });
    caught(&report, "S5");
}

#[test]
fn what_was_signed_about_anything_else_releases_nothing() {
    type Change = fn(&mut ApprovalStatement);
    let table: [(&str, Change); 6] = [
        ("about a different call or hold", |s| s.call_digest = Digest::of(&[b"another"])),
        ("about a different call or hold", |s| s.nonce = "f".repeat(32)),
        ("approval.run", |s| s.run = run_id(9)),
        ("approval.manifest", |s| s.manifest = Digest::of(&[b"another"])),
        ("approval.layers", |s| s.layers.clear()),
        ("approval.definition", |s| s.definition = None),
    ];
    for (said, change) in table {
        noticed(said, |s| change(&mut s.votes[0].statement));
    }
    // The entry speaks of this call, and another was signed.
    for name in ["call_digest", "nonce", "expires"] {
        let said = ["approval.call", "approval.nonce", "approval.expires"]
            .into_iter()
            .find(|code| code.contains(&name[..4]));
        noticed(said.unwrap(), |s| {
            let mut other = s.votes[0].statement.clone();
            match name {
                "call_digest" => other.call_digest = Digest::of(&[b"another"]),
                "nonce" => other.nonce = "f".repeat(32),
                _ => other.expires = Timestamp::from_millis(other.expires.millis() + 1),
            }
            s.votes[0].signature = Some(sign(&Key::File(key(ALICE)), &other).unwrap());
            s.votes[0].text = Some(String::from_utf8(other.bytes()).unwrap());
        });
    }
}

#[test]
fn a_statement_edited_after_it_was_signed_is_noticed() {
    noticed("approval.signature", |s| {
        let mut other = s.votes[0].statement.clone();
        other.verdict = ApproverVerdict::Refuse;
        s.votes[0].signature = Some(sign(&Key::File(key(ALICE)), &other).unwrap());
    });
    noticed("approval.statement", |s| {
        let text = String::from_utf8(s.votes[0].statement.bytes()).unwrap();
        s.votes[0].text = Some(text.replacen(':', ": ", 1));
    });
    // Signed as a refusal and recorded as an approval.
    noticed("`refuse` was signed", |s| s.votes[0].statement.verdict = ApproverVerdict::Refuse);
}

#[test]
fn a_signature_for_something_else_or_by_somebody_else_is_noticed() {
    noticed("approval.namespace", |s| {
        let message = s.votes[0].statement.bytes();
        let mut answer = Vec::new();
        put(&mut answer, PLAIN.as_bytes());
        put(&mut answer, &key(ALICE).sign(&covered("git", SshHash::Sha512, &message)));
        let public = SshKey::Plain(key(ALICE).public());
        let made = SshSig::answered(public, "git", SshHash::Sha512, &answer).unwrap();
        s.votes[0].signature = Some(made.armored());
    });
    noticed("approval.signer", |s| s.votes[0].by = MALLORY);
    noticed("not those of the signature", |s| s.votes[0].subject = "carol");
    noticed("not in canonical form", |s| {
        let signature = sign(&Key::File(key(ALICE)), &s.votes[0].statement).unwrap();
        s.votes[0].signature = Some(signature.replace('\n', "\r\n"));
    });
}

#[test]
fn another_kind_of_key_or_a_console_where_nobody_signed_is_noticed() {
    for (name, value) in [
        ("key_kind", "hardware"),
        ("key_kind", "passkey"),
        ("origin", "https://console.example.com"),
    ] {
        noticed("not those of the signature", |s| s.votes[0].more = vec![(name, value)]);
    }
    // The right kind, which the policy was not told.
    let report = judged(|s| s.votes[0].more = vec![("key_kind", "file")]);
    caught(&report, "P4");
}

#[test]
fn one_person_is_one_person() {
    noticed("`alice` approves it a second time", |s| {
        s.votes[1].by = ALICE;
        s.votes[1].subject = "alice";
    });
    // Called somebody else, with the same key.
    noticed("approval.again", |s| {
        s.votes[1].by = ALICE;
        s.votes[1].subject = "bob";
    });
}

#[test]
fn an_approval_or_a_release_after_the_hold_ended_is_noticed() {
    noticed("after the hold ended", |s| s.votes[0].after_ms = 910_000);
    noticed("after the hold ended", |s| s.after_ms = 910_000);
    // Its entry waited for a commit.
    holds(&judged(|s| s.votes[0].after_ms = 897_500));
}

#[test]
fn what_runs_is_what_was_held() {
    for (name, value) in [
        ("effect", Json::from(Digest::of(&[b"another"]).hex())),
        ("definition", Json::from(Digest::of(&[b"another"]).prefixed())),
        ("layers", json("[]")),
    ] {
        noticed(&format!("`{name}`"), |s| set(s.released.as_mut().unwrap(), name, value));
    }
    noticed("`approvals` does not name", |s| unset(s.released.as_mut().unwrap(), "approvals"));
    let other = format!(r#"["{}"]"#, "f".repeat(32));
    noticed("`approvals` does not name", |s| {
        set(s.released.as_mut().unwrap(), "approvals", json(&other));
    });
    noticed("`approvals` does not name", |s| s.votes.truncate(1));
    // Nobody approved it at all.
    caught(&judged(|s| s.votes.clear()), "S5");
}

#[test]
fn a_policy_input_with_other_approvals_than_those_given_is_found() {
    noticed("an approval that was never given", |s| s.policy_saw.push(("carol", MALLORY)));
    noticed("an approval that was never given", |s| s.policy_saw[1] = ("alice", BOB));
    noticed("the policy saw no approval", |s| s.policy_saw.clear());
}

#[test]
fn approvals_of_a_call_that_was_never_held_are_noticed() {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    ledger.open(run_id(1));
    let mut draft = ledger.decided(run_id(1), "c1", Kind::CallAuthorized, Verdict::Allow);
    set(&mut draft, "approvals", json(&format!(r#"["{NONCE}"]"#)));
    ledger.add(draft);
    ledger.complete(run_id(1), "c1");
    ledger.seal(run_id(1));
    caught(&verify_files(&export(&ledger), &trusting()), "P4");
}

#[test]
fn a_list_that_the_auditor_does_not_trust_proves_nothing() {
    let files = export(&ledger_of(|_| {}));
    unverifiable(&verify_files(&files, &trust()), "names no approvers");
    let other = Trust { approver_keys: vec![key(MALLORY).public()], ..trust() };
    caught(&verify_files(&files, &other), "P4");
    let other = Trust { approvers: vec![Digest::of(&[b"another list"])], ..trust() };
    caught(&verify_files(&files, &other), "P4");
}

#[test]
fn undisclosed_approvals_or_approver_lists_are_unverifiable() {
    let mut ledger = ledger_of(|_| {});
    ledger.payloads.retain(|_, row| row.role != "approval");
    unverifiable(&verify_files(&export(&ledger), &trusting()), "not disclosed");
    let files = {
        let mut files = export(&ledger_of(|_| {}));
        files.0.remove(APPROVERS);
        files.0.remove("approvals/allowed_signers.sig.json");
        remake(&mut files, &key(EVIDENCE));
        files
    };
    unverifiable(&verify_files(&files, &trusting()), "does not include the list of approvers");
}

#[test]
fn the_files_in_approvals_are_those_that_the_entries_commit_to() {
    let changed = |change: &dyn Fn(&mut Files)| {
        let mut files = export(&ledger_of(|_| {}));
        change(&mut files);
        remake(&mut files, &key(EVIDENCE));
        caught(&verify_files(&files, &trusting()), "P4");
    };
    let word = |files: &Files, end: &str| {
        let wanted = |name: &&String| name.starts_with("approvals/") && name.ends_with(end);
        files.0.keys().filter(wanted).find(|name| !name.contains("signers")).unwrap().clone()
    };
    changed(&|f| {
        let name = word(f, ".json");
        replace(f, &name, "approve", "refuse!");
    });
    changed(&|f| drop(f.0.remove(&word(f, ".sig"))));
    changed(&|f| f.put("approvals/99.json", "{}"));
    changed(&|f| {
        let other = list().replace("bob", "eve");
        f.put(APPROVERS, other);
    });
    let mut zip = export(&ledger_of(|_| {}));
    zip.put("approvals/other.allowed_signers", list());
    remake(&mut zip, &key(EVIDENCE));
    caught(&verify_files(&zip, &trusting()), "P4");
}
