//! The evidence of one run, exported and verified by the commands.

use serde_json::Value;

use crate::ran::Ran;
use crate::sidecar::{Estate, run};

/// Exports a run with its payloads and verifies it; the verdict, and the transcript.
#[track_caller]
pub fn evidence(estate: &Estate, run_id: &str, out: &str) -> (Value, Value) {
    let dir = estate.path(".");
    if !estate.path("evidence.pem").exists() {
        for name in ["evidence.pem", "fleet.pem"] {
            run(&dir, &["keygen", "--out", name]);
        }
    }
    let order = ["evidence", "export", "--run", run_id, "--out", out, "--key", "evidence.pem"];
    let from = ["--payloads", "--config", "wicketgate.yaml", "--artifacts", "state/artifacts"];
    let fleet = ["--fleet-key", "fleet.pem", "--enrolment-key", "state/enrolment.key"];
    run(&dir, &[&order[..], &from, &fleet].concat());
    let trust = format!(
        "enrolment-key {}\nevidence-key {}\n",
        estate.path("state/enrolment.key.pub").display(),
        estate.path("evidence.pem.pub").display()
    );
    estate.write("trust.txt", trust);
    let verify = ["evidence", "verify", "--json", "--replay", "--trust", "trust.txt", out];
    let verdict = Ran::gate(&dir, verify).json();
    let run = std::fs::read(estate.path(&format!("{out}/agent_run.json"))).unwrap();
    (verdict, serde_json::from_slice(&run).unwrap())
}

/// The outcome of one check of a bundle.
#[track_caller]
pub fn outcome<'v>(verdict: &'v Value, check: &str) -> &'v Value {
    let checks = verdict["checks"].as_array().unwrap_or_else(|| panic!("{verdict}"));
    checks.iter().find(|one| one["id"] == check).unwrap_or_else(|| panic!("{verdict}"))
}
