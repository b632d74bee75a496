//! `wicketgate injector serve`, asked as the API server asks it: the Python file beside this one calls it.

use std::path::Path;
use std::time::Duration;

use crate::ca::Ca;
use crate::chart::ask;
use wicketgate_support::program;

/// Certificates of each kind: in use, for renewal, ended, ended within a day; and another authority.
fn certificates() -> Ca {
    let ca = Ca::new();
    ca.server("injector");
    ca.server("second");
    ca.ended_server("ended");
    let soon = std::time::SystemTime::now() + Duration::from_secs(3600);
    let soon = jiff::Timestamp::try_from(soon).unwrap().strftime("%Y%m%d%H%M%SZ").to_string();
    ca.server_until("soon", &soon);
    std::fs::copy(Ca::new().path("ca.pem"), ca.path("other-ca.pem")).unwrap();
    ca
}

fn asked(question: &str) -> String {
    let programs = Path::new(program::gate()).parent().unwrap();
    let ca = certificates();
    ask("injector.py", &[question, programs.to_str().unwrap(), &ca.shown("")])
}

#[test]
fn pods_of_each_workload_get_the_gate_first_and_asking_again_changes_nothing() {
    assert!(asked("workloads").contains("pods have their gate"));
}

#[test]
fn each_pod_that_could_go_around_its_gate_is_refused_with_the_field_and_every_reason_at_once() {
    assert!(asked("refusals").contains("pods are refused"));
}

#[test]
fn a_pod_that_lacks_a_part_of_its_gate_is_refused_after_all_other_webhooks() {
    assert!(asked("validation").contains("pods are found"));
}

#[test]
fn what_is_no_review_of_a_pod_is_never_allowed() {
    assert!(asked("reviews").contains("reviews are refused"));
}

#[test]
fn the_doctor_names_what_is_wrong_with_an_injector_and_creates_no_pod() {
    assert!(asked("doctor").contains("the doctor finds 8 faults"));
}

#[test]
fn the_api_server_that_cannot_ask_the_injector_creates_no_pod() {
    assert!(asked("faults").contains("faults leave no pod without its gate"));
}

#[test]
fn whatever_a_pod_has_it_gets_its_whole_gate_or_is_refused() {
    assert!(asked("generated").contains("no pod is without its gate"));
}

#[test]
fn certificate_and_profiles_are_read_again_and_refused_ones_change_nothing() {
    assert!(asked("files").contains("files are followed"));
}

#[test]
fn a_profile_that_cannot_be_used_is_refused_at_the_start_with_its_file_and_field() {
    assert!(asked("profiles").contains("profiles are refused"));
}
