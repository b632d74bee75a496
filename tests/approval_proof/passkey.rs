//! Passkeys: what a browser signs counts like any other signature, on stricter terms than OpenSSH's.

use std::collections::BTreeSet;

use wicketgate::approval::approvers::Approvers;
use wicketgate::approval::{
    ApproverVerdict, NAMESPACE, PasskeyTerms, Statement, VerifiedStatement, amendment, break_glass,
    check, order,
};
use wicketgate::crypto::passkey::WebOrigin;
use wicketgate::crypto::sshsig::{self, SshSig};
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::ToolName;
use wicketgate::record::approval::KeyKind;
use wicketgate_support::passkey::{Ceremony, Passkey, SYNCED, VERIFIED, armored};

use crate::holds::{BOB, hold, line, now, statement};
use crate::stock;

const CONSOLE: &str = "https://console.example.com";

fn listed(passkey: &Passkey, namespaces: &str) -> String {
    format!("alice namespaces=\"{namespaces}\" {} roles=approver\n", passkey.public().line())
}

fn at(origins: &[&str], synced: bool) -> PasskeyTerms {
    let origins = origins.iter().map(|origin| WebOrigin::parse(origin).unwrap()).collect();
    PasskeyTerms::At { origins, synced }
}

fn list(passkey: &Passkey, terms: PasskeyTerms) -> Approvers {
    Approvers::parse(listed(passkey, NAMESPACE).as_bytes()).unwrap().admitting(terms)
}

/// A change of the way in which a signature is made.
type Change = fn(&mut Ceremony);

fn made(change: impl FnOnce(&mut Ceremony)) -> Ceremony {
    let mut how = Ceremony::at(CONSOLE);
    change(&mut how);
    how
}

#[test]
fn a_passkey_counts_at_a_trusted_console() {
    for application in ["console.example.com", "example.com"] {
        let passkey = Passkey::new(application);
        let list = list(&passkey, at(&["https://other.example.com", CONSOLE], true));
        for word in [ApproverVerdict::Approve, ApproverVerdict::Refuse] {
            let said = statement(word);
            for flags in [VERIFIED, SYNCED] {
                let how = made(|how| how.flags = flags);
                let signature = passkey.signs(NAMESPACE, &said.bytes(), &how);
                let counted = check(&hold(), &list, &said.bytes(), &signature, now()).unwrap();
                assert_eq!(
                    (counted.by.subject.as_str(), counted.statement.verdict),
                    ("alice", word)
                );
                assert_eq!(counted.by.key, passkey.public().fingerprint());
                assert_eq!(counted.by.key_kind, Some(KeyKind::Passkey));
                assert_eq!(counted.by.origin.as_deref(), Some(CONSOLE));
                // It is recorded as it came: written again it is the same text.
                assert_eq!(counted.signature, signature);
            }
        }
    }
}

#[test]
fn what_a_passkey_signs_elsewhere_or_otherwise_counts_for_nothing() {
    let (passkey, said) =
        (Passkey::new("console.example.com"), statement(ApproverVerdict::Approve));
    let list = list(&passkey, at(&[CONSOLE], false));
    let code = |list: &Approvers, how: &Ceremony| {
        let signature = passkey.signs(NAMESPACE, &said.bytes(), how);
        check(&hold(), list, &said.bytes(), &signature, now()).unwrap_err().code()
    };
    let table: [(&str, Change); 14] = [
        ("approval.unverified", |how| how.flags = 0x01),
        ("approval.signature", |how| how.flags = 0x04),
        ("approval.signature", |how| how.flags = VERIFIED | 0x40),
        ("approval.signature", |how| how.flags = VERIFIED | 0x80),
        ("approval.signature", |how| how.extensions = vec![0xa0]),
        ("approval.signature", |how| how.kind = "webauthn.create"),
        ("approval.signature", |how| how.kind = "payment.get"),
        ("approval.signature", |how| how.claimed = Some("https://a.console.example.com".into())),
        ("approval.signature", |how| how.origin = "https://console.example.com:443".into()),
        ("approval.signature", |how| how.origin = "https://elsewhere.example.com".into()),
        ("approval.origin", |how| how.origin = "https://a.console.example.com".into()),
        ("approval.origin", |how| how.origin = "https://console.example.com:8443".into()),
        ("approval.synced", |how| how.flags = SYNCED),
        ("approval.synced", |how| how.flags = VERIFIED | 0x08),
    ];
    for (expected, change) in table {
        assert_eq!(code(&list, &made(change)), expected, "{:?}", made(change));
    }
    // Without a console that is trusted, no passkey counts, and so where nobody said which ones do.
    let parsed = Approvers::parse(listed(&passkey, NAMESPACE).as_bytes()).unwrap();
    assert_eq!(code(&parsed, &made(|_| {})), "approval.passkey");
    assert_eq!(code(&parsed.clone().admitting(at(&[], true)), &made(|_| {})), "approval.origin");
    // Nor one that is not on the list, whoever made it.
    let (other, terms) = (Passkey::new("console.example.com"), at(&[CONSOLE], true));
    let stranger = Approvers::parse(listed(&other, NAMESPACE).as_bytes()).unwrap();
    assert_eq!(code(&stranger.admitting(terms), &made(|_| {})), "approval.signer");
    // An audit does not know the consoles and names them; everything else it checks.
    let audit = parsed.admitting(PasskeyTerms::Audit);
    let signature = passkey.signs(NAMESPACE, &said.bytes(), &made(|how| how.flags = SYNCED));
    let counted = check(&hold(), &audit, &said.bytes(), &signature, now()).unwrap();
    assert_eq!(counted.by.origin.as_deref(), Some(CONSOLE));
    assert_eq!(code(&audit, &made(|how| how.flags = 0x01)), "approval.unverified");
}

