//! A held call that two people approve and that runs, and every change of it.

use wicketgate_crypto::dsse;
use wicketgate_crypto::ssh::SshKey;
use wicketgate_gate::evidence::bundle::Files;
use wicketgate_gate::evidence::query::Query;
use wicketgate_gate::evidence::trust::Trust;
use wicketgate_gate::evidence::verify::{Report, verify_files};
use wicketgate_policy::approval::approvers::PAYLOAD_TYPE;
use wicketgate_policy::approval::proposal::Proposal;
use wicketgate_policy::approval::sign::{Key, sign, sign_bytes};
use wicketgate_policy::approval::{
    ApprovalStatement, ApproverVerdict, NAMESPACE, SignedApproval, Statement as _,
};
use wicketgate_record::Kind;
use wicketgate_record::domain::decision::Verdict;
use wicketgate_record::domain::digest::Digest;
use wicketgate_record::domain::json::Json;
use wicketgate_record::domain::time::Timestamp;

use super::bundle::*;
use super::{Draft, TAR, TestLedger, YAML, json, key, run_id};

pub const ALICE: u8 = 40;
pub const BOB: u8 = 41;
pub const MALLORY: u8 = 66;
/// Who signs the list of approvers.
const SECURITY: u8 = 42;
pub const NONCE: &str = "0123456789abcdef0123456789abcdef";
/// Of the call that is changed.
pub const OLD_NONCE: &str = "fedcba9876543210fedcba9876543210";

pub fn list() -> String {
    let line = |subject: &str, n: u8| {
        let key = SshKey::Plain(key(n).public()).line();
        format!("{subject} namespaces=\"{NAMESPACE}\" {key} roles=approver,treasury\n")
    };
    format!("{}{}", line("alice", ALICE), line("bob", BOB))
}

pub fn set(draft: &mut Draft, name: &str, value: impl Into<Json>) {
    let Json::Object(members) = &mut draft.data else { panic!("no object") };
    members.insert(name.into(), value.into());
}

pub fn unset(draft: &mut Draft, name: &str) {
    let Json::Object(members) = &mut draft.data else { panic!("no object") };
    members.remove(name);
}

/// A signed approval or refusal, before it is recorded.
pub struct Vote {
    pub kind: Kind,
    pub by: u8,
    pub subject: &'static str,
    pub statement: ApprovalStatement,
    /// Where it is not the signature of `by`.
    pub signature: Option<String>,
    /// Changed after it was signed.
    pub text: Option<String>,
    /// Further members of its entry.
    pub more: Vec<(&'static str, &'static str)>,
    pub after_ms: i64,
}

/// A proposal of the arguments of the held call, about another that was held before it.
pub struct Proposed {
    pub by: u8,
    pub subject: &'static str,
    /// What is signed; the one that holds, unless it is changed.
    pub arguments: Vec<u8>,
    pub nonce: &'static str,
    /// Whether the entry commits to it.
    pub kept: bool,
}

