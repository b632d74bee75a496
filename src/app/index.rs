//! The index of calls and runs that the operator API of this process searches.

use crate::config::Config;
use crate::index::{FILE, Index};

/// The index in the state directory. If the file cannot be used, one in memory: it is filled from the ledger alike, and
/// a gate must not depend on what only finds.
pub(super) fn operator_part(config: &Config) -> Option<Index> {
    let path = config.state.join(FILE);
    let opened = Index::open(&path).or_else(|error| {
        tracing::warn!(file = %path.display(), %error, "the index of calls is kept in memory");
        Index::memory()
    });
    let failed = |error| tracing::warn!(%error, "calls and runs cannot be looked up");
    opened.map_err(failed).ok()
}
