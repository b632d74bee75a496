//! Closes what a dead writer left open: decides which slots are due, and runs the one writer that
//! closes one.
//!
//! A writer that is merely late is not fenced. A slot is due when this process itself saw it
//! abandoned and unchanged for the whole grace period, look after look. If the database was away,
//! the hub was stopped or a look failed, the grace period starts again, because live writers could
//! not renew their leases either. The statement that takes the slot checks that it is still as it
//! was seen.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::sequencer::Ending;
use super::store::Leased;
use super::{Ledger, LedgerParts, LedgerSettings};
use crate::domain::id::{ChainId, Epoch, Seq};

/// How long closing one slot may take. The next visit does the rest.
const CLOSE_WITHIN: Duration = Duration::from_secs(30);

/// A slot without a live writer that was not closed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Abandoned {
    /// Its chain.
    pub chain: ChainId,
    /// `<pool>/<number>`.
    pub slot: String,
    /// Name of the log.
    pub origin: String,
    /// The epoch of its last writer.
    pub epoch: Epoch,
    /// Entries.
    pub size: Seq,
}

/// Observations of abandoned slots, look after look.
#[derive(Debug)]
pub struct SlotWatch {
    grace: Duration,
    /// The longest pause between two looks in which live writers were certainly served too.
    pause_max: Duration,
    seen: BTreeMap<ChainId, (Abandoned, Duration)>,
    last: Option<Duration>,
}

impl SlotWatch {
    /// Starts without observations. A slot is due after `grace`; a pause longer than `pause_max`
    /// between two looks restarts every grace period.
    pub const fn new(grace: Duration, pause_max: Duration) -> Self {
        Self { grace, pause_max, seen: BTreeMap::new(), last: None }
    }

    /// Records one look that began at `now` (monotonic) and found these; returns at most `most` due
    /// ones. A returned slot is due again only after another grace period.
    pub fn look(&mut self, now: Duration, found: Vec<Abandoned>, most: usize) -> Vec<Abandoned> {
        let paused = |last: Duration| now.saturating_sub(last) > self.pause_max;
        if self.last.is_some_and(paused) {
            self.seen.clear();
        }
        self.last = Some(now);
        let before = std::mem::take(&mut self.seen);
        for slot in found {
            let since = before.get(&slot.chain).filter(|(known, _)| *known == slot);
            let since = since.map_or(now, |(_, since)| *since);
            self.seen.insert(slot.chain, (slot, since));
        }
        let over = |since: Duration| now.saturating_sub(since) >= self.grace;
        let due = self.seen.values().filter(|(_, since)| over(*since)).take(most);
        let due: Vec<Abandoned> = due.map(|(slot, _)| slot.clone()).collect();
        for slot in &due {
            self.seen.remove(&slot.chain);
        }
        due
    }

    /// A look failed, so it is unknown whether live writers could renew their leases meanwhile.
    pub fn missed(&mut self) {
        self.seen.clear();
        self.last = None;
    }
}

/// How a slot was left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Closed {
    /// Open calls are unknown, runs are sealed, `writer.stopped` is recorded and the slot is free.
    Whole,
    /// Another writer or reaper took the slot meanwhile.
    Lost(String),
    /// It was not done in time. The lease runs out and the slot shows up again.
    Later(String),
    /// Its chain cannot be trusted: nothing was written.
    Distrusted(String),
}

/// Closes a slot that was taken for that purpose: an ordinary writer that has no runs of its own,
/// resumes none, and stops as soon as it has started.
pub async fn close(
    settings: LedgerSettings,
    parts: LedgerParts,
    leased: Leased,
    stopping: &CancellationToken,
) -> Closed {
    let (ledger, writer) = Ledger::new(settings, parts);
    drop(ledger.shared.leased.set(leased));
    let mut status = ledger.status();
    let stop = stopping.child_token();
    let (started, recovered) = oneshot::channel();
    let writing = writer.spawn(stop.clone(), started);
    let started = tokio::time::timeout(CLOSE_WITHIN, recovered).await;
    let why = format!("{:?}", *status.borrow_and_update());
    stop.cancel();
    match (writing.await, started) {
        (Ok(Ending::Stopped), Ok(Ok(_no_runs))) => Closed::Whole,
        (Ok(Ending::Stopped), _) => Closed::Later(why),
        (Ok(Ending::Fenced(why)), _) => Closed::Lost(why),
        (Ok(Ending::Broken(why)), _) => Closed::Distrusted(why),
        (Err(panicked), _) => Closed::Later(panicked.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn slot(n: u8, size: u64) -> Abandoned {
        let (chain, name) = (ChainId::from_bytes([n; 16]), format!("local/{n}"));
        Abandoned {
            chain,
            origin: format!("wicketgate.dev/t/{name}/0"),
            slot: name,
            epoch: 1,
            size,
        }
    }

    fn watch() -> SlotWatch {
        SlotWatch::new(GRACE, at(5))
    }

    /// Looks every second from `from` up to `to`; returns when the slot was first due.
    fn first_due(watch: &mut SlotWatch, from: u64, to: u64, found: &Abandoned) -> Option<u64> {
        (from..=to).find(|now| !watch.look(at(*now), vec![found.clone()], 4).is_empty())
    }

    #[test]
    fn a_slot_is_due_once_it_was_seen_abandoned_for_the_whole_grace() {
        let mut watch = watch();
        assert_eq!(first_due(&mut watch, 0, 100, &slot(1, 7)), Some(60));
        assert_eq!(
            first_due(&mut watch, 61, 200, &slot(1, 7)),
            Some(121),
            "and then after another"
        );
    }

    #[test]
    fn a_writer_that_wrote_or_renewed_meanwhile_begins_the_grace_anew() {
        let mut watch = watch();
        assert_eq!(first_due(&mut watch, 0, 59, &slot(1, 7)), None);
        assert_eq!(first_due(&mut watch, 60, 119, &slot(1, 8)), None, "it wrote");
        assert!(watch.look(at(120), Vec::new(), 4).is_empty(), "it renewed");
        assert_eq!(first_due(&mut watch, 121, 200, &slot(1, 8)), Some(181));
    }

    #[test]
    fn a_look_that_failed_or_came_late_begins_every_grace_anew() {
        let mut watch = watch();
        assert_eq!(first_due(&mut watch, 0, 59, &slot(1, 7)), None);
        watch.missed();
        assert_eq!(first_due(&mut watch, 60, 119, &slot(1, 7)), None);
        assert_eq!(
            first_due(&mut watch, 125, 200, &slot(1, 7)),
            Some(185),
            "after a pause of six seconds"
        );
    }

    #[test]
    fn at_most_so_many_are_due_at_once_and_the_rest_is_due_next() {
        let mut watch = watch();
        let all: Vec<_> = (1..=6).map(|n| slot(n, 7)).collect();
        for now in 0..60 {
            assert!(watch.look(at(now), all.clone(), 4).is_empty());
        }
        let mut due = watch.look(at(60), all.clone(), 4);
        assert_eq!(due.len(), 4);
        due.extend(watch.look(at(61), all.clone(), 4));
        due.sort_by_key(|slot| slot.chain);
        assert_eq!(due, all);
    }
}
