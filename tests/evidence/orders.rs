//! Stops that gates took back, as an auditor sees them.

use std::collections::BTreeSet;

use crate::forged::Draft;
use wicketgate::approval::approvers::PAYLOAD_TYPE;
use wicketgate::approval::order::{NAMESPACE, OrderKind, OrderStatement, Previous};
use wicketgate::approval::sign::{Key, sign_bytes};
use wicketgate::approval::{SignedApproval, Statement as _};
use wicketgate::crypto::dsse;
use wicketgate::crypto::ssh::SshKey;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::bundle::Files;
use wicketgate::evidence::query::Query;
use wicketgate::evidence::scope::Span;
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::report::Outcome;
use wicketgate::evidence::verify::verify_files;
use wicketgate::record::Kind;

use crate::approved::{set, unset};
use crate::bundle::*;
use crate::forged::{ORIGIN, TestLedger, json, key, run_id};

const OTTO: u8 = 50;
const ALICE: u8 = 51;
pub const SECURITY: u8 = 52;

fn list() -> String {
    let line = |subject: &str, n: u8, role: &str| {
        let key = SshKey::Plain(key(n).public()).line();
        format!("{subject} namespaces=\"{NAMESPACE}\" {key} roles={role}\n")
    };
    format!("{}{}", line("otto", OTTO, "operator"), line("alice", ALICE, "approver"))
}

/// What a gate's entry about a stop that was taken back is made of.
struct Taken {
    statement: OrderStatement,
    by: u8,
    namespace: &'static str,
    /// Changes the entry after it was made.
    change: fn(&mut Draft),
    /// The list that is in force on the chain.
    bound: String,
}

fn taken(ledger: &TestLedger) -> Taken {
    let statement = OrderStatement {
        tenant: "default".into(),
        order: OrderKind::Reinstate,
        target: "agent".into(),
        name: "reviewer".into(),
        finding: None,
        role: None,
        payloads: BTreeSet::new(),
        request: None,
        reason: "fixed".into(),
        at: ledger.now(),
        expires: None,
        previous: Previous { seq: 3, digest: Digest::of(&[b"row"]) },
    };
    Taken { statement, by: OTTO, namespace: NAMESPACE, change: |_| {}, bound: list() }
}

fn entry(taken: &Taken) -> Draft {
    let said = &taken.statement;
    let bytes = said.bytes();
    let signature = sign_bytes(&Key::File(key(taken.by)), taken.namespace, &bytes).unwrap();
    let signed = SignedApproval { statement: String::from_utf8(bytes).unwrap(), signature };
    let idle = r#"{"seq":4,"action":"reinstate","stopped":[],"stopped_count":0,"runs_sealed":0,"left":0,"subject":"otto","auth":"ssh"}"#;
    let mut draft = Draft::of(Kind::ControlApplied, json(idle));
    for (name, value) in [
        ("target", said.target.clone()),
        ("name", said.name.clone()),
        ("key", SshKey::Plain(key(OTTO).public()).fingerprint()),
        ("signers", Digest::of(&[list().as_bytes()]).prefixed()),
        ("statement", signed.statement),
        ("signature", signed.signature),
        ("row", Digest::of(&[b"its row"]).prefixed()),
    ] {
        set(&mut draft, name, value);
    }
    set(&mut draft, "after", Json::from(said.previous.seq));
    (taken.change)(&mut draft);
    draft
}

fn bundle(change: impl FnOnce(&mut Taken)) -> Files {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    let mut taken = taken(&ledger);
    change(&mut taken);
    ledger.list("approvers", (1, &taken.bound), None);
    ledger.add(entry(&taken));
    ledger.whole_run(run_id(1));
    exported(&ledger, &list())
}

/// The bundle of the whole ledger, with this list of approvers.
pub fn exported(ledger: &TestLedger, list: &str) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let artifacts = artifacts(&dir);
    let envelope = dsse::sign(PAYLOAD_TYPE, list.as_bytes(), &[&key(SECURITY)]);
    artifacts.put_approvers(&Digest::of(&[list.as_bytes()]), list.as_bytes(), &envelope).unwrap();
    let to = ledger.row().head.size;
    let query = Query::Range { log: ORIGIN.into(), span: Span { from: 0, to } };
    let exported = ask(ledger, &query, &[], &dir, &FleetDrafts::default()).unwrap();
    Files::read(&exported.dir).unwrap()
}

/// What P4 says to a verifier who trusts this key for lists of approvers.
#[track_caller]
pub fn told(files: &Files, approvers: u8, expected: &str, part: &str) {
    let trust = Trust { approver_keys: vec![key(approvers).public()], ..trust() };
    let report = verify_files(files, &trust);
    let (found, why) = match report.outcome("P4").unwrap() {
        Outcome::Valid(why) => ("VALID", why),
        Outcome::Invalid(why) => ("INVALID", why),
        Outcome::Unverifiable(why) => ("UNVERIFIABLE", why),
    };
    assert!(found == expected && why.contains(part), "{part}: {}", report.to_text());
}

#[test]
fn a_stop_lifted_without_a_valid_signed_order_makes_the_evidence_invalid() {
    let good = bundle(|_| {});
    told(&good, SECURITY, "VALID", "1 stop taken back by an operator's own order");
    told(&good, OTTO, "INVALID", "the list of approvers");
    assert_eq!(
        verify_files(&good, &trust()).outcome("P4").map(|o| matches!(o, Outcome::Unverifiable(_))),
        Some(true)
    );
    let another =
        |change: fn(&mut OrderStatement)| move |taken: &mut Taken| change(&mut taken.statement);
    let changed = |change: fn(&mut Draft)| move |taken: &mut Taken| taken.change = change;
    let nobody = |draft: &mut Draft| {
        ["statement", "signature", "signers", "key"].iter().for_each(|name| unset(draft, name));
    };
    let wrong: [(Box<dyn FnOnce(&mut Taken)>, &str); 14] = [
        (Box::new(changed(nobody)), "it is not signed"),
        (Box::new(changed(|draft| unset(draft, "signature"))), "has no signature"),
        (Box::new(changed(|draft| set(draft, "name", "another"))), "differs from the order's"),
        (Box::new(changed(|draft| set(draft, "target", "run"))), "differs from the order's"),
        (
            Box::new(changed(|draft| set(draft, "expires", "2030-01-01T00:00:00.000Z"))),
            "differs from the order's",
        ),
        (Box::new(changed(|draft| set(draft, "after", Json::from(9_u64)))), "`after` is not"),
        (Box::new(changed(|draft| set(draft, "subject", "alice"))), "not those of the signature"),
        (Box::new(changed(|draft| set(draft, "action", "suspend"))), "reinstates nothing"),
        (Box::new(another(|said| said.tenant = "other".into())), "order.tenant"),
        (
            Box::new(another(|said| {
                (said.order, said.target) = (OrderKind::Release, "run".into());
            })),
            "order.kind",
        ),
        (
            Box::new(another(|said| {
                said.at = Timestamp::from_millis(said.at.millis() + 3_600_000);
            })),
            "order.future",
        ),
        (Box::new(|taken: &mut Taken| taken.by = ALICE), "order.role"),
        (Box::new(|taken: &mut Taken| taken.namespace = "wicketgate-approval"), "order.namespace"),
        (
            Box::new(|taken: &mut Taken| taken.bound = "# another\n".into()),
            "was not in force on this chain",
        ),
    ];
    for (change, part) in wrong {
        told(&bundle(change), SECURITY, "INVALID", part);
    }
}
