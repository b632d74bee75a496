//! The operators' orders that this chain records as obeyed. Later changes to the list of operators
//! do not alter them.

use super::{Error, Ledger};
use crate::record::control::ControlApplied;
use crate::record::{Entry, Kind};

impl Ledger {
    /// Every `control.applied`, oldest first, since a gate last recorded the orders in force on
    /// this chain (`standing`). Every gate does that before it activates a policy. Reads the chain
    /// backwards.
    ///
    /// # Errors
    /// `Unavailable`: the store cannot be read, so the orders are unknown.
    pub async fn applied_orders(&self) -> Result<Vec<ControlApplied>, Error> {
        let unreadable = |_| Error::Unavailable("entry not understood".into());
        let (mut found, mut served) = (Vec::new(), false);
        let kinds = [Kind::ControlApplied, Kind::PolicyActivated, Kind::WriterStarted];
        self.backwards(&kinds, |rows| {
            for row in rows {
                if row.kind == Kind::ControlApplied.as_str() {
                    let entry = Entry::parse(&row.body).map_err(unreadable)?;
                    found.extend(entry.draft.get::<ControlApplied>().cloned());
                }
                served |= row.kind == Kind::PolicyActivated.as_str();
                // The first entries of this writer repeat everything that was in force before it
                // started.
                if served && row.kind == Kind::WriterStarted.as_str() {
                    return Ok(false);
                }
            }
            Ok(true)
        })
        .await?;
        found.reverse();
        Ok(found)
    }
}
