//! `evidence`: what the operator API needs to hand out evidence and to erase payloads.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Config;
use crate::catalog::form::FilePath;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::signer::agent_key;

/// `evidence`. Without a key operators can neither export nor erase over the operator API.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Evidence {
    /// Secret key that signs evidence bundles and erasure receipts: a PEM file of mode 0600, or
    /// `ssh-agent:<public key file>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub key: Option<PathBuf>,
    /// Directory of the policy bundles and manifests that sidecars kept for evidence. Default:
    /// `artifacts` in the state directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub artifacts: Option<PathBuf>,
    /// A file of mode 0600 that holds the connection URL of the Postgres role that may read and
    /// erase.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub eraser_url_file: Option<PathBuf>,
    /// Directory in which the bundle of each run is stored once the run is sealed, as `RUN.zip` with its payloads. It should
    /// be on another volume than the ledger. Erasures do not reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub sealed: Option<PathBuf>,
    /// A trust file, as `wicketgate evidence verify --trust` reads it: keys and heads that also count when this
    /// process verifies its own ledger for an auditor. Its own keys always count.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub trust: Option<PathBuf>,
}

impl Evidence {
    /// Where policy bundles and manifests are.
    pub fn artifacts(&self, config: &Config) -> PathBuf {
        self.artifacts.clone().unwrap_or_else(|| config.state.join("artifacts"))
    }
}

/// Checks beyond the schema, each error with its place.
pub(super) fn check(config: &Value) -> Vec<(String, String)> {
    let at = |name: &str| format!("/evidence/{name}");
    // The schema check has reported a wrong shape already.
    let Some(Ok(evidence)) = config.get("evidence").map(Evidence::deserialize) else {
        return Vec::new();
    };
    let mut problems = Vec::new();
    let Some(key) = &evidence.key else {
        if evidence.eraser_url_file.is_some() {
            problems.push((at("key"), "set it: it signs the receipts of erasures".to_owned()));
        }
        if evidence.sealed.is_some() {
            problems.push((at("key"), "set it: it signs the bundles of sealed runs".to_owned()));
        }
        return problems;
    };
    let read = match agent_key(key) {
        Some(public) => PublicKey::load_ssh(&public),
        None => SecretKey::load(key).map(|key| key.public()),
    };
    if let Err(error) = read {
        let hint =
            if key.exists() { "" } else { " (`wicketgate config keygen --out FILE` makes one)" };
        problems.push((at("key"), format!("{error}{hint}")));
    }
    if config.pointer("/fleet/key").is_none_or(Value::is_null) {
        let why =
            "set it: `evidence.key` is set, and exports and erasures are recorded in the fleet log";
        problems.push(("/fleet/key".to_owned(), why.to_owned()));
    }
    problems
}
