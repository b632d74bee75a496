//! What the tests change of an estate, and how they read its ledger.

use serde_json::Value;

use crate::checker;
use crate::sidecar::Estate;

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
    checker::entries(&estate.database, kind)
}
