//! The payloads that an export discloses, and the keys to read them.

use std::path::PathBuf;
use std::sync::Arc;

use crate::cli::Failure;
use crate::cli::reader::{self, LedgerLocation, LedgerSource};
use crate::evidence::disclosed::Redactions;
use crate::ledger::vault::Vault;
use crate::operator::api::requests::Export;

/// The keys to read stored payloads with.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
pub struct DecryptionKeys {
    /// Key that encrypts the stored payloads; repeat it for older keys. If omitted, the keys of the configuration
    #[arg(long, value_name = "FILE")]
    encryption_key: Vec<PathBuf>,
}

/// What to disclose, of payloads that are disclosed at all.
#[derive(Clone, PartialEq, Eq, Debug, Default, clap::Args)]
pub struct Disclosure {
    /// Hide these members in payloads of this role, such as `args:iban,note`
    #[arg(long, value_name = "ROLE:MEMBER,…")]
    redact: Vec<String>,
    /// Disclose only these members in payloads of this role, such as `result:status`
    #[arg(long, value_name = "ROLE:MEMBER,…")]
    disclose: Vec<String>,
    #[command(flatten)]
    keys: DecryptionKeys,
}

impl DecryptionKeys {
    /// The keys, if there are any.
    ///
    /// # Errors
    /// A key or the configuration cannot be used.
    pub fn vault(&self, source: &LedgerSource) -> Result<Option<Arc<Vault>>, Failure> {
        if let Some((first, others)) = self.encryption_key.split_first() {
            return Vault::load(first, others).map(Arc::new).map(Some).map_err(Failure::usage);
        }
        let Some(LedgerLocation::Config(path)) = source.place() else { return Ok(None) };
        let config = reader::configuration(path).map_err(Failure::usage)?;
        config.vault().map_err(Failure::usage)
    }
}

impl Disclosure {
    /// The parsed options.
    ///
    /// # Errors
    /// An option of another form.
    pub fn redactions(&self) -> Result<Redactions, Failure> {
        Redactions::parse(&self.redact, &self.disclose).map_err(Failure::usage)
    }

    /// The choice, as the request to the operator API names it.
    pub fn asked(&self) -> Export {
        let (redact, disclose) = (self.redact.clone(), self.disclose.clone());
        Export { redact, disclose, ..Export::default() }
    }

    /// Whether keys were named.
    #[must_use]
    pub const fn has_keys(&self) -> bool {
        !self.keys.encryption_key.is_empty()
    }

    /// The keys, if there are any.
    ///
    /// # Errors
    /// A key or the configuration cannot be used.
    pub fn vault(&self, source: &LedgerSource) -> Result<Option<Arc<Vault>>, Failure> {
        self.keys.vault(source)
    }
}
