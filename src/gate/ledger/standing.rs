//! How the calls of each tool ended in this chain, for policies that see it (`input.tool.trust`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::store::{EntryRange, EntryRow, LeaseKey, LedgerStore, StoreError};
use super::{Ledger, Shared};
use crate::clock::Clock;
use crate::domain::facts::ToolFacts;
use crate::domain::id::{ChainId, Seq};
use crate::domain::time::Timestamp;
use crate::policy::input::ToolTrust;
use crate::record::trust::{self, TrustDrop, TrustFold, TrustSubject, TrustWindow};
use crate::record::{Entry, Kind};

/// Entries read at once.
const PAGE: u32 = 1000;
/// The same fall is told of once: it is one within a day.
pub(super) const FALL_QUIET: Duration = Duration::from_secs(86_400);
/// Time between two looks for falls: a tool that fails again and again is looked at once.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Entries that are read at most, the newest.
const READ_MAX: Seq = 1_000_000;
/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// The chain as far as it is durable.
#[derive(Debug)]
struct EndedCalls {
    fold: TrustFold,
    chain: ChainId,
    through: Seq,
    /// The agents and tools whose calls ended badly since the last look.
    worse: BTreeSet<TrustSubject>,
    /// The falls that an alert tells of, and since when.
    told: BTreeMap<TrustSubject, Timestamp>,
}

/// What is counted of ended calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrustRule {
    /// The calls that count.
    pub window: TrustWindow,
    /// Whether policies see the counts. If not, calls are counted behind the road, when one ended badly.
    pub input: bool,
}

/// Counts what becomes durable.
#[derive(Debug)]
pub(super) struct TrustKeeper {
    rule: TrustRule,
    /// A call ended badly.
    worsened: Notify,
    /// `None` until the chain was read: before that there are no figures.
    counted: Mutex<Option<EndedCalls>>,
}

impl EndedCalls {
    /// Nothing, before this entry.
    fn before(at: Seq, chain: ChainId) -> Self {
        Self {
            fold: TrustFold::default(),
            chain,
            through: at.saturating_sub(1),
            worse: BTreeSet::new(),
            told: BTreeMap::new(),
        }
    }

    fn take(&mut self, rows: &[EntryRow]) {
        for row in rows {
            self.through = row.seq;
            if trust::counts(&row.kind)
                && let Ok(entry) = Entry::parse(&row.body)
            {
                self.worse.extend(self.fold.take(&entry));
            }
        }
    }
}

impl TrustKeeper {
    pub(super) fn new(rule: TrustRule) -> Self {
        Self { rule, worsened: Notify::new(), counted: Mutex::new(None) }
    }

    /// Counts entries that are durable now.
    pub(super) fn take(&self, rows: &[EntryRow]) {
        if !self.rule.input {
            // WHY not counted here: nothing that waits for the writer needs the counts.
            let badly = [Kind::CallFailed.as_str(), Kind::CallUnknown.as_str()];
            if rows.iter().any(|row| badly.contains(&row.kind.as_str())) {
                self.worsened.notify_one();
            }
            return;
        }
        if let Some(counted) = &mut *self.counted.lock() {
            counted.take(rows);
            if !counted.worse.is_empty() {
                self.worsened.notify_one();
            }
        }
    }

