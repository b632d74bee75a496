//! The live feed: what runs and calls do, for every operator who follows it.
//!
//! The reader that keeps the approval queue up to date is its only source: entries are read once, whatever the number of
//! followers. The newest events stay in memory; a follower has a place among them, and who falls behind is told how many
//! it missed.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::domain::code::Code;
use crate::domain::id::{ChainId, Seq};
use crate::domain::time::Timestamp;
use crate::serve::problem::Problem;

mod event;
mod follow;

pub(crate) use event::RunFeed;
pub use event::{LiveEvent, of_alert, of_health};
pub(crate) use follow::{BEAT, LiveItem, LiveReader, last_event, sse};
pub use follow::{LiveStream, Standing};

/// Events that are kept.
pub(super) const EVENTS_MAX: usize = 1024;
/// Streams at the same time, and those of one operator, whose tabs so never keep the others out.
const STREAMS_MAX: usize = 64;
const OWN_MAX: usize = 32;
/// When a client that found no place may try again.
const AGAIN: Duration = Duration::from_secs(5);
/// Between two reads of new entries for followers.
const PAUSE: Duration = Duration::from_millis(200);
/// How far the clocks of two writers may differ. Where the order of events is not that in which they became known, a
/// follower that comes back gets those of this time again, and misses none.
const SKEW_MS: i64 = 5_000;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// The entry of an event: where a follower that comes back goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveCursor {
    /// When the entry was recorded.
    pub at: Timestamp,
    /// Its chain.
    pub chain: ChainId,
    /// Its number in the chain.
    pub seq: Seq,
}

impl LiveCursor {
    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (at, chain, seq) = (parts.next()?, parts.next()?, parts.next()?);
        let at = Timestamp::from_millis(at.parse().ok()?);
        let cursor = Self { at, chain: ChainId::parse(chain)?, seq: seq.parse().ok()? };
        (cursor.to_string() == text).then_some(cursor)
    }
}

impl fmt::Display for LiveCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}", self.at.millis(), self.chain, self.seq)
    }
}

/// Events that were read and are not in the feed yet: the newest of them.
#[derive(Debug, Default)]
pub(super) struct FreshEvents {
    events: VecDeque<LiveEvent>,
    dropped: u64,
}

impl FreshEvents {
    /// Adds one.
    pub(super) fn push(&mut self, event: LiveEvent) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
            self.dropped = self.dropped.saturating_add(1);
        }
        self.events.push_back(event);
    }

    /// Adds what a chain already held when it was read for the first time.
    pub(super) fn extend(&mut self, events: impl IntoIterator<Item = LiveEvent>) {
        events.into_iter().for_each(|event| self.push(event));
    }
}

/// What every follower sees: events by number, from the oldest that is kept.
#[derive(Debug, Default)]
struct FeedState {
    /// Whether the ledger was read once.
    begun: bool,
    /// The number of the next event.
    next: u64,
    /// Events below this number had been recorded before the first look: they stand in the order of their times.
    history: u64,
    events: VecDeque<Arc<LiveEvent>>,
    /// Requests that wait for an approval.
    waiting: usize,
    /// When the alerts that are known were raised.
    alerts: Vec<Timestamp>,
    /// When new entries were last read for a follower.
    looked: Option<Duration>,
    /// Open streams by subject.
    streams: BTreeMap<String, usize>,
}

impl FeedState {
    /// The number of the oldest event that is kept.
    fn first(&self) -> u64 {
        self.next.saturating_sub(u64::try_from(self.events.len()).unwrap_or(u64::MAX))
    }

    fn push(&mut self, event: Arc<LiveEvent>) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(event);
        self.next = self.next.saturating_add(1);
    }
}

/// The feed of one operator API.
#[derive(Debug, Default)]
pub struct Feed {
    state: Mutex<FeedState>,
    closing: CancellationToken,
}

/// Where a follower begins.
#[derive(Debug, Default, PartialEq, Eq)]
struct Resumption {
    /// The number of the event it has not seen yet.
    position: u64,
    /// Events before that which it has not seen either.
    backlog: Vec<Arc<LiveEvent>>,
    /// Whether there may be more that are no longer kept.
    gap: bool,
}

