//! Break-glass in a bundle: what was signed, by how many, about what, and everything that has to be noticed (P4).

use crate::forged::Draft;
use wicketgate::approval::Statement as _;
use wicketgate::approval::approvers::Purpose;
use wicketgate::approval::break_glass::{BreakGlassStatement, NAMESPACE, SignedBreakGlass};
use wicketgate::approval::sign::{Key, sign_bytes};
use wicketgate::crypto::dsse;
use wicketgate::crypto::ssh::SshKey;
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::ToolName;
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::bundle::Files;
use wicketgate::evidence::query::Query;
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::{Outcome, Report, verify_files};
use wicketgate::record::Kind;

use crate::approved::{NONCE, holds, set};
use crate::bundle::*;
use crate::forged::{TestLedger, json, key, run_id};

const HUGO: u8 = 50;
const IRIS: u8 = 51;
const MALLORY: u8 = 66;
/// Who signs the list of break-glass signers.
const SECURITY: u8 = 52;

fn list() -> String {
    let line = |subject: &str, n: u8| {
        let key = SshKey::Plain(key(n).public()).line();
        format!("{subject} namespaces=\"{NAMESPACE}\" {key} roles=break_glass\n")
    };
    format!("{}{}{}", line("hugo", HUGO), line("iris", IRIS), line("iris", IRIS + 10))
}

/// One call that runs under break-glass.
struct Glass {
    statement: BreakGlassStatement,
    by: Vec<u8>,
    namespace: &'static str,
    /// What the entry says of the order, if it is not what was signed.
    told: Option<Json>,
    draft: Draft,
}

fn ledger_of(change: impl FnOnce(&mut Glass)) -> TestLedger {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    ledger.list("break-glass signers", (1, &list()), None);
    ledger.open(run_id(1));
    let draft = ledger.decided(run_id(1), "c1", Kind::CallAuthorized, Verdict::Allow);
    let now = ledger.now().millis();
    let at = |seconds: i64| Timestamp::from_millis(now + seconds * 1000);
    let statement = BreakGlassStatement {
        tenant: "default".into(),
        agent: "reviewer".into(),
        tools: vec![ToolName::parse("repo.read_file").unwrap()],
        reason: "nobody answers".into(),
        not_before: at(-60),
        expires: at(1800),
        nonce: NONCE.into(),
    };
    let by = vec![HUGO, IRIS];
    let mut glass = Glass { statement, by, namespace: NAMESPACE, told: None, draft };
    change(&mut glass);
    let Glass { statement, by, namespace, told, mut draft } = glass;
    let bytes = statement.bytes();
    let signed = |n: &u8| sign_bytes(&Key::File(key(*n)), namespace, &bytes).unwrap();
    let signatures = by.iter().map(signed).collect();
    let signed =
        SignedBreakGlass { statement: String::from_utf8(bytes.clone()).unwrap(), signatures };
    let commitment = ledger.commit("approval", &signed.bytes());
    draft.commit.push(commitment);
    let told = told.unwrap_or_else(|| {
        json(&format!(
            r#"{{"by":["hugo","iris"],"nonce":"{NONCE}","until":"{}","signers":"{}"}}"#,
            statement.expires,
            Digest::of(&[list().as_bytes()]).prefixed()
        ))
    });
    set(&mut draft, "break_glass", told);
    ledger.add(draft);
    ledger.complete(run_id(1), "c1");
    ledger.seal(run_id(1));
    ledger
}

fn export(ledger: &TestLedger) -> Files {
    let dir = tempfile::tempdir().unwrap();
    let (text, artifacts) = (list(), artifacts(&dir));
    let kind = Purpose::BreakGlass.payload_type();
    let envelope = dsse::sign(kind, text.as_bytes(), &[&key(SECURITY)]);
    artifacts.put_approvers(&Digest::of(&[text.as_bytes()]), text.as_bytes(), &envelope).unwrap();
    let exported = ask(ledger, &Query::Run(run_id(1)), &[], &dir, &FleetDrafts::default()).unwrap();
    assert!(exported.missing.is_empty());
    Files::read(&exported.dir).unwrap()
}

