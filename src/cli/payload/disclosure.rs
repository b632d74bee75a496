//! How much of the payloads an export discloses, and with which keys it reads them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::reader::{self, Place, Source};
use crate::evidence::disclosed::Redactions;
use crate::ledger::vault::Vault;

/// What to disclose, of payloads that are disclosed at all.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
pub struct Disclosure {
    /// Hide these members in payloads of this role, such as `args:iban,note`
    #[arg(long, value_name = "ROLE:MEMBER,…")]
    redact: Vec<String>,
    /// Disclose only these members in payloads of this role, such as `result:status`
    #[arg(long, value_name = "ROLE:MEMBER,…")]
    disclose: Vec<String>,
    /// Key that encrypts the stored payloads; repeat it for older keys. If omitted, the keys of the configuration
    #[arg(long, value_name = "FILE")]
    encryption_key: Vec<PathBuf>,
}

impl Disclosure {
    /// What was said, understood.
    ///
    /// # Errors
    /// A text of another form.
    pub fn redactions(&self) -> Result<Redactions, String> {
        Redactions::parse(&self.redact, &self.disclose).map_err(|e| e.to_string())
    }

    /// The choice, as the request to the operator API names it.
    #[must_use]
    pub fn asked(&self) -> serde_json::Value {
        serde_json::json!({"redact": self.redact, "disclose": self.disclose})
    }

    /// Whether keys were named.
    #[must_use]
    pub const fn has_keys(&self) -> bool {
        !self.encryption_key.is_empty()
    }

    /// The keys, if there are any.
    ///
    /// # Errors
    /// A key or the configuration cannot be used.
    pub fn vault(&self, source: &Source) -> Result<Option<Arc<Vault>>, String> {
        if let Some((first, others)) = self.encryption_key.split_first() {
            return Vault::load(first, others).map(Arc::new).map(Some).map_err(|e| e.to_string());
        }
        let Some(Place::Config(path)) = source.place() else { return Ok(None) };
        let config = reader::configuration(path)?;
        config.vault().map_err(|e| e.to_string())
    }
}