    /// Waits until calls ended badly, and returns the scores that fell with them.
    pub(super) async fn falls(
        &self,
        (store, key): (&dyn LedgerStore, &LeaseKey),
        (clock, is_ready): (&dyn Clock, &(dyn Fn() -> bool + Send + Sync)),
    ) -> Result<Vec<TrustDrop>, StoreError> {
        loop {
            self.worsened.notified().await;
            if !self.rule.input {
                // WHY: a read of a store that fails proves nothing, and what it says could end the gate.
                while !is_ready() {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
                let read = self.read((store, key), clock.now()).await;
                read.inspect_err(|_| self.worsened.notify_one())?;
            }
            let mut counted = self.counted.lock();
            let falls = counted.as_mut().map(|all| all.falls(self.rule.window, clock.now()));
            if let Some(falls) = falls.filter(|falls| !falls.is_empty()) {
                return Ok(falls);
            }
        }
    }

    /// An alert about this fall could not be recorded: the next call that ends badly asks for it again.
    pub(super) fn untold(&self, subject: &TrustSubject) {
        if let Some(counted) = &mut *self.counted.lock() {
            counted.told.remove(subject);
        }
    }

    /// Reads what this chain recorded and is not counted yet: at first the window, and a day for calls that
    /// began earlier.
    async fn read(
        &self,
        (store, key): (&dyn LedgerStore, &LeaseKey),
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let known = self.counted.lock().take().filter(|counted| counted.chain == key.chain);
        let mut counted = match known {
            Some(counted) => counted,
            None => EndedCalls::before(self.first((store, key), now).await?, key.chain),
        };
        loop {
            let from = counted.through.saturating_add(1);
            match store.select(key, EntryRange::From(from, PAGE)).await {
                Ok(rows) if rows.is_empty() => break,
                Ok(rows) => counted.take(&rows),
                Err(error) => {
                    *self.counted.lock() = Some(counted);
                    return Err(error);
                }
            }
        }
        *self.counted.lock() = Some(counted);
        Ok(())
    }

    /// The first entry that counts.
    async fn first(
        &self,
        place: (&dyn LedgerStore, &LeaseKey),
        now: Timestamp,
    ) -> Result<Seq, StoreError> {
        let days = self.rule.window.days.saturating_add(1).saturating_mul(DAY_MS);
        let since = now.millis().saturating_sub(i64::try_from(days).unwrap_or(i64::MAX));
        let (store, key) = place;
        let first = first_at(place, Timestamp::from_millis(since)).await?;
        Ok(first.max(store.head(key).await?.size.saturating_sub(READ_MAX)))
    }
}

impl EndedCalls {
    /// The scores that fell with the calls that ended badly since the last look: that of the tool, or else that of
    /// the agent with it. Each is one within a day.
    fn falls(&mut self, window: TrustWindow, now: Timestamp) -> Vec<TrustDrop> {
        self.told.retain(|_, at| at.plus(FALL_QUIET) > now);
        let mut falls = Vec::new();
        for of_agent in std::mem::take(&mut self.worse) {
            let of_tool = TrustSubject { agent: None, ..of_agent.clone() };
            if [&of_tool, &of_agent].into_iter().any(|one| self.told.contains_key(one)) {
                continue;
            }
            let of_tool = self.fold.trust_drop(&of_tool, window, now);
            let fall = of_tool.or_else(|| self.fold.trust_drop(&of_agent, window, now));
            if let Some(fall) = fall {
                self.told.insert(fall.subject.clone(), now);
                falls.push(fall);
            }
        }
        falls
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
            Some(keeper) if keeper.rule.input => {
                keeper.read((&*self.store, key), self.clock.now()).await?;
                // What was read may tell of a fall.
                keeper.worsened.notify_one();
                Ok(())
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl Ledger {
    /// How the calls of this tool ended, as far as they are durable; `None`: policies do not see it.
    #[must_use]
    pub fn tool_trust(&self, tool: &ToolFacts, now: Timestamp) -> Option<ToolTrust> {
        let keeper = self.shared.trust.as_ref().filter(|keeper| keeper.rule.input)?;
        let counted = keeper.counted.lock();
        let EndedCalls { fold, chain, through, .. } = counted.as_ref()?;
        let before = (chain, through.saturating_add(1));
        let subject = (tool.name.as_str(), &tool.definition);
        let count = fold.standing(subject, (keeper.rule.window, now), before);
        Some(ToolTrust::of(count, keeper.rule.window, *through))
    }
}