/// The code under which a passkey's statement of another kind is refused.
fn refused<S: Statement>(role: &str, said: &S, terms: PasskeyTerms) -> &'static str {
    let (passkey, namespace) = (Passkey::new("console.example.com"), S::PURPOSE.namespace());
    let text = listed(&passkey, namespace).replace("roles=approver", &format!("roles={role}"));
    let list = Approvers::parse_for(S::PURPOSE, text.as_bytes()).unwrap().admitting(terms);
    let (said, how) = (said.bytes(), made(|_| {}));
    let signature = passkey.signs(namespace, &said, &how);
    VerifiedStatement::<S>::check(&list, (&said, &signature), now()).map(drop).unwrap_err().code()
}

#[test]
fn a_passkey_signs_no_amendment_no_order_and_no_break_glass() {
    let amendment = amendment::AmendmentStatement {
        bundle: Digest::of(&[b"bundle"]),
        base: Digest::of(&[b"base"]),
        author: "paula".into(),
        expires: hold().expires,
        nonce: hold().nonce,
        verdict: ApproverVerdict::Approve,
    };
    let order = order::OrderStatement {
        tenant: "acme".into(),
        order: order::OrderKind::Reinstate,
        target: "all".into(),
        name: String::new(),
        finding: None,
        role: None,
        payloads: BTreeSet::new(),
        request: None,
        reason: "mended".into(),
        at: now(),
        expires: None,
        previous: order::Previous::NONE,
    };
    let glass = break_glass::BreakGlassStatement {
        tenant: "acme".into(),
        agent: "support".into(),
        tools: vec![ToolName::parse("work.do").unwrap()],
        reason: "the queue is stuck".into(),
        not_before: now(),
        expires: hold().expires,
        nonce: hold().nonce,
    };
    for terms in [at(&[CONSOLE], true), PasskeyTerms::Audit] {
        let codes = [
            refused(amendment::ROLE, &amendment, terms.clone()),
            refused(order::ROLE, &order, terms.clone()),
            refused(break_glass::ROLE, &glass, terms),
        ];
        assert_eq!(codes, ["approval.passkey", "order.passkey", "break_glass.passkey"]);
    }
}

#[test]
fn a_signature_by_a_key_of_a_passkeys_type_without_a_browser_says_so() {
    let passkey = Passkey::new("console.example.com");
    let said = statement(ApproverVerdict::Approve);
    let blob = passkey.blob(NAMESPACE, &said.bytes(), &made(|_| {}));
    let find = b"webauthn-sk-ecdsa";
    let place = blob.windows(find.len()).position(|part| part == find).unwrap();
    // As ssh-agent answers for such a key: the type has no `webauthn-` before it.
    let mut other = blob.clone();
    other.drain(place..place + "webauthn-".len());
    let name = place - 4..place;
    other[name].copy_from_slice(&34_u32.to_be_bytes());
    let inner = place - 8..place - 4;
    let length = u32::from_be_bytes(blob[inner.clone()].try_into().unwrap());
    other[inner].copy_from_slice(&(length - 9).to_be_bytes());
    let why = SshSig::parse(&armored(&other)).unwrap_err().to_string();
    assert!(why.contains("signs in a browser only"), "{why}");
}

/// Whether we take a signature, before it is asked who made it and where.
fn ours(list: &Approvers, signature: &str, message: &[u8]) -> Result<(), sshsig::Error> {
    let signature = SshSig::parse(signature)?;
    signature.verify(NAMESPACE, message)?;
    list.signer(&signature.key).map(drop).ok_or(sshsig::Error::Wrong)
}

