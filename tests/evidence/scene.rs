//! A held call that two people approve and that runs, and any other play with it.

use crate::books::Draft;
use wicketgate::approval::approvers::PAYLOAD_TYPE;
use wicketgate::approval::proposal::Proposal;
use wicketgate::approval::sign::{Key, sign, sign_bytes};
use wicketgate::approval::{
    ApprovalStatement, ApproverVerdict, NAMESPACE, SignedApproval, Statement as _,
};
use wicketgate::crypto::dsse;
use wicketgate::crypto::ssh::SshKey;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::bundle::Files;
use wicketgate::evidence::query::Query;
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::{Report, verify_files};
use wicketgate::record::Kind;

use crate::books::{Books, TAR, YAML, json, key, run_id};
use crate::desk::*;

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

/// An approver's word on its way into the log.
pub struct Spoken {
    pub kind: Kind,
    pub by: u8,
    pub subject: &'static str,
    pub statement: ApprovalStatement,
    /// Where it is not the signature of `by`.
    pub signature: Option<String>,
    /// Changed after it was signed.
    pub text: Option<String>,
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
pub struct Scene {
    /// The lists of approvers that were in force one after the other: version, text, and end.
    pub lists: Vec<(u64, String, Option<Timestamp>)>,
    /// Who wrote its arguments, if the agent did not.
    pub proposed: Option<Proposed>,
    pub held: Draft,
    /// What approvers of the held call sign; the verdict is theirs.
    pub statement: ApprovalStatement,
    pub words: Vec<Spoken>,
    /// Who the policy saw.
    pub told: Vec<(&'static str, u8)>,
    pub released: Option<Draft>,
    pub after_ms: i64,
}

pub fn scene(books: &mut Books) -> Scene {
    let run = run_id(1);
    books.open(run);
    let mut held = books.decided(run, "c1", Kind::CallHeld, Verdict::RequireApproval);
    let layer = Digest::of(&[b"layer"]);
    set(
        &mut held,
        "layers",
        json(&format!(r#"[{{"layer":"org","digest":"{}"}}]"#, layer.prefixed())),
    );
    set(&mut held, "effect", Digest::of(&[b"effect"]).hex());
    set(&mut held, "definition", Digest::of(&[b"definition"]).prefixed());
    set(&mut held, "nonce", NONCE);
    let expires = Timestamp::from_millis(books.now().millis() + 900_000);
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
    let spoken = |by, subject| Spoken {
        kind: Kind::ApprovalGranted,
        by,
        subject,
        statement: statement.clone(),
        signature: None,
        text: None,
        after_ms: 1000,
    };
    let mut released =
        Draft { kind: Kind::CallAuthorized, verdict: Some(Verdict::Allow), ..held.clone() };
    unset(&mut released, "nonce");
    unset(&mut released, "expires");
    set(&mut released, "approvals", json(&format!(r#"["{NONCE}","{NONCE}"]"#)));
    Scene {
        lists: vec![(1, list(), None)],
        proposed: None,
        held,
        statement: statement.clone(),
        words: vec![spoken(ALICE, "alice"), spoken(BOB, "bob")],
        told: vec![("alice", ALICE), ("bob", BOB)],
        released: Some(released),
        after_ms: 1000,
    }
}

/// Another call is held and ends, and the scene's call has the arguments that somebody proposed instead.
fn propose(books: &mut Books, scene: &mut Scene, proposed: &Proposed) {
    let run = run_id(1);
    let args = scene.held.commit[0].c;
    let own = books.payloads.get(&args).unwrap().body.clone();
    let mut old = books.decided(run, "c0", Kind::CallHeld, Verdict::RequireApproval);
    for name in ["layers", "effect", "definition", "expires"] {
        set(&mut old, name, scene.held.data.get(name).unwrap().clone());
    }
    set(&mut old, "nonce", OLD_NONCE);
    let salt = books.payloads.get(&old.commit[0].c).unwrap().salt;
    let call_digest = old.data.get("call_digest").and_then(Json::as_str).unwrap();
    let about = ApprovalStatement {
        call_digest: Digest::parse(call_digest).unwrap(),
        nonce: proposed.nonce.into(),
        verdict: ApproverVerdict::Refuse,
        ..scene.statement.clone()
    };
    let named = if proposed.arguments.is_empty() { &own } else { &proposed.arguments };
    let statement = Proposal::new(about, &salt, named).bytes();
    let signature = sign_bytes(&Key::File(key(proposed.by)), NAMESPACE, &statement).unwrap();
    let signed = SignedApproval { statement: String::from_utf8(statement).unwrap(), signature };
    books.add(old);
    books.end(run, "c0", Kind::CallCancelled, r#"{"reason":"modified"}"#);
    if proposed.kept {
        scene.held.commit.push(books.commit("approval", &signed.bytes()));
    }
    let by = json(&format!(
        r#"{{"key":"{}","roles":["approver","treasury"],"signers":"{}","subject":"{}"}}"#,
        fingerprint(proposed.by),
        Digest::of(&[list().as_bytes()]).prefixed(),
        proposed.subject
    ));
    set(&mut scene.held, "asked_by", by.clone());
    if let Some(released) = &mut scene.released {
        set(released, "asked_by", by);
    }
}

pub fn fingerprint(n: u8) -> String {
    SshKey::Plain(key(n).public()).fingerprint()
}

pub fn speak(books: &mut Books, spoken: Spoken) {
    let text = String::from_utf8(spoken.statement.bytes()).unwrap();
    let signature = spoken
        .signature
        .unwrap_or_else(|| sign(&Key::File(key(spoken.by)), &spoken.statement).unwrap());
    let signed = SignedApproval { statement: spoken.text.unwrap_or(text), signature };
    let commitment = books.commit("approval", &signed.bytes());
    let digest = spoken.statement.call_digest.hex();
    let (fingerprint, list) = (fingerprint(spoken.by), Digest::of(&[list().as_bytes()]));
    let mut draft = Draft::of(
        spoken.kind,
        json(&format!(
            r#"{{"call_digest":"{digest}","key":"{fingerprint}","nonce":"{}","roles":["approver","treasury"],"signers":"{}","subject":"{}"}}"#,
            spoken.statement.nonce,
            list.prefixed(),
            spoken.subject
        )),
    );
    if spoken.kind == Kind::ApprovalGranted {
        set(&mut draft, "expires", spoken.statement.expires.to_string());
    }
    draft.run = Some(run_id(1));
    draft.call = wicketgate::domain::id::CallId::parse("c1");
    draft.commit = vec![commitment];
    books.pause(spoken.after_ms);
    books.add(draft);
}

pub fn books_of(change: impl FnOnce(&mut Scene)) -> Books {
    let mut books = Books::new(1, key(ENROLMENT));
    let mut scene = scene(&mut books);
    change(&mut scene);
    for (version, text, expires) in &scene.lists {
        books.list("approvers", (*version, text), *expires);
        // One list may be for both: which of them was asked about is told.
        books.list("break-glass signers", (*version, text), *expires);
    }
    if let Some(proposed) = scene.proposed.take() {
        propose(&mut books, &mut scene, &proposed);
    }
    books.add(scene.held.clone());
    scene.words.into_iter().for_each(|spoken| speak(&mut books, spoken));
    books.pause(scene.after_ms);
    match scene.released {
        Some(mut released) => {
            let told = scene.told.iter().map(|(subject, n)| {
                format!(
                    r#"{{"approver":"{subject}","key":"{}","roles":["approver","treasury"]}}"#,
                    fingerprint(*n)
                )
            });
            let told = told.collect::<Vec<_>>().join(",");
            let input =
                books.commit("policy_input", format!(r#"{{"approvals":[{told}]}}"#).as_bytes());
            released.commit = vec![scene.held.commit[0].clone(), input];
            let runs = released.kind == Kind::CallAuthorized;
            books.add(released);
            if runs {
                books.complete(run_id(1), "c1");
            }
        }
        None => books.end(run_id(1), "c1", Kind::CallExpired, r#"{"reason":"timeout"}"#),
    }
    books.seal(run_id(1));
    books
}

pub fn export(books: &Books) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let (text, artifacts) = (list(), artifacts(&dir));
    let envelope = dsse::sign(PAYLOAD_TYPE, text.as_bytes(), &[&key(SECURITY)]);
    artifacts.put_approvers(&Digest::of(&[text.as_bytes()]), text.as_bytes(), &envelope).unwrap();
    let query = Query::Run(run_id(1));
    let exported = ask(books, &query, &[], &dir, &Noted::default()).unwrap();
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

pub fn judged(change: impl FnOnce(&mut Scene)) -> Report {
    verify_files(&export(&books_of(change)), &trusting())
}

pub fn holds(report: &Report) {
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
}
