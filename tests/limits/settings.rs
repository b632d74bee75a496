//! What the tests change of an estate, and how they read its ledger.

use std::process::Command;

use serde_json::Value;

use crate::checker::Database;
use crate::sidecar::Estate;
use wicketgate_support::program::python;

/// `spec.limits` of the manifest.
pub fn limits(estate: &Estate, limits: &str) {
    estate.manifest("1.0.1", "manifest", |text| {
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        manifest["spec"]["limits"] = serde_json::from_str(limits).unwrap();
        serde_json::to_string_pretty(&manifest).unwrap()
    });
}

/// One field of `limits` in the configuration.
pub fn bound(estate: &Estate, name: &str, value: Value) {
    estate.configure(|config| config["limits"][name] = value);
}

/// One field of every tool that is bound.
pub fn bind(estate: &Estate, name: &str, value: &Value) {
    estate.configure(|config| {
        for tool in config["tools"].as_array_mut().unwrap() {
            tool[name] = value.clone();
        }
    });
}

/// Entries of this kind in the SQLite file of an estate.
pub fn entries(estate: &Estate, kind: &str) -> Vec<Value> {
    let Database::Sqlite(path) = &estate.database else { panic!("not a file") };
    let script = "import sqlite3, sys, json\n\
        rows = sqlite3.connect(sys.argv[1]).execute('SELECT body FROM entry WHERE kind = ? ORDER BY seq', (sys.argv[2],))\n\
        print(json.dumps([json.loads(r[0]) for r in rows]))";
    let done = Command::new(python()).args(["-c", script]).arg(path).arg(kind).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}