impl Feed {
    /// Takes events that were read.
    pub(super) fn publish(&self, fresh: &mut FreshEvents, waiting: usize) {
        let mut state = self.state.lock();
        let events = std::mem::take(&mut fresh.events);
        let dropped = std::mem::take(&mut fresh.dropped);
        state.waiting = waiting;
        let mut events: Vec<LiveEvent> = events.into();
        if !state.begun {
            events.sort_by_key(|event| (event.place.at, event.place.chain, event.place.seq));
        } else if dropped > 0 {
            // What is dropped came before all of these, which fill the feed.
            state.events.clear();
            state.next = state.next.saturating_add(dropped);
        }
        events.into_iter().for_each(|event| state.push(Arc::new(event)));
        if !state.begun {
            state.begun = true;
            state.history = state.next;
        }
    }

    /// Requests that wait for an approval, as of the newest look.
    pub(crate) fn waiting(&self) -> usize {
        self.state.lock().waiting
    }

    /// Takes the times of the alerts that are known.
    pub(super) fn alerted(&self, times: Vec<Timestamp>) {
        self.state.lock().alerts = times;
    }

    /// Alerts of the last 24 hours, as of the newest look; of one chain at most 256.
    pub(crate) fn alerts(&self, now: Timestamp) -> usize {
        let from = now.millis().saturating_sub(DAY_MS);
        self.state.lock().alerts.iter().filter(|at| at.millis() >= from).count()
    }

    /// The newest events, the newest first.
    pub(crate) fn latest(&self, most: usize) -> Vec<Arc<LiveEvent>> {
        self.state.lock().events.iter().rev().take(most).cloned().collect()
    }

    /// Whether it is time to read new entries; if so, the caller does.
    pub(super) fn turn(&self, now: Duration) -> bool {
        let mut state = self.state.lock();
        let due = state.looked.is_none_or(|last| now.saturating_sub(last) >= PAUSE);
        if due {
            state.looked = Some(now);
        }
        due
    }

    /// Ends every stream.
    pub(crate) fn close(&self) {
        self.closing.cancel();
    }

    /// The events from this number on, with how many of them are no longer kept.
    fn after(&self, position: u64) -> (u64, Vec<Arc<LiveEvent>>) {
        let state = self.state.lock();
        let first = state.first();
        let skip = usize::try_from(position.saturating_sub(first)).unwrap_or(usize::MAX);
        let events = state.events.iter().skip(skip).cloned().collect();
        (first.saturating_sub(position), events)
    }

    /// Where a follower begins: now, or after this event. `None` before the ledger was read once.
    fn place(&self, cursor: Option<&LiveCursor>) -> Option<Resumption> {
        let state = self.state.lock();
        if !state.begun {
            return None;
        }
        let position = state.next;
        let Some(cursor) = cursor else {
            return Some(Resumption { position, ..Resumption::default() });
        };
        let at = state.events.iter().position(|event| event.place == *cursor);
        let number =
            at.and_then(|at| u64::try_from(at).ok()).map(|at| state.first().saturating_add(at));
        let exact = number.is_some_and(|number| number >= state.history);
        let skip = at.filter(|_| exact).map_or(0, |at| at.saturating_add(1));
        let from = cursor.at.millis().saturating_sub(SKEW_MS);
        let unseen = |event: &&Arc<LiveEvent>| {
            let before = event.place.chain == cursor.chain && event.place.seq <= cursor.seq;
            exact || (event.place.at.millis() >= from && !before)
        };
        let backlog = state.events.iter().skip(skip).filter(unseen).cloned().collect();
        Some(Resumption { position, backlog, gap: at.is_none() })
    }

    /// A place for one more stream of this operator.
    fn enter(self: &Arc<Self>, subject: &str) -> Result<LivePlace, Problem> {
        let mut state = self.state.lock();
        let all: usize = state.streams.values().sum();
        let own = state.streams.entry(subject.to_owned()).or_default();
        if all >= STREAMS_MAX || *own >= OWN_MAX {
            let message = match *own >= OWN_MAX {
                true => format!("you follow {OWN_MAX} live streams already: close one"),
                false => format!("{STREAMS_MAX} live streams are open already: try again later"),
            };
            state.streams.retain(|_, open| *open > 0);
            return Err(Problem::new(Code::LimitExceeded, "live.streams", message).after(AGAIN));
        }
        *own = own.saturating_add(1);
        Ok(LivePlace { feed: Arc::clone(self), subject: subject.to_owned() })
    }
}

/// The place of one stream, free again when it ends.
#[derive(Debug)]
struct LivePlace {
    feed: Arc<Feed>,
    subject: String,
}

impl Drop for LivePlace {
    fn drop(&mut self) {
        let mut state = self.feed.state.lock();
        if let Some(open) = state.streams.get_mut(&self.subject) {
            *open = open.saturating_sub(1);
        }
        state.streams.retain(|_, open| *open > 0);
    }
}

#[cfg(test)]
mod tests;
