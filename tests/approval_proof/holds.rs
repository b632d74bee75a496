//! A hold, an approver, and what one word about it is worth.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wicketgate::approval::approvers::Approvers;
use wicketgate::approval::sign::{Key, sign};
use wicketgate::approval::{
    Approval, ApprovalStatement, ApproverVerdict, Hold, NAMESPACE, Statement as _, check,
};
use wicketgate::clock::Entropy;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::ssh::SshKey;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::RunId;
use wicketgate::domain::time::Timestamp;
use wicketgate::record::approval::KeyKind;

pub struct Fixed(pub u8);

impl Entropy for Fixed {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0);
    }
}

pub fn key(n: u8) -> SecretKey {
    SecretKey::generate(&Fixed(n))
}

pub const ALICE: u8 = 1;
pub const BOB: u8 = 2;
pub const MALLORY: u8 = 66;

pub fn at(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

pub fn now() -> Timestamp {
    at("2027-01-15T12:00:00.000Z")
}

pub fn line(subject: &str, n: u8, options: &str, roles: &str) -> String {
    let key = SshKey::Plain(key(n).public()).line();
    format!("{subject} namespaces=\"{NAMESPACE}\"{options} {key} roles={roles}\n")
}

pub fn list() -> String {
    format!(
        "# who may approve\n{}{}",
        line("alice", ALICE, "", "approver,treasury"),
        line("bob@example.com", BOB, "", "approver")
    )
}

pub fn approvers() -> Approvers {
    Approvers::parse(list().as_bytes()).unwrap()
}

pub fn hold() -> Hold {
    Hold {
        call_digest: Digest::of(&[b"call"]),
        definition: Some(Digest::of(&[b"definition"])),
        layers: vec![
            ("org".into(), Digest::of(&[b"org"])),
            ("team".into(), Digest::of(&[b"team"])),
        ],
        manifest: Digest::of(&[b"manifest"]),
        run: RunId::from_random([7; 16]),
        expires: at("2027-01-15T12:15:00.000Z"),
        nonce: "0123456789abcdef0123456789abcdef".into(),
        excluded: vec!["carol".into()],
        given: Vec::new(),
    }
}

pub fn statement(word: ApproverVerdict) -> ApprovalStatement {
    let hold = hold();
    ApprovalStatement {
        call_digest: hold.call_digest,
        definition: hold.definition,
        layers: hold.layers,
        manifest: hold.manifest,
        run: hold.run,
        expires: hold.expires,
        nonce: hold.nonce,
        verdict: word,
    }
}

pub fn signed(n: u8, statement: &ApprovalStatement) -> String {
    sign(&Key::File(key(n)), statement).unwrap()
}

/// The code under which this is refused.
pub fn code(
    hold: &Hold,
    approvers: &Approvers,
    statement: &ApprovalStatement,
    signature: &str,
) -> &'static str {
    check(hold, approvers, &statement.bytes(), signature, now()).unwrap_err().code()
}

#[test]
fn a_signed_verdict_counts_for_the_held_call_that_it_names() {
    for word in [ApproverVerdict::Approve, ApproverVerdict::Refuse] {
        let said = statement(word);
        let counted =
            check(&hold(), &approvers(), &said.bytes(), &signed(ALICE, &said), now()).unwrap();
        let approval = counted.by;
        assert_eq!((approval.subject.as_str(), counted.statement.verdict), ("alice", word));
        assert_eq!(approval.roles, ["approver", "treasury"]);
        assert_eq!(approval.key, SshKey::Plain(key(ALICE).public()).fingerprint());
    }
}

#[test]
fn an_approval_that_differs_from_the_held_call_does_not_count() {
    type Change = fn(&mut ApprovalStatement);
    let table: [(&str, Change); 8] = [
        ("approval.run", |s| s.run = RunId::from_random([8; 16])),
        ("approval.call", |s| s.call_digest = Digest::of(&[b"another"])),
        ("approval.nonce", |s| s.nonce = "f".repeat(32)),
        ("approval.manifest", |s| s.manifest = Digest::of(&[b"another"])),
        ("approval.layers", |s| s.layers.truncate(1)),
        ("approval.layers", |s| s.layers.reverse()),
        ("approval.definition", |s| s.definition = None),
        ("approval.expires", |s| s.expires = at("2028-01-15T12:15:00.000Z")),
    ];
    for (expected, change) in table {
        let mut said = statement(ApproverVerdict::Approve);
        change(&mut said);
        assert_eq!(code(&hold(), &approvers(), &said, &signed(ALICE, &said)), expected);
    }
}