fn trusting() -> Trust {
    Trust { break_glass_keys: vec![key(SECURITY).public()], ..trust() }
}

fn noticed(said: &str, change: impl FnOnce(&mut Glass)) {
    let report = verify_files(&export(&ledger_of(change)), &trusting());
    let outcome = report.outcome("P4").unwrap();
    assert!(matches!(outcome, Outcome::Invalid(why) if why.contains(said)), "{said}: {outcome:?}");
}

fn unverifiable(report: &Report) {
    assert_eq!(report.exit_code(), 2, "{}", report.to_text());
    assert!(matches!(report.outcome("P4").unwrap(), Outcome::Unverifiable(_)));
}

#[test]
fn a_call_under_break_glass_is_proven_with_the_signatures_of_two_people() {
    let files = export(&ledger_of(|_| {}));
    let report = verify_files(&files, &trusting());
    holds(&report);
    assert!(report.outcome("P4").unwrap().detail().contains("1 call ran under BREAK-GLASS"));
    assert_eq!(files.0.keys().filter(|name| name.starts_with("approvals/")).count(), 5);
    let digest = Digest::of(&[list().as_bytes()]);
    holds(&verify_files(&files, &Trust { break_glass: vec![digest], ..trust() }));
    // Who trusts nobody for it, or only approvers, cannot tell.
    unverifiable(&verify_files(&files, &trust()));
    let approvers = Trust { approver_keys: vec![key(SECURITY).public()], ..trust() };
    unverifiable(&verify_files(&files, &approvers));
}

#[test]
fn a_break_glass_order_that_is_not_enough_peoples_or_not_about_the_call_is_noticed() {
    noticed("break_glass.quorum", |g| g.by.truncate(1));
    noticed("break_glass.quorum", |g| g.by = vec![IRIS, IRIS + 10]);
    noticed("break_glass.again", |g| g.by = vec![HUGO, HUGO]);
    noticed("break_glass.signer", |g| g.by = vec![HUGO, MALLORY]);
    noticed("break_glass.namespace", |g| g.namespace = "wicketgate-approval");
    noticed("for another agent", |g| g.statement.agent = "other".into());
    noticed("not for this tool", |g| {
        g.statement.tools = vec![ToolName::parse("repo.write_file").unwrap()];
    });
    noticed("break_glass.not_yet", |g| {
        g.statement.not_before = g.statement.expires;
        g.statement.expires = Timestamp::from_millis(g.statement.expires.millis() + 1000);
    });
    let digest = Digest::of(&[list().as_bytes()]).prefixed();
    noticed("are not those of the statement", |g| {
        let until = g.statement.expires;
        g.told = Some(json(&format!(
            r#"{{"by":["alice","iris"],"nonce":"{NONCE}","until":"{until}","signers":"{digest}"}}"#
        )));
    });
    noticed("are not those of the statement", |g| {
        let until = g.statement.expires;
        g.told = Some(json(&format!(
            r#"{{"by":["hugo","iris"],"nonce":"{}","until":"{until}","signers":"{digest}"}}"#,
            "f".repeat(32)
        )));
    });
}

#[test]
fn a_call_after_the_end_of_its_break_glass_order_breaks_the_chain_of_its_run() {
    let ledger = ledger_of(|g| {
        let end = g.statement.not_before.millis() + 1000;
        g.statement.expires = Timestamp::from_millis(end);
    });
    let report = verify_files(&export(&ledger), &trusting());
    assert_eq!(report.exit_code(), 1, "{}", report.to_text());
    assert!(matches!(report.outcome("P4").unwrap(), Outcome::Invalid(_)), "{}", report.to_text());
}
