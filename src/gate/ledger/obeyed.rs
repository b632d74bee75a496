//! Which operators' orders this chain says were obeyed: what the list says of them later changes nothing.

use super::{Error, Ledger};
use crate::record::control::ControlApplied;
use crate::record::{Entry, Kind};

impl Ledger {
    /// Every `control.applied`, oldest first, since the last time a gate said on this chain what stands
    /// (`standing`), as each does before it puts a policy in force. Reads the chain backwards.
    ///
    /// # Errors
    /// `Unavailable`: nothing is known.
    pub async fn orders_obeyed(&self) -> Result<Vec<ControlApplied>, Error> {
        let odd = |_| Error::Unavailable("entry not understood".into());
        let (mut found, mut served) = (Vec::new(), false);
        self.backwards(|rows| {
            for row in rows {
                if row.kind == Kind::ControlApplied.as_str() {
                    let entry = Entry::parse(&row.body).map_err(odd)?;
                    found.extend(entry.draft.get::<ControlApplied>().cloned());
                }
                served |= row.kind == Kind::PolicyActivated.as_str();
                // What was before this life is in what this life said first.
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
