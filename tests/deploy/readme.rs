//! `deploy/README.md`: its commands, run one after the other.

use std::path::Path;

use crate::chart::ask;
use wicketgate_support::program;

#[test]
fn every_command_of_the_readme_that_needs_no_cluster_is_run_and_what_comes_of_it_is_valid() {
    let programs = Path::new(program::gate()).parent().unwrap();
    let said = ask("readme.py", &[programs.to_str().unwrap()]);
    assert!(said.contains("12 blocks were run"), "{said}");
}

#[test]
fn the_acceptance_script_tells_a_cluster_on_which_nothing_holds_and_asks_each_claim() {
    let programs = Path::new(program::gate()).parent().unwrap();
    let said = ask("acceptance.py", &[programs.to_str().unwrap()]);
    assert!(said.contains("claims were asked"), "{said}");
}
