//! Alerts that no entry of a run causes: a projection of the whole ledger raises them.
//!
//! All others are raised by the sequencer, which sees every entry.

use super::drafts::DraftWithPayloads;
use super::permit::Receipt;
use super::store::EntryRange;
use super::{Error, Ledger};
use crate::domain::id::Seq;
use crate::record::alert::AlertRaised;
use crate::record::{Draft, Entry, Kind};

/// No chain has so many entries.
const END: Seq = 1 << 40;
/// Alerts that are looked through for the same one, the newest.
const READ_MAX: u32 = 1000;

impl Ledger {
    /// Records an alert that is about no run, unless the same one about the same agent and tool was raised within the
    /// quiet time. Returns where it is recorded.
    ///
    /// # Errors
    /// As [`super::Pending::wait`].
    pub async fn raise(&self, alert: AlertRaised) -> Result<Option<Receipt>, Error> {
        let unread = |error: super::store::StoreError| Error::Unavailable(error.to_string());
        let kinds = [Kind::AlertRaised.as_str()];
        let range = EntryRange::Lone(&kinds, END, READ_MAX);
        let rows = self.shared.store.select(self.key()?, range).await.map_err(unread)?;
        let (now, quiet) = (self.shared.clock.now(), self.shared.settings.alerts.quiet);
        let same = |entry: &Entry| {
            let known = entry.draft.get::<AlertRaised>().filter(|known| known.run.is_none());
            let key = |one: &AlertRaised| (one.alert, one.agent.clone(), one.tool.clone());
            known.is_some_and(|known| key(known) == key(&alert)) && entry.ts.plus(quiet) > now
        };
        if rows.iter().filter_map(|row| Entry::parse(&row.body).ok()).any(|entry| same(&entry)) {
            return Ok(None);
        }
        let (kind, severity) = (alert.alert, alert.severity);
        let receipt = self.record(DraftWithPayloads::bare(Draft::of(alert))).await?;
        self.shared.metrics.alert(kind, severity);
        Ok(Some(receipt))
    }
}
