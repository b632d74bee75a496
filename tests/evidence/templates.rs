//! The templates of instructions that a manifest names are in the bundle, and each is the one that is named.

use wicketgate::crypto::dsse;
use wicketgate::domain::digest::Digest;
use wicketgate::evidence::bundle::{Files, template_file};
use wicketgate::evidence::export::ExportedBundle;
use wicketgate::evidence::query::Query;
use wicketgate::evidence::verify::{Outcome, Report, verify_files};

use crate::bundle::*;
use crate::forged::{TAR, TestLedger, key, run_id};

const TEMPLATE: &[u8] = b"You work in {{path}}.";

fn digest() -> Digest {
    Digest::of(&[TEMPLATE])
}

/// A manifest that names the template, and a text by its digest.
fn manifest() -> Vec<u8> {
    let (template, text) = (digest().hex(), Digest::of(&[b"a text"]).hex());
    format!(
        "spec:\n  instructions:\n  - {{sha256: \"{template}\", scope: template}}\n  \
         - {{sha256: \"{text}\", scope: block}}\n  \
         validity: {{not_before: \"2000-01-01T00:00:00Z\", not_after: \"2999-01-01T00:00:00Z\"}}\n"
    )
    .into_bytes()
}

/// The bundle of a run under this manifest, from artifacts that have the template or not.
fn exported(has_template: bool) -> (ExportedBundle, Files) {
    let yaml = manifest();
    let mut ledger = TestLedger::after(0, key(ENROLMENT), TAR, &yaml);
    ledger.whole_run(run_id(1));
    let dir = tempfile::tempdir().unwrap();
    let artifacts = artifacts(&dir);
    let kind = "application/vnd.wicketgate.manifest.v1+yaml";
    let signature = dsse::sign(kind, &yaml, &[&key(SIGNER)]);
    artifacts.put_manifest(&Digest::of(&[&yaml]), &yaml, &signature).unwrap();
    if has_template {
        artifacts.put_template(&digest(), TEMPLATE).unwrap();
    }
    let query = Query::Run(run_id(1));
    let exported = ask(&ledger, &query, &[], &dir, &FleetDrafts::default()).unwrap();
    let files = Files::read(&exported.dir).unwrap();
    (exported, files)
}

fn judged_files(files: &Files) -> Report {
    verify_files(files, &trust())
}

/// The manifest and the names of the files are as they have to be.
fn holds(report: &Report) {
    for id in ["A1", "B2"] {
        let is_valid = matches!(report.outcome(id), Some(Outcome::Valid(_)));
        assert!(is_valid, "{id}: {}", report.to_text());
    }
}

/// A check fails, and says this.
fn fails(report: &Report, id: &str, says: &str) {
    let told = matches!(report.outcome(id), Some(Outcome::Invalid(why)) if why.contains(says));
    assert!(told, "{id}, `{says}`: {}", report.to_text());
}

fn is_not_proven(report: &Report) -> bool {
    let named = format!("which instructions fit the template {}", digest().prefixed());
    report.not_proven.iter().any(|line| line.starts_with(&named))
}

#[test]
fn a_bundle_has_the_templates_that_its_manifest_names() {
    let (exported, files) = exported(true);
    assert_eq!(exported.missing, []);
    assert_eq!(files.get(&template_file(&digest())), Some(TEMPLATE));
    let report = judged_files(&files);
    holds(&report);
    assert!(!is_not_proven(&report), "{}", report.to_text());
}

#[test]
fn a_template_that_was_not_kept_is_named_and_makes_no_bundle_invalid() {
    let (exported, files) = exported(false);
    assert_eq!(exported.missing, [digest()]);
    let report = judged_files(&files);
    holds(&report);
    assert!(is_not_proven(&report), "{}", report.to_text());
}

#[test]
fn a_template_of_other_bytes_is_refused_whoever_signs_the_list_again() {
    let (_, mut files) = exported(true);
    files.put(template_file(&digest()), b"You work anywhere.".to_vec());
    resign(&mut files, &key(EVIDENCE));
    fails(&judged_files(&files), "A1", "has other bytes");
    // A template that no manifest names does not belong to the bundle.
    let (_, mut files) = exported(true);
    let other = Digest::of(&[b"other {{word}}"]);
    files.put(template_file(&other), b"other {{word}}".to_vec());
    resign(&mut files, &key(EVIDENCE));
    fails(&judged_files(&files), "B2", &template_file(&other));
}
