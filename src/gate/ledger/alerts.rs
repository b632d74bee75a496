//! Alerts that no entry of a run causes: a projection of the whole ledger raises them.
//!
//! All others are raised by the sequencer, which sees every entry.

use std::time::Duration;

use super::drafts::DraftWithPayloads;
use super::permit::Receipt;
use super::standing::{FALL_QUIET, LOOK_EVERY};
use super::store::EntryRange;
use super::{Error, Ledger};
use crate::domain::id::{Seq, ToolName};
use crate::record::alert::{AlertKind, AlertRaised};
use crate::record::trust::{TrustDrop, TrustSubject};
use crate::record::{Draft, Entry, Kind};

/// Stands for the agent where an alert is about all of them. No manifest has this name.
const ALL_AGENTS: &str = "*";
/// No chain has so many entries.
const END: Seq = 1 << 40;
/// Alerts that are looked through for the same one, the newest.
const READ_MAX: u32 = 1000;

/// The alert about a score that fell: as many thousandths, since then. A tool that fell for all agents names none.
fn of_fall(fall: &TrustDrop) -> AlertRaised {
    let TrustSubject { tool, agent, .. } = &fall.subject;
    let agent = agent.as_deref().unwrap_or(ALL_AGENTS);
    let fell = fall.from.saturating_sub(fall.to);
    AlertRaised::apart(AlertKind::TrustDrop, (agent, ToolName::parse(tool)), (fell, fall.since))
}

impl Ledger {
    /// Raises an alert for each trust score that falls, for as long as it is polled.
    pub async fn watch_trust(&self) {
        let Some(keeper) = &self.shared.trust else { return };
        loop {
            // The first one also gives a gate that starts the time to have its chain.
            tokio::time::sleep(LOOK_EVERY).await;
            let Ok(key) = self.key() else { continue };
            let is_ready = || self.open_for_intents().is_ok();
            let how = (&*self.shared.clock, &is_ready as &(dyn Fn() -> bool + Send + Sync));
            let looked = keeper.falls((&*self.shared.store, key), how).await;
            let falls = looked.unwrap_or_else(|error| {
                tracing::warn!(%error, "falls of trust are looked for again: the ledger could not be read");
                Vec::new()
            });
            for fall in falls {
                let raised = self.raise(of_fall(&fall), FALL_QUIET).await;
                if let Err(error) = raised {
                    keeper.untold(&fall.subject);
                    let tool = &fall.subject.tool;
                    tracing::warn!(%error, %tool, "the alert about a fall of trust could not be recorded");
                }
            }
        }
    }

    /// Records an alert that is about no run, unless the same one about the same agent and tool was raised within the
    /// quiet time. Returns where it is recorded.
    async fn raise(&self, alert: AlertRaised, quiet: Duration) -> Result<Option<Receipt>, Error> {
        let unread = |error: super::store::StoreError| Error::Unavailable(error.to_string());
        let kinds = [Kind::AlertRaised.as_str()];
        let range = EntryRange::Lone(&kinds, END, READ_MAX);
        let rows = self.shared.store.select(self.key()?, range).await.map_err(unread)?;
        let now = self.shared.clock.now();
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