#[test]
fn a_signature_over_other_bytes_is_none() {
    let said = statement(ApproverVerdict::Approve);
    let refused = statement(ApproverVerdict::Refuse);
    // Signed as a refusal, handed in as an approval.
    assert_eq!(code(&hold(), &approvers(), &said, &signed(ALICE, &refused)), "approval.signature");
    let signature = signed(ALICE, &said);
    for rubbish in ["", "-----BEGIN SSH SIGNATURE-----\n", "AAAA", &"A".repeat(20_000)] {
        assert_eq!(code(&hold(), &approvers(), &said, rubbish), "approval.signature");
    }
    // The base64 alone is the same signature.
    let bare: String = signature.lines().filter(|l| !l.starts_with('-')).collect();
    check(&hold(), &approvers(), &said.bytes(), &bare, now()).unwrap();
    // Every bit of it counts.
    let blob = STANDARD.decode(&bare).unwrap();
    for at in 0..blob.len() {
        let mut other = blob.clone();
        other[at] ^= 1;
        let other = STANDARD.encode(other);
        check(&hold(), &approvers(), &said.bytes(), &other, now()).unwrap_err();
    }
}

#[test]
fn somebody_who_is_not_listed_or_no_more_or_not_yet_counts_for_nothing() {
    let said = statement(ApproverVerdict::Approve);
    assert_eq!(code(&hold(), &approvers(), &said, &signed(MALLORY, &said)), "approval.signer");
    let revoked = approvers().without([SshKey::Plain(key(ALICE).public()).fingerprint()]);
    assert_eq!(code(&hold(), &revoked, &said, &signed(ALICE, &said)), "approval.revoked");
    check(&hold(), &revoked, &said.bytes(), &signed(BOB, &said), now()).unwrap();
    let of = |options: &str, roles: &str| {
        let text = line("alice", ALICE, options, roles);
        let list = Approvers::parse(text.as_bytes()).unwrap();
        check(&hold(), &list, &said.bytes(), &signed(ALICE, &said), now())
            .map(drop)
            .map_err(|e| e.code())
    };
    // A key that was put in the list a minute ago and counts from tomorrow on.
    assert_eq!(of(",valid-after=\"20270116Z\"", "approver"), Err("approval.early"));
    assert_eq!(of(",valid-before=\"202701151159Z\"", "approver"), Err("approval.lapsed"));
    assert_eq!(of("", "treasury"), Err("approval.role"));
    of(",valid-after=\"20270115Z\",valid-before=\"20270116Z\"", "approver").unwrap();
    // Both ends belong to it, as with stock tools.
    of(",valid-after=\"20270115120000Z\"", "approver").unwrap();
    of(",valid-before=\"20270115120000Z\"", "approver").unwrap();
}

#[test]
fn nobody_approves_their_own_run_and_nobody_counts_twice() {
    let said = statement(ApproverVerdict::Approve);
    let own = Hold { excluded: vec!["Alice".into()], ..hold() };
    assert_eq!(code(&own, &approvers(), &said, &signed(ALICE, &said)), "approval.self");
    let before = |subject: &str, kind: KeyKind| Approval {
        subject: subject.into(),
        roles: Vec::new(),
        key: "SHA256:before".into(),
        key_kind: Some(kind),
        origin: None,
    };
    let again = Hold { given: vec![before("alice", KeyKind::File)], ..hold() };
    assert_eq!(code(&again, &approvers(), &said, &signed(ALICE, &said)), "approval.again");
    check(&again, &approvers(), &said.bytes(), &signed(BOB, &said), now()).unwrap();
    // A key that shows what it signs takes the place of the passkey of the same person.
    let passkey = Hold { given: vec![before("Alice", KeyKind::Passkey)], ..hold() };
    check(&passkey, &approvers(), &said.bytes(), &signed(ALICE, &said), now()).unwrap();
    // They may say no, whoever they are and whatever they said before.
    let refused = statement(ApproverVerdict::Refuse);
    for hold in [own, again] {
        check(&hold, &approvers(), &refused.bytes(), &signed(ALICE, &refused), now()).unwrap();
    }
}

#[test]
fn an_approval_expires_to_the_millisecond() {
    let said = statement(ApproverVerdict::Approve);
    let word =
        |text: &str| check(&hold(), &approvers(), &said.bytes(), &signed(ALICE, &said), at(text));
    word("2027-01-15T12:14:59.999Z").unwrap();
    assert_eq!(word("2027-01-15T12:15:00.000Z").unwrap_err().code(), "approval.expired");
}
