//! `retention` and `encryption`: how long payloads stay, and under which key they lie.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Config;
use crate::ledger::retention::{BACKUP_DAYS, Clocks};
use crate::ledger::vault::{self, Vault};

/// Roles of payloads.
const ROLES: [&str; 8] =
    ["args", "result", "policy_input", "approval", "message", "raw", "pre_image", "tools"];

/// `encryption`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Encryption {
    /// A file of mode 0600 with the key payloads are encrypted with (`payload keygen`).
    pub key_file: PathBuf,
    /// Keys that were in use before: they only decrypt.
    #[serde(default)]
    pub old_key_files: Vec<PathBuf>,
}

/// `retention`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// How long payloads of a role stay: `30d` or `12h`.
    pub payloads: BTreeMap<String, String>,
    /// How long backups of the ledger are kept, as erasure receipts say it.
    pub backups: String,
}

impl Retention {
    /// How long payloads of each role stay.
    #[must_use]
    pub fn clocks(&self) -> Clocks {
        let term = |(role, text): (&String, &String)| Some((role.clone(), duration(text)?));
        Clocks(self.payloads.iter().filter_map(term).collect())
    }

    /// How long backups are kept.
    #[must_use]
    pub fn backups(&self) -> Duration {
        let days = Duration::from_secs(BACKUP_DAYS * 24 * 60 * 60);
        duration(&self.backups).unwrap_or(days)
    }
}

/// Reads `30d` or `12h`.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let (number, hours) = match text.strip_suffix('d') {
        Some(days) => (days, 24),
        None => (text.strip_suffix('h')?, 1),
    };
    let number: u32 = number.parse().ok()?;
    Some(Duration::from_secs(u64::from(number).saturating_mul(hours * 60 * 60)))
}

impl Config {
    /// The keys payloads are encrypted with, if there are any.
    ///
    /// # Errors
    /// A key file cannot be used.
    pub fn vault(&self) -> Result<Option<Arc<Vault>>, vault::Error> {
        let load = |e: &Encryption| Vault::load(&e.key_file, &e.old_key_files).map(Arc::new);
        self.encryption.as_ref().map(load).transpose()
    }
}

/// The schema of `retention`.
pub(super) fn retention() -> Value {
    let term = |text: &str| {
        json!({"type": "string", "pattern": "^[0-9]{1,5}[dh]$", "description": text,
            "x-error": "expected a number of days or hours, such as `30d` or `12h`"})
    };
    let roles: serde_json::Map<String, Value> = ROLES
        .iter()
        .map(|role| {
            ((*role).to_owned(), term(&format!("how long payloads `{role}` stay; default 30d")))
        })
        .collect();
    let mut backups = term("how long backups of the ledger are kept, as erasure receipts say it");
    if let Some(members) = backups.as_object_mut() {
        members.insert("default".into(), "35d".into());
    }
    json!({"type": "object", "additionalProperties": false, "default": {}, "properties": {
        "payloads": {"type": "object", "additionalProperties": false, "default": {}, "properties": roles,
            "description": "how long payloads of a role stay before `payload expire` erases them"},
        "backups": backups,
    }})
}

/// The schema of `encryption`.
pub(super) fn encryption() -> Value {
    let path = || json!({"type": "string", "minLength": 1, "maxLength": 4096, "x-error": "expected a path"});
    json!({"type": "object", "additionalProperties": false, "required": ["key_file"],
    "description": "encrypts arguments, results and policy inputs before they are stored",
    "properties": {
        "key_file": path(),
        "old_key_files": {"type": "array", "maxItems": 16, "default": [], "items": path()},
    }})
}
