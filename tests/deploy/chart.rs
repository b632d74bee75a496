//! The chart, its alerts and its dashboard, by programs of others: the Python files beside this one ask them.

use std::process::Command;

use crate::top;
use wicketgate_support::program;

/// Asks one of the Python files beside this: whether it found things to be so, and what it prints.
pub(crate) fn answer(file: &str, words: &[&str]) -> (bool, String) {
    let python = std::env::var("WICKETGATE_TEST_DEPLOY").expect(
        "WICKETGATE_TEST_DEPLOY names a Python with tests/interop/deploy.txt: tests/run makes one",
    );
    let file = top("tests/deploy").join(file);
    let done = Command::new(python).arg("-B").arg(file).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    (done.status.success(), said)
}

/// The same of something that has to be so.
pub(crate) fn ask(file: &str, words: &[&str]) -> String {
    let (so, said) = answer(file, words);
    assert!(so, "{said}");
    said
}

#[test]
fn helm_finds_nothing_wrong_with_the_chart_and_kubernetes_knows_everything_it_renders() {
    assert!(ask("charts.py", &["valid"]).contains("manifests are valid"));
}

#[test]
fn checkov_finds_nothing_in_what_the_chart_renders() {
    assert!(ask("charts.py", &["checkov"]).contains("0 failed"));
}

#[test]
fn every_pod_is_restricted_in_full_and_the_agent_has_nothing_of_the_gates_but_its_socket() {
    assert!(ask("charts.py", &["restricted"]).contains("pods are restricted"));
}

#[test]
fn openshift_admits_every_pod_whose_users_are_of_the_namespaces_range() {
    assert!(ask("charts.py", &["openshift"]).contains("pods are admitted"));
}

#[test]
fn a_changed_file_restarts_no_gate() {
    assert!(ask("charts.py", &["changes"]).contains("change nothing but what they say"));
}

#[test]
fn an_installation_says_where_its_ledger_is_kept_and_is_refused_if_it_does_not() {
    assert!(ask("charts.py", &["ledger"]).contains("no ledger is lost by surprise"));
}

#[test]
fn values_that_give_the_agent_what_is_the_gates_are_refused_by_name() {
    assert!(ask("charts.py", &["refusals"]).contains("each is refused by name"));
}

#[test]
fn each_kind_of_agent_with_each_ledger_and_topology_renders_to_valid_restricted_pods() {
    assert!(ask("charts.py", &["matrix"]).contains("combinations are valid"));
}

#[test]
fn the_network_policy_admits_the_callers_of_the_agent_and_what_it_may_reach() {
    assert!(ask("charts.py", &["network"]).contains("the network is what the values say"));
}

#[test]
fn the_admission_rules_admit_the_charts_pods_and_refuse_each_way_around_the_gate() {
    assert!(ask("backstop.py", &["admitted"]).contains("pods were judged"));
}

#[test]
fn admission_rules_are_rendered_only_where_the_cluster_has_the_kind() {
    assert!(ask("backstop.py", &["cluster"]).contains("only where the cluster has the kind"));
}

#[test]
fn a_signed_archive_from_any_volume_is_mounted_in_the_gate_alone_and_verified_by_a_key_of_the_values()
 {
    assert!(ask("charts.py", &["archived"]).contains("is mounted in the gate alone"));
}

#[test]
fn the_table_of_values_is_made_from_the_schema_and_the_values() {
    assert!(ask("charts.py", &["papers"]).contains("the table is current"));
}

#[test]
fn the_gate_is_a_native_sidecar_that_starts_without_its_database_and_drains_without_a_script() {
    assert!(ask("charts.py", &["sidecar"]).contains("native sidecars"));
}

/// What a gate in a pod of its own is told beside what the chart tells it.
const CONFIG: &str = r#"
trust: {manifest_keys: [m.pem.pub], policy_keys: [p.pem.pub]}
agents: [{manifest: agent.yaml, callers: [{spiffe: "spiffe://example.org/ns/agents/sa/reviewer"}]}]
isolation: enforced
"#;

