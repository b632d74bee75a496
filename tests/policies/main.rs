//! Policies as authors write them: the shipped examples, what a bundle may not hold, and what goes
//! wrong while one is evaluated.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "tests may stop at the first surprise"
)]

mod archive;
mod conformance;
mod cookbook;
mod corpus;
mod examples;
mod explain;
mod faults;
mod lints;
mod mutants;
mod observe;
mod quorum;
mod refusals;
mod signing;
mod stock;
mod suggested;
mod suite;
mod traps;
mod variables;

use std::path::Path;
use std::time::Duration;

use wicketgate::policy::bundle::Bundle;
use wicketgate::policy::fault::LoadError;
use wicketgate::policy::rego::RegoEngine;
use wicketgate::policy::{Answer, EngineError, PolicyEngine as _};
use wicketgate_support::ran::Ran;

/// Generous: these tests share two cores with others.
const DEADLINE: Duration = Duration::from_secs(5);
const META: &str = r#"{"name":"t","version":"1.0.0"}"#;

/// Writes a bundle of these files; `bundle.json` is added where there is none.
fn dir(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bundle.json"), META).unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    dir
}

fn load(files: &[(&str, &str)]) -> Result<Bundle, Vec<LoadError>> {
    Bundle::load(dir(files).path())
}

/// A bundle of one agent file.
fn agent(rules: &str) -> Result<Bundle, Vec<LoadError>> {
    load(&[("agent/main.rego", &format!("package wicketgate.agent\nimport rego.v1\n{rules}\n"))])
}

fn decide(bundle: &Bundle, input: &str) -> Result<Answer, EngineError> {
    RegoEngine::new(bundle, DEADLINE).unwrap().decide(input.as_bytes())
}

/// The codes of everything wrong.
fn codes(loaded: Result<Bundle, Vec<LoadError>>) -> Vec<&'static str> {
    loaded.map_or_else(|errors| errors.iter().map(|e| e.code).collect(), |_| Vec::new())
}

/// `wicketgate policy …`: exit code, standard output and standard error.
fn policy(args: &[&str]) -> (i32, String, String) {
    let ran = Ran::gate(".", [&["policy"], args].concat());
    (ran.code, ran.out, ran.err)
}

/// The one JSON object a command prints.
fn told(out: &str) -> serde_json::Value {
    serde_json::from_str(out).unwrap_or_else(|e| panic!("{e}: {out}"))
}

fn shipped() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("policies/examples")
}
