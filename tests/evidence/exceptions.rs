//! Values that passed the firewall by signed orders, as an auditor sees them.

use std::collections::BTreeSet;

use wicketgate::approval::Statement as _;
use wicketgate::approval::order::{AllowedFinding, NAMESPACE, OrderKind, OrderStatement, Previous};
use wicketgate::approval::sign::{Key, sign_bytes};
use wicketgate::crypto::ssh::SshKey;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::bundle::Files;
use wicketgate::record::{Kind, Nonce};

use crate::approved::{set, unset};
use crate::bundle::ENROLMENT;
use crate::forged::{Draft, TestLedger, json, key, run_id};
use crate::orders::{self, SECURITY, exported};

const OTTO: u8 = 50;
const ALICE: u8 = 51;
const MARK: Nonce = Nonce([7; 16]);

fn list() -> String {
    let line = |subject: &str, n: u8, role: &str| {
        let key = SshKey::Plain(key(n).public()).line();
        format!("{subject} namespaces=\"{NAMESPACE}\" {key} roles={role}\n")
    };
    format!("{}{}", line("otto", OTTO, "operator"), line("alice", ALICE, "approver"))
}

/// What a decision with an excused finding is made of.
struct Passed {
    statement: OrderStatement,
    by: u8,
    /// Changes the order and the finding as the entry names them.
    order: fn(&mut serde_json::Value),
    finding: fn(&mut serde_json::Value),
    /// Changes the entry after it was made.
    change: fn(&mut Draft),
}

fn passed(ledger: &TestLedger) -> Passed {
    let at = ledger.now();
    let statement = OrderStatement {
        tenant: "default".into(),
        order: OrderKind::Allow,
        target: "tool".into(),
        name: "repo.read_file".into(),
        finding: Some(AllowedFinding {
            direction: "arguments".into(),
            kind: "github".into(),
            mark: MARK,
            path: "/path".into(),
        }),
        role: None,
        payloads: BTreeSet::new(),
        request: None,
        reason: "a fixture".into(),
        at,
        expires: Some(Timestamp::from_millis(at.millis() + 86_400_000)),
        previous: Previous { seq: 3, digest: Digest::of(&[b"row"]) },
    };
    Passed { statement, by: OTTO, order: |_| {}, finding: |_| {}, change: |_| {} }
}

fn decision(ledger: &mut TestLedger, passed: &Passed) -> Draft {
    let bytes = passed.statement.bytes();
    let signature = sign_bytes(&Key::File(key(passed.by)), NAMESPACE, &bytes).unwrap();
    let mut order = serde_json::json!({
        "order": 4, "statement": String::from_utf8(bytes).unwrap(), "signature": signature, "subject": "otto",
        "key": SshKey::Plain(key(OTTO).public()).fingerprint(),
        "signers": Digest::of(&[list().as_bytes()]).prefixed()});
    (passed.order)(&mut order);
    let mut finding = serde_json::json!({"kind": "github", "class": "secret", "confidence": "high", "path": "/path",
        "action": "warn", "mark": MARK.to_string(), "exception": 4});
    (passed.finding)(&mut finding);
    let mut draft = ledger.decided(run_id(1), "c1", Kind::CallAuthorized, Verdict::Allow);
    set(&mut draft, "exceptions", json(&serde_json::json!([order]).to_string()));
    set(&mut draft, "findings", json(&serde_json::json!([finding]).to_string()));
    (passed.change)(&mut draft);
    draft
}

fn bundle(change: impl FnOnce(&mut Passed)) -> Files {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    let mut passed = passed(&ledger);
    change(&mut passed);
    ledger.list("approvers", (1, &list()), None);
    ledger.open(run_id(1));
    let draft = decision(&mut ledger, &passed);
    ledger.add(draft);
    ledger.complete(run_id(1), "c1");
    ledger.seal(run_id(1));
    exported(&ledger, &list())
}

#[track_caller]
fn told(files: &Files, expected: &str, part: &str) {
    orders::told(files, SECURITY, expected, part);
}

#[test]
fn a_value_that_passed_without_a_valid_signed_order_for_it_makes_the_evidence_invalid() {
    let good = bundle(|_| {});
    told(&good, "VALID", "1 value let past the firewall by an operator's own order");
    let said = |change: fn(&mut OrderStatement)| -> Box<dyn FnOnce(&mut Passed)> {
        Box::new(move |passed| change(&mut passed.statement))
    };
    let about = |change: fn(&mut AllowedFinding)| -> Box<dyn FnOnce(&mut Passed)> {
        Box::new(move |passed| passed.statement.finding.iter_mut().for_each(change))
    };
    let finding = |change: fn(&mut serde_json::Value)| -> Box<dyn FnOnce(&mut Passed)> {
        Box::new(move |passed| passed.finding = change)
    };
    let wrong: [(Box<dyn FnOnce(&mut Passed)>, &str); 14] = [
        (
            Box::new(|passed| passed.change = |draft| unset(draft, "exceptions")),
            "no signed order lets it",
        ),
        (finding(|one| one["exception"] = 9.into()), "no signed order lets it"),
        (finding(|one| one["mark"] = "08".repeat(16).into()), "an order about another value"),
        (finding(|one| one["kind"] = "card".into()), "an order about another value"),
        (finding(|one| one["path"] = "/other".into()), "an order about another value"),
        (finding(|one| one["action"] = "redact".into()), "an order about another value"),
        (about(|one| one.direction = "results".into()), "an order about another direction"),
        (said(|said| said.name = "repo.write_file".into()), "an order about another tool"),
        (
            said(|said| {
                said.at = Timestamp::from_millis(said.at.millis() - 7_200_000);
                said.expires = Some(Timestamp::from_millis(said.at.millis() + 1_000));
            }),
            "after its order had ended",
        ),
        (said(|said| said.tenant = "other".into()), "order.tenant"),
        (
            said(|said| {
                (said.order, said.finding, said.expires) = (OrderKind::Reinstate, None, None);
            }),
            "order.kind",
        ),
        (Box::new(|passed| passed.by = ALICE), "order.role"),
        (
            Box::new(|passed| passed.order = |order| order["subject"] = "alice".into()),
            "not those of the signature",
        ),
        (
            Box::new(|passed| {
                passed.order = |order| {
                    let statement = order["statement"].as_str().unwrap().replace("/path", "/x");
                    order["statement"] = statement.into();
                };
            }),
            "order.",
        ),
    ];
    for (change, part) in wrong {
        told(&bundle(change), "INVALID", part);
    }
}
