//! Bundles of a span and of a population, checked by the same commands.

use std::process::Command;

use crate::guide::{Tools, guide, run, script};
use crate::stage::{demo, noted_head, python, said, witnesses};
use wicketgate::evidence::bundle::Files;

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
    let desk = copy();
    let top = desk.path().join("demo");
    for (scope, folder) in [
        (
            &["--range", "wicketgate.dev/default/local/0/0:0..", "--payloads", "--since", "4"][..],
            "span",
        ),
        (&["--population"][..], "population"),
    ] {
        let done = Command::new(env!("CARGO_BIN_EXE_wicketgate"))
            .args(["evidence", "export", "--config", "wicketgate.yaml"])
            .args(["--key", "keys/evidence.pem", "--artifacts", "state/artifacts", "--out", folder])
            .args(scope)
            .current_dir(&top)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", said(&done));
        let (bundle, trusted) = (top.join(folder), witnesses());
        let text = guide(&Files::read(&bundle).unwrap());
        let head = if folder == "span" { noted_head() } else { String::new() };
        let mut env = vec![("HEAD", head.as_ref()), ("WITNESSES", trusted.as_ref())];
        let (fine, told) = run(&script(&text, Tools::Stock, 1..=8), &bundle, &env);
        assert!(fine && told.contains("all there are from 0 to "), "{told}");
        assert!(told.contains("is sealed, 11 entries, 5 calls"), "{told}");
        assert!(told.contains("1 of 1 witnesses cosigned"), "{told}");
        let Some(python) = python() else { continue };
        env.push(("PYTHON", python.as_os_str()));
        let (fine, told) = run(&script(&text, Tools::Packages, 1..=10), &bundle, &env);
        assert!(fine && told.contains("pymerkle: the root of all"), "{told}");
        let page = std::fs::read_to_string(bundle.join("report.html")).unwrap();
        assert!(page.contains(&format!("<title>Evidence of a {folder}")), "{}", &page[..400]);
    }
}
