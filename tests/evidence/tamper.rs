//! Mutations of a bundle's files (ledger.md §4: B, E, M, C, X, P), by outsiders and by insiders who
//! hold the evidence key but not the log's.

use proptest::prelude::*;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::evidence::bundle::*;
use wicketgate::evidence::trust::Trust;
use wicketgate::evidence::verify::{Outcome, verify, verify_files};

use crate::bundle::*;
use crate::forged::{TestLedger, key, run_id};

#[test]
fn an_honest_bundle_of_a_sealed_run_holds_in_every_check() {
    let report = verify_files(&export_of(&two_runs(), run_id(1), &[]), &trust());
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    assert_eq!(report.level(), Some(1));
    assert!(!report.not_proven.is_empty());
    let pinned = Trust { heads: vec![pin(&two_runs())], ..trust() };
    let report = verify_files(&export_of(&two_runs(), run_id(1), &[]), &pinned);
    assert_eq!((report.exit_code(), report.level()), (0, Some(2)), "{}", report.to_text());
}

#[test]
fn a_run_that_is_open_is_never_called_complete() {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    ledger.open(run_id(1));
    ledger.allow(run_id(1), "c1");
    let report = verify_files(&export_of(&ledger, run_id(1), &[]), &trust());
    assert_eq!(report.exit_code(), 2, "{}", report.to_text());
    assert!(matches!(report.outcome("S4"), Some(Outcome::Unverifiable(_))));
}

#[test]
fn without_trust_roots_nothing_is_valid() {
    let report = verify_files(&export_of(&two_runs(), run_id(1), &[]), &Trust::default());
    assert_eq!((report.exit_code(), report.level()), (2, None));
}

#[test]
fn a_file_that_was_changed_added_removed_or_renamed_is_named() {
    let good = export_of(&two_runs(), run_id(1), &[]);
    let check = |change: &dyn Fn(&mut Files), by: &str| {
        let mut files = good.clone();
        change(&mut files);
        caught(&verify_files(&files, &trust()), by);
    };
    check(&|f| replace(f, AGENT_RUN, "completed", "complet3d"), "B3"); // B-01
    check(&|f| f.put("extra.txt", "x"), "B2"); // B-05
    check(&|f| drop(f.0.remove(DECISION)), "B2"); // B-06
    check(&|f| replace(f, MANIFEST, "sealed", "seal3d"), "B1"); // B-09
    check(&|f| resign(f, &key(99)), "B1"); // B-10
    check(&|f| replace(f, ENVELOPE, "vnd.in-toto+json", "vnd.in-t0t0+json"), "B1"); // B-08
}

#[test]
fn a_malleated_evidence_signature_is_refused() {
    // B-11: s + l verifies under lax rules.
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    let mut files = export_of(&two_runs(), run_id(1), &[]);
    let mut json: serde_json::Value = serde_json::from_slice(files.get(ENVELOPE).unwrap()).unwrap();
    let mut sig = STANDARD.decode(json["signatures"][0]["sig"].as_str().unwrap()).unwrap();
    let order =
        hex::decode("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010").unwrap();
    let mut carry = 0_u16;
    for (byte, add) in sig[32..].iter_mut().zip(order) {
        let sum = u16::from(*byte) + u16::from(add) + carry;
        *byte = (sum & 0xff) as u8;
        carry = sum >> 8;
    }
    json["signatures"][0]["sig"] = STANDARD.encode(sig).into();
    files.put(ENVELOPE, json.to_string());
    caught(&verify_files(&files, &trust()), "B1");
}