/// A held call that two people approve and that runs.
pub struct ApprovedCall {
    /// The lists of approvers that were in force one after the other: version, text, and end.
    pub lists: Vec<(u64, String, Option<Timestamp>)>,
    /// Who wrote its arguments, if the agent did not.
    pub proposed: Option<Proposed>,
    pub held: Draft,
    /// What approvers of the held call sign; the verdict is theirs.
    pub statement: ApprovalStatement,
    pub votes: Vec<Vote>,
    /// Who the policy saw.
    pub policy_saw: Vec<(&'static str, u8)>,
    pub released: Option<Draft>,
    pub after_ms: i64,
}

pub fn approved_call(ledger: &mut TestLedger) -> ApprovedCall {
    let run = run_id(1);
    ledger.open(run);
    let mut held = ledger.decided(run, "c1", Kind::CallHeld, Verdict::RequireApproval);
    let layer = Digest::of(&[b"layer"]);
    set(
        &mut held,
        "layers",
        json(&format!(r#"[{{"layer":"org","digest":"{}"}}]"#, layer.prefixed())),
    );
    set(&mut held, "effect", Digest::of(&[b"effect"]).hex());
    set(&mut held, "definition", Digest::of(&[b"definition"]).prefixed());
    set(&mut held, "nonce", NONCE);
    let expires = Timestamp::from_millis(ledger.now().millis() + 900_000);
    set(&mut held, "expires", expires.to_string());
    let call_digest = held.data.get("call_digest").and_then(Json::as_str).unwrap();
    let statement = ApprovalStatement {
        call_digest: Digest::parse(call_digest).unwrap(),
        definition: Some(Digest::of(&[b"definition"])),
        layers: vec![("org".into(), layer)],
        manifest: Digest::of(&[YAML]),
        run,
        expires,
        nonce: NONCE.into(),
        verdict: ApproverVerdict::Approve,
    };
    let vote = |by, subject| Vote {
        kind: Kind::ApprovalGranted,
        by,
        subject,
        statement: statement.clone(),
        signature: None,
        text: None,
        more: Vec::new(),
        after_ms: 1000,
    };
    let mut released =
        Draft { kind: Kind::CallAuthorized, verdict: Some(Verdict::Allow), ..held.clone() };
    unset(&mut released, "nonce");
    unset(&mut released, "expires");
    set(&mut released, "approvals", json(&format!(r#"["{NONCE}","{NONCE}"]"#)));
    ApprovedCall {
        lists: vec![(1, list(), None)],
        proposed: None,
        held,
        statement: statement.clone(),
        votes: vec![vote(ALICE, "alice"), vote(BOB, "bob")],
        policy_saw: vec![("alice", ALICE), ("bob", BOB)],
        released: Some(released),
        after_ms: 1000,
    }
}

/// Another call is held and ends, and the approved call has the arguments that were proposed instead.
fn propose(ledger: &mut TestLedger, call: &mut ApprovedCall, proposed: &Proposed) {
    let run = run_id(1);
    let args = call.held.commit[0].c;
    let own = ledger.payloads.get(&args).unwrap().body.clone();
    let mut old = ledger.decided(run, "c0", Kind::CallHeld, Verdict::RequireApproval);
    for name in ["layers", "effect", "definition", "expires"] {
        set(&mut old, name, call.held.data.get(name).unwrap().clone());
    }
    set(&mut old, "nonce", OLD_NONCE);
    let salt = ledger.payloads.get(&old.commit[0].c).unwrap().salt;
    let call_digest = old.data.get("call_digest").and_then(Json::as_str).unwrap();
    let about = ApprovalStatement {
        call_digest: Digest::parse(call_digest).unwrap(),
        nonce: proposed.nonce.into(),
        verdict: ApproverVerdict::Refuse,
        ..call.statement.clone()
    };
    let named = if proposed.arguments.is_empty() { &own } else { &proposed.arguments };
    let statement = Proposal::new(about, &salt, named).bytes();
    let signature = sign_bytes(&Key::File(key(proposed.by)), NAMESPACE, &statement).unwrap();
    let signed = SignedApproval { statement: String::from_utf8(statement).unwrap(), signature };
    ledger.add(old);
    ledger.end(run, "c0", Kind::CallCancelled, r#"{"reason":"modified"}"#);
    if proposed.kept {
        call.held.commit.push(ledger.commit("approval", &signed.bytes()));
    }
    let by = json(&format!(
        r#"{{"key":"{}","roles":["approver","treasury"],"signers":"{}","subject":"{}"}}"#,
        fingerprint(proposed.by),
        Digest::of(&[list().as_bytes()]).prefixed(),
        proposed.subject
    ));
    set(&mut call.held, "asked_by", by.clone());
    if let Some(released) = &mut call.released {
        set(released, "asked_by", by);
    }
}

pub fn fingerprint(n: u8) -> String {
    SshKey::Plain(key(n).public()).fingerprint()
}

pub fn record_vote(ledger: &mut TestLedger, vote: Vote) {
    let text = String::from_utf8(vote.statement.bytes()).unwrap();
    let signature =
        vote.signature.unwrap_or_else(|| sign(&Key::File(key(vote.by)), &vote.statement).unwrap());
    let signed = SignedApproval { statement: vote.text.unwrap_or(text), signature };
    let commitment = ledger.commit("approval", &signed.bytes());
    let digest = vote.statement.call_digest.hex();
    let (fingerprint, list) = (fingerprint(vote.by), Digest::of(&[list().as_bytes()]));
    let mut draft = Draft::of(
        vote.kind,
        json(&format!(
            r#"{{"call_digest":"{digest}","key":"{fingerprint}","nonce":"{}","roles":["approver","treasury"],"signers":"{}","subject":"{}"}}"#,
            vote.statement.nonce,
            list.prefixed(),
            vote.subject
        )),
    );
    if vote.kind == Kind::ApprovalGranted {
        set(&mut draft, "expires", vote.statement.expires.to_string());
    }
    vote.more.iter().for_each(|(name, value)| set(&mut draft, name, *value));
    draft.run = Some(run_id(1));
    draft.call = wicketgate_record::domain::id::CallId::parse("c1");
    draft.commit = vec![commitment];
    ledger.pause(vote.after_ms);
    ledger.add(draft);
}

pub fn ledger_of(change: impl FnOnce(&mut ApprovedCall)) -> TestLedger {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    let mut call = approved_call(&mut ledger);
    change(&mut call);
    for (version, text, expires) in &call.lists {
        ledger.list("approvers", (*version, text), *expires);
        // One list may be for both: the report names the one it used.
        ledger.list("break-glass signers", (*version, text), *expires);
    }
    if let Some(proposed) = call.proposed.take() {
        propose(&mut ledger, &mut call, &proposed);
    }
    ledger.add(call.held.clone());
    call.votes.into_iter().for_each(|vote| record_vote(&mut ledger, vote));
    ledger.pause(call.after_ms);
    match call.released {
        Some(mut released) => {
            let told = call.policy_saw.iter().map(|(subject, n)| {
                format!(
                    r#"{{"approver":"{subject}","key":"{}","roles":["approver","treasury"]}}"#,
                    fingerprint(*n)
                )
            });
            let told = told.collect::<Vec<_>>().join(",");
            let input =
                ledger.commit("policy_input", format!(r#"{{"approvals":[{told}]}}"#).as_bytes());
            released.commit = vec![call.held.commit[0].clone(), input];
            let runs = released.kind == Kind::CallAuthorized;
            ledger.add(released);
            if runs {
                ledger.complete(run_id(1), "c1");
            }
        }
        None => ledger.end(run_id(1), "c1", Kind::CallExpired, r#"{"reason":"timeout"}"#),
    }
    ledger.seal(run_id(1));
    ledger
}

pub fn export(ledger: &TestLedger) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let (text, artifacts) = (list(), artifacts(&dir));
    let envelope = dsse::sign(PAYLOAD_TYPE, text.as_bytes(), &[&key(SECURITY)]);
    artifacts.put_approvers(&Digest::of(&[text.as_bytes()]), text.as_bytes(), &envelope).unwrap();
    let query = Query::Run(run_id(1));
    let exported = ask(ledger, &query, &[], &dir, &FleetDrafts::default()).unwrap();
    assert!(exported.missing.is_empty());
    Files::read(&exported.dir).unwrap()
}

pub fn trusting() -> Trust {
    Trust {
        approver_keys: vec![key(SECURITY).public()],
        policies: vec![Digest::of(&[TAR])],
        ..trust()
    }
}

pub fn judged(change: impl FnOnce(&mut ApprovedCall)) -> Report {
    verify_files(&export(&ledger_of(change)), &trusting())
}

pub fn holds(report: &Report) {
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
}
