//! Policies and manifests count for a time; entries that stand outside of it prove that somebody did not look.

use wicketgate::crypto::dsse;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::bundle::Files;
use wicketgate::evidence::query::Query;
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::report::Outcome;
use wicketgate::evidence::verify::verify_files;
use wicketgate::policy::bundle::Bundle;

use crate::bundle::*;
use crate::forged::{TestLedger, key, run_id};

const HOUR: i64 = 60 * 60 * 1000;

/// A policy, or a manifest, that holds from one hour on and until another, counted from the first entry.
#[derive(Clone, Copy)]
struct Held(i64, i64);

fn at(millis: i64) -> String {
    let began = TestLedger::new(1, key(ENROLMENT)).now().millis();
    Timestamp::from_millis(began + millis).to_string()
}

fn policy(Held(from, until): Held) -> Vec<u8> {
    let meta = format!(
        r#"{{"name":"t","version":"1.0.0","not_before":"{}","not_after":"{}"}}"#,
        at(from),
        at(until)
    );
    let files = [("bundle.json", meta.as_str()), ("agent/a.rego", "package wicketgate.agent\n")];
    let files = files.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()));
    Bundle::of_files(files.into()).unwrap().tar().to_vec()
}

fn manifest(Held(from, until): Held) -> Vec<u8> {
    let (from, until) = (at(from), at(until));
    format!("spec:\n  validity: {{not_before: \"{from}\", not_after: \"{until}\"}}\n").into_bytes()
}

/// A run that is opened an hour after the chain began; its call is decided after so long a pause.
fn bundle(policy: &[u8], yaml: &[u8], pause: i64) -> Files {
    let mut ledger = TestLedger::after(HOUR, key(ENROLMENT), policy, yaml);
    ledger.open(run_id(1));
    ledger.pause(pause);
    ledger.allow(run_id(1), "c1");
    ledger.complete(run_id(1), "c1");
    ledger.seal(run_id(1));
    let dir = tempfile::tempdir().unwrap();
    let artifacts = artifacts(&dir);
    artifacts.put_policy(&Digest::of(&[policy]), policy).unwrap();
    let kind = "application/vnd.wicketgate.manifest.v1+yaml";
    let signature = dsse::sign(kind, yaml, &[&key(SIGNER)]);
    artifacts.put_manifest(&Digest::of(&[yaml]), yaml, &signature).unwrap();
    let exported =
        ask(&ledger, &Query::Run(run_id(1)), &[], &dir, &FleetDrafts::default()).unwrap();
    Files::read(&exported.dir).unwrap()
}

#[test]
fn no_policy_decided_and_no_run_was_opened_outside_of_its_window() {
    let wide = Held(0, 100 * HOUR);
    for (rules, yaml, pause, wrong) in [
        (wide, wide, 0, None),
        (Held(HOUR / 2, 3 * HOUR), Held(HOUR / 2, 3 * HOUR), HOUR, None),
        (Held(2 * HOUR, 3 * HOUR), wide, 0, Some("P3")),
        (Held(0, HOUR / 2), wide, 0, Some("P3")),
        // It was activated in time, and decided after its end.
        (Held(0, HOUR + HOUR / 2), wide, HOUR, Some("P3")),
        (wide, Held(2 * HOUR, 3 * HOUR), 0, Some("A1")),
        (wide, Held(0, HOUR / 2), 0, Some("A1")),
        // A run that is open goes on when its manifest ends.
        (wide, Held(0, HOUR + HOUR / 2), HOUR, None),
    ] {
        let (tar, yaml) = (policy(rules), manifest(yaml));
        let trust = Trust { policies: vec![Digest::of(&[&tar])], ..trust() };
        let report = verify_files(&bundle(&tar, &yaml, pause), &trust);
        for id in ["P3", "A1"] {
            let found = report.outcome(id).unwrap();
            let as_told = match (found, wrong == Some(id)) {
                (Outcome::Valid(_), false) => true,
                (Outcome::Invalid(why), true) => why.contains("holds from"),
                _ => false,
            };
            assert!(as_told, "{id}, {wrong:?}: {}", report.to_text());
        }
    }
}
