//! Hardware keys (FIDO), made here: what they sign is a hash of the application, flags and a counter too.

use sha2::{Digest as _, Sha256};
use wicketgate::approval::approvers::Approvers;
use wicketgate::approval::{ApproverVerdict, NAMESPACE, Statement as _, check};
use wicketgate::crypto::ssh::{HARDWARE, SshKey, put};
use wicketgate::crypto::sshsig::{SshHash, SshSig, covered};

use crate::holds::{ALICE, hold, key, now, statement};

pub fn public(n: u8) -> SshKey {
    SshKey::Hardware { key: key(n).public(), application: "ssh:".into() }
}

/// What such a key answers when it is asked to sign these bytes.
pub fn answer(n: u8, flags: u8, message: &[u8]) -> Vec<u8> {
    let mut signed = Sha256::digest(b"ssh:").to_vec();
    signed.push(flags);
    signed.extend_from_slice(&41_u32.to_be_bytes());
    signed.extend_from_slice(&Sha256::digest(message));
    let mut out = Vec::new();
    put(&mut out, HARDWARE.as_bytes());
    put(&mut out, &key(n).sign(&signed));
    out.push(flags);
    out.extend_from_slice(&41_u32.to_be_bytes());
    out
}

pub fn signature(n: u8, flags: u8, hash: SshHash, message: &[u8]) -> SshSig {
    let answer = answer(n, flags, &covered(NAMESPACE, hash, message));
    SshSig::answered(public(n), NAMESPACE, hash, &answer).unwrap()
}

pub fn listed(n: u8) -> String {
    format!("alice namespaces=\"{NAMESPACE}\" {} roles=approver\n", public(n).line())
}

#[test]
fn a_touched_key_counts_and_an_untouched_one_does_not() {
    let said = statement(ApproverVerdict::Approve);
    let list = Approvers::parse(listed(ALICE).as_bytes()).unwrap();
    let word =
        |signature: &SshSig| check(&hold(), &list, &said.bytes(), &signature.armored(), now());
    for hash in [SshHash::Sha256, SshHash::Sha512] {
        // Present, and present and verified by PIN.
        for flags in [0x01, 0x05] {
            let approval = word(&signature(ALICE, flags, hash, &said.bytes())).unwrap().by;
            assert_eq!(approval.key, public(ALICE).fingerprint());
        }
        for flags in [0x00, 0x04] {
            let refused = word(&signature(ALICE, flags, hash, &said.bytes())).unwrap_err();
            assert_eq!(refused.code(), "approval.signature");
            assert!(refused.why.to_string().contains("without a touch"), "{refused}");
        }
    }
}

#[test]
fn flags_counter_and_application_are_signed_too() {
    let said = statement(ApproverVerdict::Approve);
    let covered = covered(NAMESPACE, SshHash::Sha512, &said.bytes());
    let read = |key: SshKey, answer: &[u8]| {
        let made = SshSig::answered(key, NAMESPACE, SshHash::Sha512, answer).unwrap();
        made.verify(NAMESPACE, &said.bytes())
    };
    let good = answer(ALICE, 1, &covered);
    read(public(ALICE), &good).unwrap();
    for at in [good.len() - 1, good.len() - 5] {
        let mut other = good.clone();
        other[at] ^= 4;
        read(public(ALICE), &other).unwrap_err();
    }
    let elsewhere = SshKey::Hardware { key: key(ALICE).public(), application: "ssh:web".into() };
    read(elsewhere, &good).unwrap_err();
    // The same secret as a plain key is another key.
    let list = Approvers::parse(crate::holds::list().as_bytes()).unwrap();
    let made = signature(ALICE, 1, SshHash::Sha512, &said.bytes());
    let refused = check(&hold(), &list, &said.bytes(), &made.armored(), now()).unwrap_err();
    assert_eq!(refused.code(), "approval.signer");
}
