//! `retention` and `encryption`: how long payloads stay, and the key that encrypts them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Config;
use crate::catalog::form::FilePath;
use crate::ledger::retention::{BACKUP_DAYS, Clocks};
use crate::ledger::vault::{self, Vault};

/// `encryption`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Encryption {
    /// A file of mode 0600 that holds the key of newly stored payloads (`wicketgate ledger payload keygen`).
    #[schemars(with = "FilePath")]
    pub key_file: PathBuf,
    /// Files of earlier encryption keys. The gate uses them to decrypt, never to encrypt.
    #[serde(default)]
    #[schemars(with = "Vec<FilePath>", length(max = 16))]
    pub old_key_files: Vec<PathBuf>,
}

/// `retention`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// How long to keep payloads before `wicketgate ledger payload expire` erases them, by role.
    /// Default: 30 days for each role.
    #[schemars(with = "PayloadTerms")]
    pub payloads: BTreeMap<String, String>,
    /// How long backups of the ledger are kept. Receipts of erasures state it.
    #[schemars(with = "Term")]
    pub backups: String,
}

impl Default for Retention {
    fn default() -> Self {
        Self { payloads: BTreeMap::new(), backups: format!("{BACKUP_DAYS}d") }
    }
}

/// The schema of a number of days or hours.
#[derive(JsonSchema)]
#[schemars(extend("x-error" = "expected a number of days or hours, such as `30d` or `12h`"))]
struct Term(
    #[schemars(regex(pattern = r"^[0-9]{1,5}[dh]$"))]
    #[expect(dead_code, reason = "only its schema is used")]
    String,
);

/// The schema of `retention.payloads`: the roles of payloads.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
struct PayloadTerms {
    /// How long to keep arguments of calls.
    args: Option<Term>,
    /// How long to keep results of calls.
    result: Option<Term>,
    /// How long to keep inputs of policy decisions.
    policy_input: Option<Term>,
    /// How long to keep signed statements of approvers.
    approval: Option<Term>,
    /// How long to keep messages of conversations with models.
    message: Option<Term>,
    /// How long to keep the order of the messages of calls to models.
    conversation: Option<Term>,
    /// How long to keep tools that were offered to models.
    offer: Option<Term>,
    /// How long to keep instructions for models that stand beside the conversation.
    instructions: Option<Term>,
    /// How long to keep arguments of model calls in the exact bytes that the agent sent.
    raw: Option<Term>,
    /// How long to keep contents of files that a call replaced or deleted. A rollback needs them.
    pre_image: Option<Term>,
    /// How long to keep lists of the tools that runs were granted when they were opened.
    tools: Option<Term>,
    /// How long to keep the events of streamed answers of runs that are recorded for a replay.
    stream: Option<Term>,
}

impl Retention {
    /// How long payloads of each role stay.
    pub fn clocks(&self) -> Clocks {
        let term = |(role, text): (&String, &String)| Some((role.clone(), duration(text)?));
        Clocks(self.payloads.iter().filter_map(term).collect())
    }

    /// How long backups are kept.
    pub fn backups(&self) -> Duration {
        let days = Duration::from_secs(BACKUP_DAYS * 24 * 60 * 60);
        duration(&self.backups).unwrap_or(days)
    }
}

/// Reads `30d` or `12h`.
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
