//! The index of calls and runs that the operator API of this process searches.

use crate::config::{Config, Ledger};
use crate::index::{Error, FILE, Index};

/// The index of this configuration: in the database of a hub, beside the file of a sidecar.
///
/// # Errors
/// It cannot be opened.
pub fn of_config(config: &Config) -> Result<Index, Error> {
    match &config.ledger {
        Ledger::Postgres(postgres) => {
            let holder = format!("{}/{}", super::checked::host(), std::process::id());
            Index::postgres(postgres.connect.expose(), &holder)
        }
        Ledger::Sqlite(_) => Index::open(&config.state.join(FILE)),
    }
}

/// The same. If it cannot be used, one in memory: it is filled from the ledger alike, and a gate must not depend on what
/// only finds.
pub(super) fn operator_part(config: &Config) -> Option<Index> {
    let opened = of_config(config).or_else(|error| {
        tracing::warn!(%error, "the index of calls is kept in memory");
        Index::memory()
    });
    let failed = |error| tracing::warn!(%error, "calls and runs cannot be looked up");
    opened.map_err(failed).ok()
}
