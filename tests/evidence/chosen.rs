//! Somebody who holds the evidence key signs whatever list they like (issue A8): which checks are made, which files
//! belong, and what the files for people say is never theirs to choose.

use wicketgate::crypto::dsse;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::evidence::bundle::*;
use wicketgate::evidence::statement::{PAYLOAD_TYPE, statement};
use wicketgate::evidence::verify::{Outcome, Report, verify, verify_files};
use wicketgate::evidence::{contents, guide, page};

use crate::bundle::*;
use crate::forged::{key, run_id};

/// Versions that an exporter may claim and this verifier cannot make files of.
const OTHERS: [&str; 9] = [
    "0.0.9",
    "0.1.0",
    "0.1.0+bundle.1",
    "0.1.0+bundle.3",
    "0.1.0+bundle.7 ",
    "0.1.0+BUNDLE.3",
    "v0.1.0+bundle.7",
    "99.0.0",
    "",
];

fn good() -> Files {
    export_of(&two_runs(), run_id(1), &[])
}

/// The bundle under another version, its page made again for that version, signed.
fn claiming(mut files: Files, version: &str) -> Files {
    let manifest = Json::parse(files.get(MANIFEST).unwrap(), &Limits::FILE).unwrap();
    let mut predicate = manifest.get("predicate").unwrap().clone();
    let Json::Object(members) = &mut predicate else { panic!("{predicate:?}") };
    let Some(Json::Object(exporter)) = members.get_mut("exporter") else { panic!() };
    exporter.insert("version".to_owned(), version.into());
    let said = wicketgate::evidence::statement::Exporter::said(&predicate);
    files.put(PAGE, page::page(&files, &said));
    signed(files, predicate)
}

fn signed(mut files: Files, predicate: Json) -> Files {
    let manifest = statement(&files, predicate);
    files.put(ENVELOPE, dsse::sign(PAYLOAD_TYPE, &manifest, &[&key(EVIDENCE)]));
    files.put(MANIFEST, manifest);
    files
}

fn judged(files: &Files) -> Report {
    verify_files(files, &trust())
}

#[test]
fn a_version_that_is_not_the_verifiers_is_never_valid() {
    let same = judged(&claiming(good(), contents::VERSION));
    assert_eq!(same.exit_code(), 0, "{}", same.to_text());
    for version in OTHERS {
        let report = judged(&claiming(good(), version));
        assert_eq!(report.exit_code(), 2, "{version}: {}", report.to_text());
        let Some(Outcome::Unverifiable(why)) = report.outcome("V1") else { panic!("{version}") };
        assert!(why.contains("cannot be made again") && why.contains(PAGE), "{why}");
    }
}

#[test]
fn no_file_can_be_replaced_under_any_version_and_be_called_valid() {
    let good = good();
    let names: Vec<&String> =
        good.0.keys().filter(|name| !matches!(name.as_str(), MANIFEST | ENVELOPE)).collect();
    assert!(names.len() > 20, "{names:?}");
    for (at, name) in names.iter().enumerate() {
        let own = good.get(name).unwrap();
        let next = good.get(names[(at + 1) % names.len()]).unwrap();
        let replacements = [
            b"{}".to_vec(),
            Vec::new(),
            [own, b"\n"].concat(),
            [&b" "[..], own].concat(),
            own[..own.len() - 1].to_vec(),
            next.to_vec(),
        ];
        // An envelope's white space is its signer's, and says nothing.
        let spaces = name.as_str() == AGENT_SIG;
        let kept = |(kind, _): &(usize, Vec<u8>)| !(spaces && matches!(kind, 2 | 3));
        for (kind, bytes) in replacements.into_iter().enumerate().filter(kept) {
            let mut files = good.clone();
            // Arguments `{}` replaced by `{}` are what they were.
            if bytes == *own {
                continue;
            }
            files.put(name.as_str(), bytes);
            resign(&mut files, &key(EVIDENCE));
            let report = judged(&files);
            assert_eq!(report.exit_code(), 1, "{name}, {kind}: {}", report.to_text());
            // Under a version whose files for people cannot be made again, too, nothing is valid.
            let other = OTHERS[at % OTHERS.len()];
            let report = judged(&claiming(files, other));
            let people = [PAGE, GUIDE, CONTROLS, SCHEMA].contains(&name.as_str());
            let wanted = if people { 2 } else { 1 };
            assert_eq!(report.exit_code(), wanted, "{name}, {kind}, {other}: {}", report.to_text());
        }
    }
}

