//! The small program `wicketgate-verify`: what it is built from, what it cannot do, and that it says
//! what the large one says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::disallowed_methods,
    missing_docs,
    reason = "tests may stop at the first surprise, and this one runs a compiler from its environment"
)]

mod built;
mod same;

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;
use wicketgate_support::program;

/// The small program, built as the README says, once per run of these tests.
fn small() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(built::build)
}

fn large() -> PathBuf {
    PathBuf::from(program::gate())
}

/// The output of a command that has to start.
fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"))
}

/// What a command that has to succeed wrote to standard output.
fn text(command: &mut Command) -> String {
    let output = output(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8(output.stdout).unwrap()
}
