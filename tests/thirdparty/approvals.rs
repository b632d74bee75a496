//! Approvals, checked with VERIFY.md, Python and stock OpenSSH alone.

use std::ffi::OsStr;

use wicketgate::approval::sign::{Key, sign};
use wicketgate::domain::digest::Digest;
use wicketgate::evidence::bundle::Files;

use crate::approved::{ALICE, ApprovedCall, MALLORY, export, ledger_of, list, set, unset};
use crate::bundle::EVIDENCE;
use crate::demo::written;
use crate::forged::key;
use crate::guide::{Tools, guide, run, script};

/// What an auditor with the guide says about these files, who has this list of approvers.
fn audited(files: &Files, approvers: Option<&str>) -> (bool, String) {
    let (dir, path) = written(files);
    let pem = dir.path().join("evidence.pem.pub");
    std::fs::write(&pem, key(EVIDENCE).public().to_pem()).unwrap();
    let own = dir.path().join("allowed_signers");
    let mut env: Vec<(&str, &OsStr)> = vec![("EVIDENCE_KEY", pem.as_os_str())];
    if let Some(text) = approvers {
        std::fs::write(&own, text).unwrap();
        env.push(("APPROVERS", own.as_os_str()));
    }
    run(&script(&guide(files), Tools::Stock, 1..=6), &path, &env)
}

fn refused(said: &str, change: impl FnOnce(&mut ApprovedCall)) {
    let (fine, told) = audited(&export(&ledger_of(change)), None);
    assert!(!fine && told.contains("files match") && told.contains(said), "`{said}`:\n{told}");
}

#[test]
fn an_auditor_with_the_guide_and_ssh_keygen_can_check_who_approved() {
    let files = export(&ledger_of(|_| {}));
    for own in [None, Some(list())] {
        let (fine, told) = audited(&files, own.as_deref());
        assert!(fine, "{told}");
        for part in [
            "Good \"wicketgate-approval\" signature for alice with ED25519 key SHA256:",
            "Good \"wicketgate-approval\" signature for bob with ED25519 key SHA256:",
            "c1 was released by ['alice', 'bob']",
        ] {
            assert!(told.contains(part), "`{part}` is not in:\n{told}");
        }
    }
    // Somebody whose own list has only one of them.
    let other = list().lines().next().unwrap().to_owned() + "\n";
    let (fine, told) = audited(&files, Some(&other));
    assert!(!fine && told.contains("Could not verify signature"), "{told}");
}

#[test]
fn the_guide_alone_catches_approvals_that_are_none() {
    refused("Could not verify signature", |s| {
        s.votes[0].signature = Some(sign(&Key::File(key(MALLORY)), &s.votes[0].statement).unwrap());
    });
    refused("incorrect signature", |s| {
        let mut other = s.votes[0].statement.clone();
        other.nonce = "f".repeat(32);
        s.votes[0].signature = Some(sign(&Key::File(key(ALICE)), &other).unwrap());
    });
    refused("about something else", |s| {
        s.votes[0].statement.call_digest = Digest::of(&[b"another"]);
    });
    refused("about something else", |s| s.votes[0].statement.layers.clear());
    refused("one person twice", |s| {
        s.votes[1].by = ALICE;
        s.votes[1].subject = "alice";
    });
    refused("released without an approval", |s| {
        unset(s.released.as_mut().unwrap(), "approvals");
    });
    refused("what ran is not what was held", |s| {
        set(s.released.as_mut().unwrap(), "effect", Digest::of(&[b"another"]).hex());
    });
}
