//! Whoever asks for exports and checks them.

use std::path::Path;

use serde_json::Value;
use wicketgate::domain::digest::Digest;

use crate::fleet::{FLEET, run, run_with, vkey};
use crate::sidecar::Estate;
use wicketgate_support::ran::Ran;

/// The evidence key, and a trust file with it, the fleet key and the enrolment keys of these gates.
pub fn auditor(estate: &Estate, gates: &[&Estate]) {
    if !estate.path("evidence.pem").exists() {
        run_with(estate, &["keygen", "--out", "evidence.pem"], &[]).ends(0);
    }
    trusts(estate, gates, "");
}

/// Writes the trust file anew, with more lines.
pub fn trusts(estate: &Estate, gates: &[&Estate], more: &str) {
    let keys = gates.iter().map(|gate| gate.path("state/enrolment.key.pub"));
    let keys: String = keys.map(|key| format!("enrolment-key {}\n", key.display())).collect();
    let fleet = vkey(estate);
    let text = format!("evidence-key evidence.pem.pub\n{keys}fleet-key {fleet}\n{more}");
    std::fs::write(estate.path("auditor.txt"), text).unwrap();
}

/// Exports with these options into this directory.
pub async fn export(estate: &Estate, what: &[&str], out: &str) -> Ran {
    let fixed = ["evidence", "export", "--config", "wicketgate.yaml", "--key", "evidence.pem"];
    let place = ["--artifacts", "state/artifacts", "--json", "--out", out];
    run(estate, &[&fixed[..], &place[..], what].concat()).await
}

/// What the auditor's verification says.
pub async fn verify(estate: &Estate, more: &[&str], bundle: &str) -> Ran {
    let fixed = ["evidence", "verify", "--trust", "auditor.txt"];
    run(estate, &[&fixed[..], more, &[bundle]].concat()).await
}

/// Manifests of the exports that the fleet log records.
pub async fn recorded(estate: &Estate) -> Vec<String> {
    let tail = ["ledger", "tail", "--config", "wicketgate.yaml", "-n", "1000", "--json", "--chain"];
    let said = run(estate, &[&tail[..], &[FLEET]].concat()).await.ends(0);
    let entries = said.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let exported = entries.filter(|entry| entry["kind"] == "evidence.exported");
    exported.map(|entry| entry["data"]["manifest"].as_str().unwrap().to_owned()).collect()
}

/// The digest that the record of this bundle has to name; `None` if there is no bundle.
pub fn manifest(bundle: &Path) -> Option<String> {
    let text = std::fs::read(bundle.join("manifest.json")).ok()?;
    Some(Digest::of(&[&text]).hex())
}