#[test]
fn a_file_that_no_entry_requires_is_refused_in_any_folder() {
    let good = good();
    let mut strays: Vec<(String, Vec<u8>)> = Vec::new();
    for (name, bytes) in &good.0 {
        let (folder, file) = name.rsplit_once('/').map_or(("", name.as_str()), |pair| pair);
        let beside = |file: &str| match folder {
            "" => file.to_owned(),
            _ => format!("{folder}/{file}"),
        };
        for other in [
            format!("{name}.bak"),
            format!("{name}-"),
            beside(&format!("x{file}")),
            beside(&file.to_uppercase()),
            format!("copy/{file}"),
            format!("fleet/{file}"),
            format!("anchors/{file}"),
            format!("chains/0/{file}"),
        ] {
            if plain(&other) && good.get(&other).is_none() {
                strays.push((other, bytes.clone()));
            }
        }
    }
    let hex = "0".repeat(64);
    for name in [
        "README.md",
        "verify.md",
        "VERIFY.html",
        "index.html",
        "report.htm",
        "report.html.html",
        "manifest.json.sig",
        "population.json.bak",
        "schema/entry-2.json",
        "schema/entry-1.js",
        "ledger/range.json.txt",
        "ledger/0.tlog-proof",
        "ledger/99.tlog-proof",
        "ledger/00.tlog-proof",
        "ledger/entries.json",
        "ledger/consistency.txt",
        "anchors/0.txt",
        "anchors/00.txt",
        "anchors/0.tsr",
        "anchors/1.consistency.json",
        "approvals/allowed_signers",
        "approvals/allowed_signers.sig.json",
        "approvals/4.json",
        "approvals/4.sig",
        "approvals/4.break-glass.json",
        "payloads/index.html",
        "payloads/x.bin",
        "agent/agent.yml",
        "agent/other.yaml",
        "policy/bundle.tar.gz",
        ".hidden",
        "a.b/c",
        &format!("payloads/{hex}.bin"),
        &format!("policy/{hex}.tar"),
        &format!("agent/{hex}.yaml"),
        &format!("agent/templates/{hex}.txt"),
        &format!("approvals/{hex}.allowed_signers"),
    ] {
        strays.push((name.to_owned(), b"see https://example.com".to_vec()));
    }
    // Twice under two names that are both good ones elsewhere.
    let digest = wicketgate::domain::digest::Digest::of(&[good.get(POLICY).unwrap()]);
    strays.push((format!("policy/{}.tar", digest.hex()), good.0[POLICY].clone()));
    let digest = wicketgate::domain::digest::Digest::of(&[good.get(AGENT).unwrap()]);
    let (yaml, signature) = agent_files(&digest);
    strays.push((yaml, good.0[AGENT].clone()));
    strays.push((signature, good.0[AGENT_SIG].clone()));
    assert!(strays.len() > 200, "{}", strays.len());
    for (name, bytes) in strays {
        for version in [contents::VERSION, "0.0.9"] {
            let mut files = good.clone();
            files.put(name.as_str(), bytes.clone());
            let report = judged(&claiming(files, version));
            assert_eq!(report.exit_code(), 1, "{name}: {}", report.to_text());
        }
    }
}

#[test]
fn an_altered_consistency_proof_is_refused_even_if_its_check_was_not_requested() {
    let mut ledger = two_runs();
    let old = pin(&ledger).size;
    ledger.beat();
    let good = export_of(&ledger, run_id(1), &[old]);
    assert_eq!(judged(&good).exit_code(), 0);
    let text = String::from_utf8(good.0[CONSISTENCY].clone()).unwrap();
    for changed in [
        "{}".to_owned(),
        "see https://example.com".to_owned(),
        text.replace(r#""v":"#, r#""note":"x","v":"#),
        text.replace(r#"{"old""#, r#"{"note":"x","old""#),
        format!("{text} "),
    ] {
        let mut files = good.clone();
        files.put(CONSISTENCY, changed.as_str());
        resign(&mut files, &key(EVIDENCE));
        assert_eq!(judged(&files).exit_code(), 1, "{changed}");
    }
}

#[test]
fn the_list_itself_has_one_form() {
    let change = |from: &str, to: &str| {
        let mut files = good();
        let text = String::from_utf8(files.0[MANIFEST].clone()).unwrap();
        assert!(text.contains(from), "{from}");
        let text = text.replacen(from, to, 1);
        files.put(ENVELOPE, dsse::sign(PAYLOAD_TYPE, text.as_bytes(), &[&key(EVIDENCE)]));
        files.put(MANIFEST, text);
        caught(&judged(&files), "B2");
    };
    change(r#""name":"VERIFY.md""#, r#""name":"VERIFY.md","note":"x""#);
    change(r#"{"sha256":"#, r#"{"note":"x","sha256":"#);
    change(r#""subject":["#, r#""subject": ["#);
    change(r#""predicate":"#, r#""note":"x","predicate":"#);
}

#[test]
fn a_signed_stray_is_refused_in_a_directory_and_in_a_zip_as_well() {
    let dir = tempfile::tempdir().unwrap();
    for (n, name) in ["README.md", "anchors/0.txt", "schema/entry-2.json"].iter().enumerate() {
        let mut files = good();
        files.put(*name, "x");
        let files = claiming(files, contents::VERSION);
        for out in [format!("{n}"), format!("{n}.zip")] {
            let out = dir.path().join(out);
            wicketgate::evidence::written::write(&files, &out).unwrap();
            caught(&verify(&out, &trust()), "B2");
        }
    }
    // A link to a good file of the same name is no file.
    let out = dir.path().join("linked");
    wicketgate::evidence::written::write(&good(), &out).unwrap();
    assert_eq!(verify(&out, &trust()).exit_code(), 0);
    for name in [GUIDE, PAGE, ENTRIES, ENVELOPE] {
        let aside = dir.path().join("aside");
        std::fs::rename(out.join(name), &aside).unwrap();
        std::os::unix::fs::symlink(&aside, out.join(name)).unwrap();
        caught(&verify(&out, &trust()), "B2");
        std::fs::remove_file(out.join(name)).unwrap();
        std::fs::rename(&aside, out.join(name)).unwrap();
    }
}

#[test]
fn a_manifest_signature_file_must_be_its_envelope_even_without_a_trusted_key() {
    let nobody = wicketgate::evidence::trust::Trust { manifest: Vec::new(), ..trust() };
    assert_eq!(verify_files(&good(), &nobody).exit_code(), 0);
    for text in ["{}", "", r#"{"payload":"eA==","payloadType":"x","signatures":[]}"#] {
        let mut files = good();
        files.put(AGENT_SIG, text);
        resign(&mut files, &key(EVIDENCE));
        caught(&verify_files(&files, &nobody), "B2");
    }
}

#[test]
fn the_guide_is_the_verifiers_own() {
    assert_eq!(good().get(GUIDE), Some(guide::GUIDE.as_bytes()));
}
