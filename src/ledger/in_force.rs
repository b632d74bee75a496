//! Which policy bundle the chain itself says is in force.

use super::entry::{Entry, Kind};
use super::store::StoreError;
use super::{Error, Ledger};
use crate::domain::digest::Digest;
use crate::domain::json::Json;

/// Entries that are read at once.
const PAGE: u32 = 1000;

/// The last `policy.activated` of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Activated {
    /// The bundle.
    pub bundle: Digest,
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Activated {
    fn of(entry: &Entry) -> Option<Self> {
        let text = |name| entry.draft.data.get(name).and_then(Json::as_str).map(str::to_owned);
        let version = text("version").unwrap_or_default();
        Some(Self { bundle: entry.draft.policy?, name: text("name")?, version })
    }
}

impl Ledger {
    /// The bundle that was last put in force on this chain; `None` if none ever was. Reads the chain
    /// backwards: each start of a gate puts one in force.
    ///
    /// # Errors
    /// `Unavailable`: nothing is known.
    pub async fn last_activated(&self) -> Result<Option<Activated>, Error> {
        let unread = |e: StoreError| Error::Unavailable(e.to_string());
        let (store, key) = (&self.shared.store, self.key()?);
        let mut end = store.head(key).await.map_err(unread)?.size;
        while end > 0 {
            let from = end.saturating_sub(u64::from(PAGE));
            let rows = store.tail(key, from, PAGE).await.map_err(unread)?;
            let found = rows
                .iter()
                .rfind(|row| row.seq < end && row.kind == Kind::PolicyActivated.as_str());
            if let Some(row) = found {
                let entry = Entry::parse(&row.body).ok().as_ref().and_then(Activated::of);
                let odd = || Error::Unavailable("entry not understood".into());
                return entry.map(Some).ok_or_else(odd);
            }
            end = from;
        }
        Ok(None)
    }
}
