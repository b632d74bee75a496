//! `evidence`: what the office needs to hand out evidence and to erase payloads.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Config;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::signer::{AGENT, agent_key};

/// `evidence`. Without a key operators export and erase nothing over their door.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Signs bundles and receipts of erasures: a PEM file, or `ssh-agent:<public key file>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Policy bundles and manifests that sidecars kept; `artifacts` in the state directory unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<PathBuf>,
    /// Postgres: a file of mode 0600 with the URL of the role that reads and erases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eraser_url_file: Option<PathBuf>,
}

impl Evidence {
    /// Where policy bundles and manifests are.
    #[must_use]
    pub fn artifacts(&self, config: &Config) -> PathBuf {
        self.artifacts.clone().unwrap_or_else(|| config.state.join("artifacts"))
    }
}

/// The part of the schema.
pub(super) fn schema(path: &dyn Fn(&str) -> Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "default": {},
        "description": "what operators need to export evidence and to erase payloads over their door",
        "properties": {
        "key": path("secret key that signs bundles and receipts: a file of mode 0600, or ssh-agent:<public key file>"),
        "artifacts": path("policy bundles and manifests that sidecars kept; default artifacts in the state directory"),
        "eraser_url_file": path("Postgres: file of mode 0600 that holds the URL of the role that reads and erases"),
    }})
}

/// Every path of the section, as an absolute one.
pub(super) fn resolve(value: &mut Value, base: &Path) {
    for name in ["key", "artifacts", "eraser_url_file"] {
        let Some(path) = value.pointer_mut(&format!("/evidence/{name}")) else { continue };
        let Some(text) = path.as_str().filter(|text| !text.is_empty()) else { continue };
        *path = Value::from(match text.strip_prefix(AGENT) {
            Some(public) => format!("{AGENT}{}", base.join(public).display()),
            None => base.join(text).display().to_string(),
        });
    }
}

/// What the schema cannot say, each with its place.
pub(super) fn check(config: &Value) -> Vec<(String, String)> {
    let at = |name: &str| format!("/evidence/{name}");
    // What has the wrong shape was said already.
    let Some(Ok(evidence)) = config.get("evidence").map(Evidence::deserialize) else {
        return Vec::new();
    };
    let mut wrong = Vec::new();
    let Some(key) = &evidence.key else {
        if evidence.eraser_url_file.is_some() {
            wrong.push((at("key"), "needed: it signs the receipts of erasures".to_owned()));
        }
        return wrong;
    };
    let read = match agent_key(key) {
        Some(public) => PublicKey::load_ssh(&public),
        None => SecretKey::load(key).map(|key| key.public()),
    };
    if let Err(error) = read {
        let hint = if key.exists() { "" } else { " (`wicketgate keygen --out FILE` makes one)" };
        wrong.push((at("key"), format!("{error}{hint}")));
    }
    if config.pointer("/fleet/key").is_none_or(Value::is_null) {
        let why = "needed for `evidence.key`: exports and erasures are recorded in the fleet log";
        wrong.push(("/fleet/key".to_owned(), why.to_owned()));
    }
    wrong
}
