//! `fleet`: the keys of the fleet log, and the witnesses of its heads.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::form::{FilePath, WebAddress};
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::note::{Algorithm, VerifierKey};
use crate::crypto::signer::agent_key;

/// `fleet`. A sidecar that only has to notice a rollback has `anchor_file` alone.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fleet {
    /// Secret key that signs the heads of the fleet log: a PEM file of mode 0600, or `ssh-agent:<public key file>`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub key: Option<PathBuf>,
    /// During a rotation, the previous key, which signs heads too.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub previous_key: Option<PathBuf>,
    /// Secret key that certifies writers. Default: `enrolment.key` in the state directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub enrolment_key: Option<PathBuf>,
    /// The witnesses that cosign heads of the fleet log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 32),
        extend("x-error" = "expected at most 32 witnesses, each {url, key}")
    )]
    pub witnesses: Vec<Witness>,
    /// How many of the witnesses must cosign a head. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 32))]
    pub quorum: Option<usize>,
    /// The time-stamping authority (RFC 3161) for heads of the fleet log.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-error" = "expected {url, ca}"))]
    pub timestamp: Option<TimestampAuthority>,
    /// File that keeps the newest head that others have seen. A sidecar refuses to serve if its
    /// database is behind that head.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub anchor_file: Option<PathBuf>,
}

/// `fleet.witnesses[]`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// URL that heads are submitted to.
    #[schemars(with = "WebAddress")]
    pub url: String,
    /// Verifier key of the witness, as `wicketgate ledger witness keygen` prints it.
    #[schemars(length(min = 1, max = 4096))]
    pub key: String,
    /// Certificate authorities (PEM) to trust for https, instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub ca: Option<PathBuf>,
}

/// `fleet.timestamp`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimestampAuthority {
    /// URL of the authority.
    #[schemars(with = "WebAddress")]
    pub url: String,
    /// Certificates (PEM) of the authorities whose time stamps are accepted.
    #[schemars(with = "FilePath")]
    pub ca: PathBuf,
}

impl Fleet {
    /// How many witnesses have to cosign.
    pub fn quorum(&self) -> usize {
        self.quorum.unwrap_or(self.witnesses.len())
    }
}

/// Checks beyond the schema: pointers and messages.
pub(super) fn check(fleet: &Value) -> Vec<(String, String)> {
    // The schema check has reported a wrong shape already.
    let Ok(fleet) = Fleet::deserialize(fleet) else { return Vec::new() };
    let mut problems = Vec::new();
    let mut add = |at: &str, why: String| problems.push((format!("/fleet/{at}"), why));
    let keys = [
        ("key", &fleet.key),
        ("previous_key", &fleet.previous_key),
        ("enrolment_key", &fleet.enrolment_key),
    ];
    for (name, file) in keys {
        let Some(file) = file else { continue };
        let read = match agent_key(file) {
            Some(public) => PublicKey::load_ssh(&public),
            None => SecretKey::load(file).map(|key| key.public()),
        };
        if let Err(error) = read {
            let hint = if file.exists() {
                ""
            } else {
                " (`wicketgate config keygen --out FILE` makes one)"
            };
            add(name, format!("{error}{hint}"));
        }
    }
    if fleet.key.is_none() {
        let needs_key = !fleet.witnesses.is_empty() || fleet.timestamp.is_some();
        if needs_key || fleet.previous_key.is_some() {
            add(
                "key",
                "set it: witnesses and time stamps apply to heads that this key signs".into(),
            );
        }
    }
    let mut seen: Vec<VerifierKey> = Vec::new();
    for (i, witness) in fleet.witnesses.iter().enumerate() {
        let at = format!("witnesses/{i}/key");
        match VerifierKey::parse(&witness.key) {
            Err(error) => add(&at, format!("not a verifier key: {error}")),
            Ok(key) if key.algorithm != Algorithm::Cosignature => {
                add(
                    &at,
                    "this is the key of a log; give the key of a witness (`wicketgate ledger witness keygen`)".into(),
                );
            }
            Ok(key) if seen.iter().any(|other| other.key == key.key) => {
                add(&at, "an earlier witness has the same key, which counts only once".into());
            }
            Ok(key) => seen.push(key),
        }
    }
    if fleet.quorum() > fleet.witnesses.len() {
        let (quorum, there) = (fleet.quorum(), fleet.witnesses.len());
        add("quorum", format!("{quorum} of {there} witnesses can never be reached"));
    }
    problems
}