#[test]
fn the_guide_in_the_bundle_works_with_stock_tools_and_fails_on_a_forged_entry() {
    let dir = tempfile::tempdir().unwrap();
    let exported = try_export(&two_runs(), run_id(1), &[], &dir).unwrap();
    let guide = std::fs::read_to_string(exported.dir.join(GUIDE)).unwrap();
    // What follows names programs that are not everywhere.
    let steps = guide.split_once("## 1.").unwrap().1.split_once("## 9.").unwrap().0;
    let script: String =
        steps.lines().filter_map(|l| l.strip_prefix("    ")).map(|l| format!("{l}\n")).collect();
    let pem = dir.path().join("evidence.pub.pem");
    std::fs::write(&pem, key(EVIDENCE).public().to_pem()).unwrap();
    let run = || {
        let out = std::process::Command::new("bash")
            .args(["-euc", &script])
            .current_dir(&exported.dir)
            .env("EVIDENCE_KEY", &pem)
            .env("TMPDIR", dir.path())
            .output()
            .unwrap();
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
        (out.status.success(), said)
    };
    let (fine, said) = run();
    assert!(fine && said.contains("is sealed, 7 entries"), "{said}");
    let entries = exported.dir.join(ENTRIES);
    let text = std::fs::read_to_string(&entries).unwrap();
    std::fs::write(&entries, text.replace(r#""us":1200"#, r#""us":1201"#)).unwrap();
    assert!(!run().0);
}

#[test]
fn names_that_leave_the_bundle_are_refused() {
    // B-07
    caught(&insider(|f| f.put("../outside", "x")), "B2");
    caught(&insider(|f| f.put("/etc/passwd", "x")), "B2");
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("copy");
    wicketgate::evidence::written::write(&export_of(&two_runs(), run_id(1), &[]), &out).unwrap();
    assert_eq!(verify(&out, &trust()).exit_code(), 0);
    std::os::unix::fs::symlink("/etc/hostname", out.join("link")).unwrap();
    caught(&verify(&out, &trust()), "B2");
}

#[test]
fn an_export_goes_nowhere_that_is_occupied() {
    let dir = tempfile::tempdir().unwrap();
    let first = try_export(&two_runs(), run_id(1), &[], &dir).unwrap();
    assert!(first.sealed == 1 && first.files > 12);
    assert_eq!(first.missing, vec![]);
    let again = try_export(&two_runs(), run_id(1), &[], &dir).unwrap_err();
    assert!(again.to_string().contains("not empty"), "{again}");
    let empty = tempfile::tempdir().unwrap();
    let nobody = try_export(&two_runs(), run_id(9), &[], &empty).unwrap_err();
    assert!(nobody.to_string().contains("no run"), "{nobody}");
}

#[test]
fn files_for_people_that_do_not_follow_from_the_entries_are_refused_even_if_signed() {
    caught(&insider(|f| replace(f, AGENT_RUN, "reviewer", "somebody")), "V1"); // B-02
    caught(&insider(|f| replace(f, DECISION, r#""verdict":"deny""#, r#""verdict":"allow""#)), "V1"); // B-03
    caught(&insider(|f| replace(f, TOOL_TRACE, r#""call":"c2""#, r#""call":"c9""#)), "V1"); // B-04
    caught(&insider(|f| replace(f, PAGE, "sealed", "s3aled")), "V1");
    caught(&insider(|f| replace(f, MANIFEST, r#""calls":3"#, r#""calls":2"#)), "B4");
}

#[test]
fn the_page_escapes_what_came_from_outside_and_runs_nothing() {
    let files = export_of(&two_runs(), run_id(1), &[]);
    let page = String::from_utf8(files.get(PAGE).unwrap().to_vec()).unwrap();
    assert!(page.contains("no &lt;b&gt;writes&lt;/b&gt;") && !page.contains("<script"));
    assert!(page.contains("default-src 'none'") && page.contains("Not proven"));
}

#[test]
fn payloads_that_are_not_the_committed_ones_are_refused() {
    let first = |f: &Files| {
        f.0.keys().find(|n| n.starts_with("payloads/") && n.ends_with(".bin")).unwrap().clone()
    };
    caught(&insider(|f| f.put(first(f), r#"{"path":"src/cX.rs"}"#)), "P1"); // P-01
    caught(
        &insider(|f| {
            // P-02
            let names: Vec<_> = f.0.keys().filter(|n| n.ends_with(".bin")).cloned().collect();
            let (a, b) = (f.0[&names[0]].clone(), f.0[&names[1]].clone());
            f.put(names[0].clone(), b);
            f.put(names[1].clone(), a);
        }),
        "P1",
    );
    caught(&insider(|f| replace(f, PAYLOADS, r#""salt":""#, r#""salt":"0"#)), "P1"); // P-03
    caught(
        &insider(|f| {
            let text = String::from_utf8(f.get(PAYLOADS).unwrap().to_vec()).unwrap();
            let at = text.find(r#""salt":""#).unwrap() + 8;
            let other = if &text[at..=at] == "0" { "1" } else { "0" };
            f.put(PAYLOADS, format!("{}{other}{}", &text[..at], &text[at + 1..]));
        }),
        "P1",
    );
    caught(&insider(|f| f.put(POLICY, "other policies")), "P3"); // P-04
    caught(&insider(|f| f.put(AGENT, "kind: other")), "A1");
    caught(&insider(|f| f.put(format!("payloads/{}.bin", "0".repeat(64)), "x")), "P1"); // B-12
    caught(
        &insider(|f| {
            let name = first(f);
            let c = name.trim_start_matches("payloads/").trim_end_matches(".bin").to_owned();
            let mut json: serde_json::Value =
                serde_json::from_slice(f.get(PAYLOADS).unwrap()).unwrap();
            json[c] = serde_json::json!({"erased": true});
            f.put(PAYLOADS, json.to_string());
            f.0.remove(&name);
        }),
        "P1",
    );
}

#[test]
fn an_entry_that_was_edited_is_not_in_the_tree() {
    let edit = |from: &'static str, to: &'static str| insider(|f| replace(f, ENTRIES, from, to));
    caught(&edit(r#""verdict":"deny""#, r#""verdict":"allow""#), "S5"); // E-01
    caught(&edit(r#""verdict":"deny""#, r#""verdict":"allow""#), "E2");
    caught(&edit(r#".028Z"#, ".029Z"), "E2"); // E-02
    caught(&edit(r#""tool":"repo.read_file""#, r#""tool":"repo.drop_file""#), "E2"); // E-03
    caught(&edit(r#""tool":"repo.read_file""#, r#""tool":"repo.drop_file""#), "P2");
}

type Lines = Vec<Vec<u8>>;

#[test]
fn deleted_swapped_and_doubled_entries_are_noticed() {
    let change = |by: &str, change: fn(&mut Lines)| {
        let report = insider(|f| {
            let mut all = lines(f);
            change(&mut all);
            set_lines(f, &all);
        });
        caught(&report, by);
    };
    change("S3", |l| drop(l.remove(6))); // E-04
    change("E2", |l| drop(l.pop())); // E-05
    change("S3", |l| drop(l.remove(4))); // E-06
    change("S2", |l| l.swap(5, 6)); // E-07: proofs are by seq, so kept and moved are the same
    change("S2", |l| l.insert(6, l[5].clone())); // E-09
    // E-08: swapped, with the seqs that their places ask for.
    let report = insider(|f| {
        let mut all = lines(f);
        all.swap(5, 6);
        set_lines(f, &all);
        proofs(f, |p| {
            let (a, b) = (p[5]["path"].clone(), p[6]["path"].clone());
            p[5]["path"] = b;
            p[6]["path"] = a;
        });
    });
    caught(&report, "E2");
}

#[test]
fn a_deleted_seal_leaves_a_bundle_that_says_open_or_is_refused() {
    // E-05 by somebody who drops the proof as well: the statement still says sealed.
    let report = insider(|f| {
        let mut all = lines(f);
        all.pop();
        set_lines(f, &all);
        proofs(f, |p| drop(p.pop()));
    });
    caught(&report, "B4");
    assert!(matches!(report.outcome("S4"), Some(Outcome::Unverifiable(_))));
}

#[test]
fn another_spelling_of_the_same_entry_is_refused() {
    let edit = |from: &'static str, to: &'static str| insider(|f| replace(f, ENTRIES, from, to));
    caught(&edit(r#""attempts":1"#, r#""attempts":1,"attempts":1"#), "E1"); // E-10
    caught(&edit(r#""attempts":1"#, r#""attempts": 1"#), "E1"); // E-11
    caught(&edit(r#""attempts":1"#, r#""attempts":1.0"#), "E1"); // E-12
    caught(&edit(r#""mono":"1000""#, r#""mono":"01000""#), "E1");
    caught(&edit(r#""attempts":1"#, r#""attempts":1,"extra":1"#), "E1");
    // E-14: an inner node offered as a leaf is no entry.
    let report = insider(|f| {
        let mut all = lines(f);
        all[3] = [&[1_u8; 1][..], &[7; 64]].concat();
        set_lines(f, &all);
    });
    caught(&report, "E1");
}

#[test]
fn an_entry_of_another_run_does_not_fit_even_with_its_own_proof() {
    // E-13
    let other = export_of(&two_runs(), run_id(2), &[]);
    let report = insider(|f| {
        let mut all = lines(f);
        let at = lines(&other).len() - 1;
        all.push(lines(&other)[at].clone());
        set_lines(f, &all);
        let mut proof = None;
        proofs(&mut other.clone(), |p| proof = p.pop());
        proofs(f, |p| p.push(proof.unwrap()));
    });
    caught(&report, "S3");
    // X-01: everything of another run under this run's name.
    let report = insider(|f| {
        for name in [ENTRIES, INCLUSION] {
            f.put(name, other.get(name).unwrap());
        }
    });
    caught(&report, "V1");
    let asked = Trust { run: Some(run_id(1)), ..trust() };
    caught(&verify_files(&other, &asked), "S3");
}

#[test]
fn damaged_paths_and_checkpoints_are_refused() {
    caught(&insider(|f| proofs(f, |p| drop(p[5]["path"].as_array_mut().unwrap().pop()))), "E2"); // M-01
    caught(
        &insider(|f| {
            // M-02
            proofs(f, |p| p[5]["path"].as_array_mut().unwrap().push("0".repeat(64).into()));
        }),
        "E2",
    );
    let size = two_runs().rows.len().to_string();
    caught(
        &insider(|f| replace(f, CHECKPOINT, &format!("\n{size}\n"), &format!("\n0{size}\n"))),
        "H1",
    ); // C-09
    caught(&insider(|f| replace(f, CHECKPOINT, "\n\n", "\nextension\n\n")), "H1"); // C-08
    caught(&insider(|f| replace(f, CHECKPOINT, "/0/0\n", "/0/1\n")), "H1");
    // C-01: the log's key exchanged for one nobody certified.
    let all = two_runs();
    caught(&insider(|f| f.put(CHECKPOINT, all.checkpoint(all.rows.len(), &key(77)))), "H1");
}

#[test]
fn a_pinned_head_catches_an_older_checkpoint_and_consistency_is_proven_on_demand() {
    let mut grown = two_runs();
    let old = pin(&grown);
    // C-02
    let earlier = export_of(&grown, run_id(1), &[]);
    grown.beat();
    let pinned = Trust { heads: vec![pin(&grown)], ..trust() };
    caught(&verify_files(&earlier, &pinned), "H2");
    // An honest log that has grown since.
    let pinned = Trust { heads: vec![old.clone()], ..trust() };
    let report = verify_files(&export_of(&grown, run_id(1), &[]), &pinned);
    assert!(matches!(report.outcome("H2"), Some(Outcome::Unverifiable(_))));
    assert_eq!(report.exit_code(), 2);
    let mut files = export_of(&grown, run_id(1), &[old.size]);
    assert_eq!(verify_files(&files, &pinned).level(), Some(2));
    // M-03
    let mut json: serde_json::Value =
        serde_json::from_slice(files.get(CONSISTENCY).unwrap()).unwrap();
    json["proofs"][0]["path"].as_array_mut().unwrap().pop();
    files.put(CONSISTENCY, json.to_string());
    resign(&mut files, &key(EVIDENCE));
    caught(&verify_files(&files, &pinned), "H2");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_byte_of_any_file_can_be_changed(which in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let good = bundle();
        let names: Vec<&String> = good.0.keys().collect();
        let name = names[which.index(names.len())].clone();
        let mut bytes = good.0[&name].clone();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        let mut files = good.clone();
        files.put(name.clone(), bytes);
        let report = verify_files(&files, &trust());
        prop_assert_eq!(report.exit_code(), 1, "{} at {}", name, at);
    }
}

/// One good bundle for many small changes.
fn bundle() -> &'static Files {
    static GOOD: std::sync::OnceLock<Files> = std::sync::OnceLock::new();
    GOOD.get_or_init(|| export_of(&two_runs(), run_id(1), &[]))
}

#[test]
fn no_bit_of_the_small_signed_files_can_be_changed() {
    for name in [CHECKPOINT, ENVELOPE] {
        let bytes = bundle().get(name).unwrap().to_vec();
        let step = (bytes.len() / 40).max(1);
        for at in (0..bytes.len()).step_by(step) {
            let mut changed = bytes.clone();
            changed[at] ^= 0x01;
            let mut files = bundle().clone();
            files.put(name, changed);
            let report = verify_files(&files, &trust());
            assert_eq!(report.exit_code(), 1, "{name} at {at}: {}", report.to_text());
        }
    }
}

#[test]
fn the_transcript_shows_requests_and_results_and_says_when_they_are_withheld() {
    let mut ledger = two_runs();
    ledger.payloads.retain(|_, payload| payload.role != "result");
    let files = export_of(&ledger, run_id(1), &[]);
    let run = Json::parse(files.get(AGENT_RUN).unwrap(), &Limits::FILE).unwrap();
    let step = &run.get("steps").and_then(Json::as_array).unwrap()[0];
    let text = |part: &str, name: &str| {
        step.get(part).and_then(|p| p.get(name)).cloned().unwrap_or(Json::Null)
    };
    assert_eq!(text("request", "state"), Json::from("opened"));
    assert_eq!(text("request", "json").get("path"), Some(&Json::from("src/c1.rs")));
    assert_eq!(text("result", "state"), Json::from("withheld"));
    let report = verify_files(&files, &trust());
    assert_eq!(report.exit_code(), 0, "{}", report.to_text());
    assert!(report.not_proven.iter().any(|item| item.contains("1 payload:")));
}
