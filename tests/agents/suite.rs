//! The official conformance suite, run against one URL.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::home::{home, node, scripts};
use crate::process::{self, Process};

/// The versions of the protocol that the suite is run in.
pub const VERSIONS: [&str; 3] = ["2025-06-18", "2025-11-25", "2026-07-28"];

/// What one scenario came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Checks that succeeded.
    pub passed: usize,
    /// Checks that failed, each with what was wrong.
    pub failed: Vec<String>,
}

impl Outcome {
    /// Nothing failed, and something was checked.
    pub fn passes(&self) -> bool {
        self.failed.is_empty() && self.passed > 0
    }
}

/// Runs every server scenario that this version of the protocol has.
#[track_caller]
pub fn run(url: &str, version: &str) -> BTreeMap<String, Outcome> {
    let kept = tempfile::tempdir().unwrap();
    let program = home().join("npm/node_modules/@modelcontextprotocol/conformance/dist/index.js");
    let mut command = Command::new(node());
    command
        .arg(program)
        .args(["server", "--suite", "all", "--url", url, "--spec-version", version, "-o"])
        .arg(kept.path())
        .current_dir(kept.path());
    // It ends with 1 if a check failed; which ones is for the test to judge.
    let (_, out, err) = process::run(command);
    let found = outcomes(kept.path());
    assert!(!found.is_empty(), "the suite did nothing at {url}: {out}{err}");
    found
}

/// One folder a scenario: `server-<scenario>-<time>/checks.json`.
fn outcomes(kept: &Path) -> BTreeMap<String, Outcome> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(kept).unwrap().flatten() {
        let folder = entry.file_name().into_string().unwrap();
        let scenario = scenario_of(&folder).unwrap_or_else(|| panic!("a folder `{folder}`"));
        let text = std::fs::read_to_string(entry.path().join("checks.json")).unwrap();
        let checks: Vec<Value> = serde_json::from_str(&text).unwrap();
        let of =
            |status: &'static str| checks.iter().filter(move |check| check["status"] == status);
        let failed = of("FAILURE").map(|check| {
            format!("{}: {}", check["id"].as_str().unwrap_or_default(), check["errorMessage"])
        });
        let (passed, failed) = (of("SUCCESS").count(), failed.collect());
        found.insert(scenario, Outcome { passed, failed });
    }
    found
}

/// `server-tools-list-2026-11-22T01-58-31-123Z` is `tools-list`.
fn scenario_of(folder: &str) -> Option<String> {
    let rest = folder.strip_prefix("server-")?;
    let year = rest.match_indices("-20").map(|(at, _)| at).filter(|at| {
        // The time, not a version or a year in a scenario's name.
        rest.as_bytes().get(at + 11) == Some(&b'T')
    });
    Some(rest[..year.last()?].to_owned())
}

/// The upstream that has everything the scenarios ask for.
pub struct Upstream {
    _process: Process,
    /// Where it serves.
    pub url: String,
}

impl Upstream {
    #[track_caller]
    pub fn start() -> Self {
        let mut command = Command::new(node());
        command.arg(scripts().join("upstream/everything.mjs"));
        command.env("WICKETGATE_TEST_MCP", home());
        let process = Process::start(command);
        let url = process.read("its address", |line| {
            let said: Value = serde_json::from_str(line).ok()?;
            Some(said["url"].as_str()?.to_owned())
        });
        Self { _process: process, url }
    }
}
