//! `fleet`: the keys of the log of logs, and who sees its heads from outside.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::note::{Algorithm, VerifierKey};
use crate::crypto::signer::{AGENT, agent_key};

/// `fleet`. A sidecar that only wants to notice a rollback has `anchor_file` alone.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Fleet {
    /// Signs the heads of the fleet log: a PEM file, or `ssh-agent:<public key file>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// During a rotation: the key before, which signs along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_key: Option<PathBuf>,
    /// Signs the certificates of writers; `enrolment.key` in the state directory unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enrolment_key: Option<PathBuf>,
    /// Who cosigns heads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub witnesses: Vec<Witness>,
    /// How many of them have to; all unless set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<usize>,
    /// Who stamps heads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<TimestampAuthority>,
    /// Where the newest head that others have seen is kept for sidecars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor_file: Option<PathBuf>,
}

/// `fleet.witnesses[]`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// Where heads are submitted.
    pub url: String,
    /// Its verifier key, as `wicketgate witness keygen` prints it.
    pub key: String,
    /// PEM authorities for `https` instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
}

/// `fleet.timestamp`.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TimestampAuthority {
    /// Where heads are stamped (RFC 3161 over HTTP).
    pub url: String,
    /// PEM file of the authorities whose tokens count.
    pub ca: PathBuf,
}

impl Fleet {
    /// How many witnesses have to cosign.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.quorum.unwrap_or(self.witnesses.len())
    }
}

/// The part of the schema.
pub(super) fn schema(path: &dyn Fn(&str) -> Value) -> Value {
    let url = || {
        json!({"type": "string", "pattern": "^https?://[^/]", "maxLength": 4096,
            "x-error": "expected an http:// or https:// URL"})
    };
    let witness = json!({"type": "object", "additionalProperties": false, "required": ["url", "key"],
        "properties": {"url": url(),
            "key": {"type": "string", "minLength": 1, "maxLength": 4096,
                "description": "its verifier key, as `wicketgate witness keygen` prints it"},
            "ca": path("authorities for https (PEM) instead of the public ones")}});
    json!({"type": "object", "additionalProperties": false, "default": {},
        "description": "the tenant's log of logs, written by `ledger anchor` and by whatever is done from outside the call path",
        "properties": {
        "key": path("secret key of the fleet log: a file of mode 0600, or ssh-agent:<public key file>"),
        "previous_key": path("during a rotation: the key before, which signs along"),
        "enrolment_key": path("secret key that certifies writers; default enrolment.key in the state directory"),
        "witnesses": {"type": "array", "maxItems": 32, "items": witness,
            "x-error": "expected at most 32 witnesses, each {url, key}",
            "description": "who cosigns heads of the fleet log"},
        "quorum": {"type": "integer", "minimum": 0, "maximum": 32,
            "x-error": "expected a whole number from 0 to 32",
            "description": "how many of them have to; default all"},
        "timestamp": {"type": "object", "additionalProperties": false, "required": ["url", "ca"],
            "x-error": "expected {url, ca}",
            "properties": {"url": url(), "ca": path("authorities whose tokens count (PEM)")}},
        "anchor_file": path("where the newest head that others have seen is kept; sidecars that find the database behind it do not serve"),
    }})
}

/// Every path of the section, as an absolute one.
pub(super) fn resolve(value: &mut Value, base: &Path) {
    let one = |path: &mut Value| {
        let Some(text) = path.as_str().filter(|text| !text.is_empty()) else { return };
        *path = Value::from(match text.strip_prefix(AGENT) {
            Some(public) => format!("{AGENT}{}", base.join(public).display()),
            None => base.join(text).display().to_string(),
        });
    };
    for name in ["key", "previous_key", "enrolment_key", "anchor_file", "timestamp/ca"] {
        value.pointer_mut(&format!("/fleet/{name}")).map(one);
    }
    let witnesses = value.pointer_mut("/fleet/witnesses").and_then(Value::as_array_mut);
    for witness in witnesses.into_iter().flatten() {
        witness.get_mut("ca").map(one);
    }
}

/// What a schema cannot say: pointers and messages.
pub(super) fn check(fleet: &Value) -> Vec<(String, String)> {
    // What has the wrong shape was said already.
    let Ok(fleet) = Fleet::deserialize(fleet) else { return Vec::new() };
    let mut wrong = Vec::new();
    let mut add = |at: &str, why: String| wrong.push((format!("/fleet/{at}"), why));
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
            let hint =
                if file.exists() { "" } else { " (`wicketgate keygen --out FILE` makes one)" };
            add(name, format!("{error}{hint}"));
        }
    }
    if fleet.key.is_none() {
        let asked = !fleet.witnesses.is_empty() || fleet.timestamp.is_some();
        if asked || fleet.previous_key.is_some() {
            add(
                "key",
                "needed: witnesses and time stamps are for heads that this key signs".into(),
            );
        }
    }
    let mut seen: Vec<VerifierKey> = Vec::new();
    for (i, witness) in fleet.witnesses.iter().enumerate() {
        let at = format!("witnesses/{i}/key");
        match VerifierKey::parse(&witness.key) {
            Err(error) => add(&at, format!("no verifier key: {error}")),
            Ok(key) if key.algorithm != Algorithm::Cosignature => {
                add(&at, "a key of a log, not of a witness (`wicketgate witness keygen`)".into());
            }
            Ok(key) if seen.iter().any(|other| other.key == key.key) => {
                add(&at, "the same key as of a witness before: it counts once".into());
            }
            Ok(key) => seen.push(key),
        }
    }
    if fleet.quorum() > fleet.witnesses.len() {
        let (quorum, there) = (fleet.quorum(), fleet.witnesses.len());
        add("quorum", format!("{quorum} of {there} witnesses can never be reached"));
    }
    wrong
}
