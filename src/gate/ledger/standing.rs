//! How the calls of each tool ended in this chain, for policies that see it (`input.tool.trust`).

use parking_lot::Mutex;

use super::store::{EntryRange, EntryRow, LeaseKey, LedgerStore, StoreError};
use super::{Ledger, Shared};
use crate::domain::facts::ToolFacts;
use crate::domain::id::{ChainId, Seq};
use crate::domain::time::Timestamp;
use crate::policy::input::ToolTrust;
use crate::record::Entry;
use crate::record::trust::{self, TrustFold, TrustWindow};

/// Entries read at once.
const PAGE: u32 = 1000;
/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// The chain as far as it is durable.
#[derive(Debug)]
struct EndedCalls {
    fold: TrustFold,
    chain: ChainId,
    through: Seq,
}

/// Counts what becomes durable.
#[derive(Debug)]
pub(super) struct TrustKeeper {
    window: TrustWindow,
    /// `None` until the chain was read: before that there are no figures.
    counted: Mutex<Option<EndedCalls>>,
}

impl EndedCalls {
    fn take(&mut self, rows: &[EntryRow]) {
        for row in rows {
            self.through = row.seq;
            if trust::counts(&row.kind)
                && let Ok(entry) = Entry::parse(&row.body)
            {
                self.fold.take(&entry);
            }
        }
    }
}

impl TrustKeeper {
    pub(super) const fn new(window: TrustWindow) -> Self {
        Self { window, counted: Mutex::new(None) }
    }

    /// Counts entries that are durable now.
    pub(super) fn take(&self, rows: &[EntryRow]) {
        if let Some(counted) = &mut *self.counted.lock() {
            counted.take(rows);
        }
    }

    /// Reads what this chain recorded before: the window, and a day for calls that began earlier.
    async fn read(
        &self,
        (store, key): (&dyn LedgerStore, &LeaseKey),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let days = self.window.days.saturating_add(1).saturating_mul(DAY_MS);
        let since = now.millis().saturating_sub(i64::try_from(days).unwrap_or(i64::MAX));
        let mut at = first_at((store, key), Timestamp::from_millis(since)).await?;
        let mut counted = EndedCalls {
            fold: TrustFold::default(),
            chain: key.chain,
            through: at.saturating_sub(1),
        };
        loop {
            let rows = store.select(key, EntryRange::From(at, PAGE)).await?;
            let Some(last) = rows.last() else { break };
            at = last.seq.saturating_add(1);
            counted.take(&rows);
        }
        *self.counted.lock() = Some(counted);
        Ok(())
    }
}

/// The first entry at this time or later.
pub(super) async fn first_at(
    (store, key): (&dyn LedgerStore, &LeaseKey),
    time: Timestamp,
) -> Result<Seq, StoreError> {
    let (mut low, mut high) = (0, store.head(key).await?.size);
    while low < high {
        let middle = low.midpoint(high);
        let rows = store.select(key, EntryRange::From(middle, 1)).await?;
        let entry = rows.first().and_then(|row| Entry::parse(&row.body).ok());
        match entry {
            Some(entry) if entry.ts < time => low = entry.seq.saturating_add(1),
            Some(_) | None => high = middle,
        }
    }
    Ok(low)
}

impl Shared {
    /// Reads the chain for the policies that see how calls ended, if any may.
    pub(super) async fn count_ended(&self, key: &LeaseKey) -> Result<(), StoreError> {
        match &self.trust {
            Some(keeper) => keeper.read((&*self.store, key), self.clock.now()).await,
            None => Ok(()),
        }
    }
}

impl Ledger {
    /// How the calls of this tool ended, as far as they are durable; `None`: policies do not see it.
    #[must_use]
    pub fn tool_trust(&self, tool: &ToolFacts, now: Timestamp) -> Option<ToolTrust> {
        let keeper = self.shared.trust.as_ref()?;
        let counted = keeper.counted.lock();
        let EndedCalls { fold, chain, through } = counted.as_ref()?;
        let before = (chain, through.saturating_add(1));
        let subject = (tool.name.as_str(), &tool.definition);
        let count = fold.standing(subject, (keeper.window, now), before);
        Some(ToolTrust::of(count, keeper.window, *through))
    }
}
