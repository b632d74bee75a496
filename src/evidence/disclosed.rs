//! Which payloads a bundle discloses: looked up in the ledger, commitment by commitment.

use super::payloads::{Payload, Payloads};
use crate::domain::id::ChainId;
use crate::ledger::store::{LedgerReader, StoreError};
use crate::ledger::verify::Line;

/// Adds what the ledger has for every commitment of these lines; nothing is looked up unless `asked`.
///
/// # Errors
/// The ledger cannot be read.
pub async fn disclose(
    reader: &dyn LedgerReader,
    chain: &ChainId,
    lines: impl Iterator<Item = &Line>,
    asked: bool,
    payloads: &mut Payloads,
) -> Result<(), StoreError> {
    for commitment in lines.flat_map(|line| &line.entry.draft.commit) {
        let row = if asked { reader.payload(chain, &commitment.c).await? } else { None };
        // WHY: without an entry that says it was erased, absence proves nothing more than absence.
        let payload = row.map_or(Payload::Withheld, |row| Payload::Opened {
            salt: row.salt,
            role: row.role,
            media_type: row.media_type,
            body: row.body,
        });
        payloads.0.insert(commitment.c, payload);
    }
    Ok(())
}