#[test]
fn ssh_keygen_accepts_a_passkeys_signature_and_refuses_what_we_refuse() {
    let dir = tempfile::tempdir().unwrap();
    let (passkey, said) =
        (Passkey::new("console.example.com"), statement(ApproverVerdict::Approve));
    let (text, other) = (listed(&passkey, NAMESPACE), statement(ApproverVerdict::Refuse));
    let list = list(&passkey, PasskeyTerms::Audit);
    // Whether ssh-keygen takes it, and whether we do: what it does not ask for, it does not refuse.
    let table: [(bool, bool, Change); 11] = [
        (true, true, |_| {}),
        (true, true, |how| how.flags = SYNCED),
        (true, true, |how| (how.flags, how.extensions) = (VERIFIED | 0x80, vec![0xa0])),
        (true, true, |how| how.rest = "}"),
        (true, false, |how| how.flags = 0x01),
        (true, false, |how| how.flags = 0x04),
        (true, false, |how| how.origin = "https://console.example.org".into()),
        (false, false, |how| how.flags = VERIFIED | 0x40),
        (false, false, |how| how.flags = VERIFIED | 0x80),
        (false, false, |how| how.kind = "webauthn.create"),
        (false, false, |how| how.claimed = Some("https://a.console.example.com".into())),
    ];
    for (stock_takes, we_take, change) in table {
        let how = made(change);
        let signature = passkey.signs(NAMESPACE, &said.bytes(), &how);
        let stock = |message: &[u8], namespace: &str| {
            stock::verified(&dir, &text, namespace, &signature, message)
        };
        assert_eq!(stock(&said.bytes(), NAMESPACE), stock_takes, "{how:?}");
        assert_eq!(ours(&list, &signature, &said.bytes()).is_ok(), we_take, "{how:?}");
        assert!(!stock(&other.bytes(), NAMESPACE) && !stock(&said.bytes(), "git"), "{how:?}");
        ours(&list, &signature, &other.bytes()).unwrap_err();
    }
}

/// The next number of a fixed sequence (xorshift).
fn draw(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state % u64::try_from(below).unwrap()).unwrap()
}

/// One change of the bytes: a bit, a byte, one more, one less, two that change places, the end.
fn changed(blob: &[u8], state: &mut u64) -> Vec<u8> {
    let (mut other, at) = (blob.to_vec(), draw(state, blob.len()));
    match draw(state, 6) {
        0 => other[at] ^= 1 << draw(state, 8),
        1 => other[at] = draw(state, 256) as u8,
        2 => other.insert(at, draw(state, 256) as u8),
        3 => drop(other.remove(at)),
        4 => other.swap(at, draw(state, blob.len())),
        _ => other.truncate(at),
    }
    other
}

#[test]
fn ssh_keygen_and_we_agree_about_a_thousand_changed_signatures() {
    let dir = tempfile::tempdir().unwrap();
    let (mut state, mut refused) = (0x9e37_79b9_7f4a_7c15, 0);
    for n in 0..20_u8 {
        let passkey = Passkey::new(if n % 2 == 0 { "console.example.com" } else { "example.com" });
        let (text, list) = (listed(&passkey, NAMESPACE), list(&passkey, PasskeyTerms::Audit));
        let mut said = statement(ApproverVerdict::Approve);
        said.nonce = format!("{n:032x}");
        let how = made(|how| match n % 3 {
            0 => {}
            1 => how.flags = SYNCED,
            _ => (how.flags, how.extensions) = (VERIFIED | 0x80, vec![0xa1, 0x61, n, 0xf5]),
        });
        let blob = passkey.blob(NAMESPACE, &said.bytes(), &how);
        for _ in 0..50 {
            let signature = armored(&changed(&blob, &mut state));
            let theirs = stock::verified(&dir, &text, NAMESPACE, &signature, &said.bytes());
            let own = ours(&list, &signature, &said.bytes());
            assert_eq!(own.is_ok(), theirs, "{own:?}\n{text}{signature}");
            refused += usize::from(!theirs);
        }
    }
    // A change may leave the bytes as they were.
    assert!((900..=1000).contains(&refused), "{refused}");
}

#[test]
fn a_list_may_have_a_passkey_beside_other_keys_of_one_person() {
    let passkey = Passkey::new("console.example.com");
    let text = listed(&passkey, NAMESPACE) + &line("alice", BOB, "", "approver");
    let list = Approvers::parse(text.as_bytes()).unwrap();
    assert_eq!(list.signers().len(), 2);
    for wrong in [
        text.replace("sk-ecdsa-sha2-nistp256@openssh.com", "sk-ssh-ed25519@openssh.com"),
        text.replace("sk-ecdsa-sha2-nistp256@openssh.com", "ecdsa-sha2-nistp256"),
    ] {
        Approvers::parse(wrong.as_bytes()).unwrap_err();
    }
}
