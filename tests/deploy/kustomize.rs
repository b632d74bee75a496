//! The kustomize tree, as kubectl renders it: `kustomize.py` beside this file asks.

use crate::chart::ask;

#[test]
fn the_kustomize_tree_is_what_the_script_makes_of_the_chart() {
    assert!(ask("kustomize.py", &["current"]).contains("8 files are the chart's"));
}

#[test]
fn what_kubectl_builds_is_known_to_kubernetes_and_taken_by_kubectl() {
    assert!(ask("kustomize.py", &["valid"]).contains("manifests are valid"));
}

#[test]
fn an_agent_that_gets_the_sidecar_by_kustomize_is_bound_as_the_charts_agent_is() {
    assert!(ask("kustomize.py", &["same"]).contains("2 agents are what the chart makes"));
}

#[test]
fn every_pod_of_the_kustomize_tree_is_restricted_in_full() {
    assert!(ask("kustomize.py", &["restricted"]).contains("7 pods are restricted"));
}

#[test]
fn checkov_finds_nothing_in_what_kustomize_builds() {
    assert!(ask("kustomize.py", &["checkov"]).contains("0 failed"));
}

#[test]
fn the_injector_is_in_a_namespace_that_its_webhooks_leave_out() {
    assert!(ask("kustomize.py", &["injector"]).contains("the injector is in its namespace"));
}