/// What the chart tells the doctor and the gate is taken by the program, with the files elsewhere.
#[test]
fn an_agent_in_a_pod_of_its_own_reaches_its_gate_and_nothing_else() {
    let said: serde_json::Value =
        serde_json::from_str(&ask("charts.py", &["separate"])).expect("charts.py prints JSON");
    let ca = crate::ca::Ca::new();
    ca.server("gate");
    let home = tempfile::tempdir().unwrap();
    let files = [("gate.pem", "tls.crt"), ("gate.key", "tls.key"), ("ca.pem", "ca.crt")];
    for (from, to) in files.into_iter().chain([("ca.pem", "client-ca.crt")]) {
        std::fs::copy(ca.path(from), home.path().join(to)).unwrap();
    }
    let here = home.path().display().to_string();
    let place = |value: &serde_json::Value| {
        value.as_str().unwrap().replace("/run/secrets/wicketgate", &here)
    };
    let program = |args: &[&str]| program::command(&home, args);
    for words in [
        &["keygen", "--out", "m.pem"][..],
        &["keygen", "--out", "p.pem"],
        &["manifest", "init", "agent.yaml", "--name", "reviewer"],
        &["manifest", "sign", "agent.yaml", "--key", "m.pem"],
    ] {
        assert!(program(words).output().unwrap().status.success(), "{words:?}");
    }
    std::fs::write(home.path().join("wicketgate.yaml"), CONFIG).unwrap();
    let env = said["env"].as_object().unwrap();
    let mut check = program(&["config", "check", "wicketgate.yaml"]);
    check.envs(env.iter().map(|(name, value)| (name, place(value))));
    let checked = check.env("WICKETGATE__STATE", home.path().join("state")).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    // Nobody answers at that name here: the doctor says so, and finds nothing wrong with its orders.
    let doctor = said["doctor"].as_array().unwrap().iter().map(place);
    let doctor: Vec<String> = doctor.take_while(|word| word != "--every").collect();
    let doctor: Vec<&str> = doctor.iter().map(String::as_str).collect();
    let asked = program(&doctor).output().unwrap();
    let why = String::from_utf8_lossy(&asked.stderr);
    assert!(!asked.status.success() && !why.contains("Usage"), "{why}");
    assert!(why.contains("demo-wicketgate-gate.agents.svc"), "{why}");
}

#[test]
fn only_gates_that_enrol_and_the_hub_mount_a_service_account_token() {
    assert!(ask("charts.py", &["tokens"]).contains("each token has its place"));
}

#[test]
fn the_network_policy_lets_gates_of_any_release_and_no_other_pod_reach_the_hub() {
    assert!(ask("charts.py", &["enrolment"]).contains("gates reach their hub"));
}

#[test]
fn values_that_the_schema_does_not_allow_render_nothing_and_all_others_something_valid() {
    assert!(ask("charts.py", &["fuzz"]).contains("refused"));
}

#[test]
fn every_alert_fires_on_what_it_is_for_and_is_silent_on_what_is_well() {
    assert!(ask("monitoring.py", &["rules"]).contains("alerts fire and are silent"));
}

#[test]
fn prometheus_can_read_every_expression_of_the_dashboard_and_no_panel_lies_over_another() {
    assert!(ask("monitoring.py", &["dashboard"]).contains("expressions can be read"));
}

#[test]
fn the_injector_is_installed_narrowly_and_never_in_the_way_of_the_cluster() {
    assert!(ask("injection.py", &["objects"]).contains("objects are narrow"));
}

#[test]
fn values_of_the_injector_that_would_give_no_safe_gate_are_refused_by_name() {
    assert!(ask("injection.py", &["refusals"]).contains("each is refused by name"));
}

#[test]
fn the_chart_kustomize_and_the_injectors_profile_make_one_pod() {
    assert!(ask("injection.py", &["same"]).contains("5 pods are one shape"));
}

/// It takes twenty seconds: one of the two engines is slow, and each of forty pods is asked about several times.
#[test]
fn a_mutating_policy_gives_a_pod_what_the_profile_says_and_the_backstop_refuses_what_it_cannot_make_safe()
 {
    assert!(ask("injection.py", &["policy"]).contains("pods got their gate"));
}

#[test]
fn the_two_engines_differ_where_they_are_known_to() {
    assert!(ask("engines.py", &["differ"]).contains("answered as written here"));
}

#[test]
fn certificates_of_the_injector_are_renewed_over_a_year_and_verify_against_every_bundle() {
    let programs = std::path::Path::new(program::gate()).parent().unwrap();
    let said = ask("certs.py", &[programs.to_str().unwrap()]);
    assert!(said.contains("every certificate verified against every bundle"), "{said}");
}

#[test]
fn the_injector_gives_a_pod_what_the_charts_profile_says_and_refuses_what_the_backstop_refuses() {
    let programs = std::path::Path::new(program::gate()).parent().unwrap();
    let said = ask("injection.py", &["served", programs.to_str().unwrap()]);
    assert!(said.contains("are what the merge says"), "{said}");
}
