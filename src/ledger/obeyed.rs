//! Which operators' orders this chain says were obeyed: what the list says of them later changes nothing.

use super::entry::{Entry, Kind};
use super::store::StoreError;
use super::{Error, Ledger};
use crate::domain::json::Json;

/// Entries that are read at once.
const PAGE: u32 = 1000;

impl Ledger {
    /// `data` of every `control.applied`, oldest first, since the last time a gate said on this chain what stands
    /// (`standing`), as each does before it puts a policy in force. Reads the chain backwards.
    ///
    /// # Errors
    /// `Unavailable`: nothing is known.
    pub async fn orders_obeyed(&self) -> Result<Vec<Json>, Error> {
        let unread = |e: StoreError| Error::Unavailable(e.to_string());
        let (store, key) = (&self.shared.store, self.key()?);
        let (mut found, mut served) = (Vec::new(), false);
        let mut end = store.head(key).await.map_err(unread)?.size;
        'back: while end > 0 {
            let from = end.saturating_sub(u64::from(PAGE));
            let rows = store.tail(key, from, PAGE).await.map_err(unread)?;
            for row in rows.iter().rev().filter(|row| row.seq < end) {
                if row.kind == Kind::ControlApplied.as_str() {
                    let odd = |_| Error::Unavailable("entry not understood".into());
                    found.push(Entry::parse(&row.body).map_err(odd)?.draft.data);
                }
                served |= row.kind == Kind::PolicyActivated.as_str();
                // What was before this life is in what this life said first.
                if served && row.kind == Kind::WriterStarted.as_str() {
                    break 'back;
                }
            }
            end = from;
        }
        found.reverse();
        Ok(found)
    }
}
