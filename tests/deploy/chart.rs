//! The chart, by programs of others: `charts.py` beside this file asks them.

use std::process::Command;

use crate::top;

/// Runs one question of `charts.py`; its answer is what it prints and how it ends.
fn ask(question: &str) -> String {
    let python = std::env::var("WICKETGATE_TEST_DEPLOY").expect(
        "WICKETGATE_TEST_DEPLOY names a Python with tests/interop/deploy.txt: tests/run makes one",
    );
    let done = Command::new(python)
        .arg("-B")
        .arg(top("tests/deploy/charts.py"))
        .args([question, top("deploy/helm/wicketgate").to_str().unwrap()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{said}");
    said
}

#[test]
fn helm_finds_nothing_wrong_with_the_chart_and_kubernetes_knows_everything_it_renders() {
    assert!(ask("valid").contains("manifests are valid"));
}

#[test]
fn checkov_finds_nothing_in_what_the_chart_renders() {
    assert!(ask("checkov").contains("0 failed"));
}

#[test]
fn every_pod_is_restricted_in_full_and_the_agent_has_nothing_of_the_gates_but_its_socket() {
    assert!(ask("restricted").contains("pods are restricted"));
}

#[test]
fn the_gate_is_a_native_sidecar_that_starts_without_its_database_and_drains_without_a_script() {
    assert!(ask("sidecar").contains("native sidecars"));
}

#[test]
fn a_gate_has_a_token_for_the_hub_and_a_hub_one_to_ask_about_it_and_nobody_else_has_any() {
    assert!(ask("tokens").contains("each token has its place"));
}

#[test]
fn values_that_the_schema_does_not_allow_render_nothing_and_all_others_something_valid() {
    assert!(ask("fuzz").contains("refused"));
}
