//! Bundles of a span and of a population, checked by the same commands.

use std::process::Command;

use crate::demo::{calls, demo, noted_head, origin, python, said, sealed, witnesses};
use crate::guide::{Tools, guide, run, script};
use wicketgate::evidence::bundle::Files;
use wicketgate_support::ran::Ran;

/// A copy of the play's directory, so that its ledger can be exported from again.
fn copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let done = Command::new("cp").arg("-r").arg(demo()).arg(dir.path().join("demo")).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{}", said(&done));
    dir
}

#[test]
fn a_span_and_a_population_are_accepted_by_the_guide_and_the_programs_it_names() {
    let folder = copy();
    let top = folder.path().join("demo");
    let whole = format!("{}:0..", origin());
    for (scope, folder) in [
        // Its entries are all there are from the first on: they prove the noted head without `--since`.
        (&["--range", whole.as_str(), "--payloads"][..], "span"),
        (&["--population"][..], "population"),
    ] {
        let export = ["evidence", "export", "--config", "wicketgate.yaml"];
        let files =
            ["--key", "keys/evidence.pem", "--artifacts", "state/artifacts", "--out", folder];
        Ran::gate(&top, [&export[..], &files, scope].concat()).ok();
        let (bundle, trusted) = (top.join(folder), witnesses());
        let text = guide(&Files::read(&bundle).unwrap());
        let head = if folder == "span" { noted_head() } else { String::new() };
        let mut env = vec![("HEAD", head.as_ref()), ("WITNESSES", trusted.as_ref())];
        let (fine, told) = run(&script(&text, Tools::Stock, 1..=8), &bundle, &env);
        assert!(fine && told.contains("all there are from 0 to "), "{told}");
        assert!(told.contains(&sealed()), "{told}");
        assert!(told.contains("1 of 1 witnesses cosigned"), "{told}");
        let Some(python) = python() else { continue };
        env.push(("PYTHON", python.as_os_str()));
        let (fine, told) = run(&script(&text, Tools::Packages, 1..=10), &bundle, &env);
        assert!(fine && told.contains("pymerkle: the root of all"), "{told}");
        assert!(told.contains(": 2 proofs that stand on their own"), "{told}");
        let page = std::fs::read_to_string(bundle.join("report.html")).unwrap();
        assert!(page.contains(&format!("<title>Evidence of a {folder}")), "{}", &page[..400]);
    }
}

#[test]
fn what_was_erased_after_others_last_looked_is_shown_to_be_erased() {
    let folder = copy();
    let top = folder.path().join("demo");
    let told = std::fs::read_to_string(top.join("evidence/agent_run.json")).unwrap();
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let run_id = told["run"].as_str().unwrap();
    let wicketgate = |args: &[&str]| Ran::gate(&top, args).ok();
    let config = ["--config", "wicketgate.yaml", "--run", run_id];
    let erase = ["--role", "result", "--basis", "asked", "--operator-key", "people/otto", "--yes"];
    wicketgate(&[&["payload", "erase"], &config[..], &erase[..]].concat());
    let keys = ["--key", "keys/evidence.pem", "--artifacts", "state/artifacts"];
    // How many entries the gate has when it is noted is not ours to know: on a slow disk it tries again.
    let head = noted_head();
    let noted = head.split(' ').nth(1).unwrap();
    let place = ["--out", "erased", "--since", noted];
    wicketgate(&[&["evidence", "export"], &config[..], &keys[..], &place[..]].concat());
    let args = ["evidence", "verify", "--trust", "auditor/trust.txt", "erased"];
    // Others saw the run, and not yet that something of it was erased: that is for the next round of
    // anchoring, and the report has it.
    let report = Ran::gate(&top, args).ok().text();
    assert!(report.contains("VALID, level L3"), "{report}");
    let (opened, all, erased) = (2 * calls() + 3, 3 * calls() + 2, calls() - 1);
    assert!(report.contains(&format!("{opened} of {all} opened, {erased} erased")), "{report}");
    assert!(report.contains("`anchors/0.txt`"), "{report}");
    let unseen = report.lines().find(|line| line.contains("that a third party has seen entries"));
    assert!(unseen.is_some_and(|line| line.contains("`payload.erased`")), "{report}");
    assert!(
        report.contains(&format!("the content of {erased} payloads: they were erased")),
        "{report}"
    );
    let bundle = top.join("erased");
    let page = std::fs::read_to_string(bundle.join("report.html")).unwrap();
    assert!(page.contains("those who vouch here saw an older head of it"));
    let before = std::fs::read_to_string(top.join("evidence/report.html")).unwrap();
    assert!(!before.contains("those who vouch here saw an older head of it"));
    let text = guide(&Files::read(&bundle).unwrap());
    let stock = script(&text, Tools::Stock, 1..=8);
    let (fine, told) = run(&stock, &bundle, &[("HEAD", head.as_ref())]);
    assert!(fine && told.contains(&sealed()), "{told}");
    let signed = "Good \"wicketgate-order\" signature for otto@example.com";
    assert!(told.contains("erase run") && told.contains(signed), "{told}");
}
