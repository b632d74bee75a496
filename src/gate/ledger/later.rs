//! Outcomes of read-only T0 tools, which may wait for the next batch.
//!
//! A waiting outcome starts no commit of its own. It goes first into the next batch, whatever
//! started that batch, and after 50 ms it starts one itself. So no intent becomes durable before
//! every outcome that was promised earlier, and a crash loses at most 64 outcomes: the next writer
//! closes those calls as unknown.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::item::{Claim, Completion, Item};
use super::permit::{Finished, Pledged, Settled};
use super::{Error, Ledger, LedgerStatus, drafts};
use crate::domain::outcome::Outcome;

/// Outcomes that may wait at the same time.
pub(super) const OUTSTANDING: usize = 64;
/// How long the first of them waits.
const PATIENCE: Duration = Duration::from_millis(50);

/// The queues of the sequencer.
pub(super) struct Lanes {
    pub intents: mpsc::Receiver<Item>,
    pub due: mpsc::Receiver<Item>,
    later: mpsc::Receiver<Item>,
    /// The outcome that has waited longest, and its deadline.
    first: Option<(Item, Instant)>,
}

impl Lanes {
    pub fn new(
        intents: mpsc::Receiver<Item>,
        due: mpsc::Receiver<Item>,
        later: mpsc::Receiver<Item>,
    ) -> Self {
        Self { intents, due, later, first: None }
    }

    /// Returns when there is work: urgent items, or outcomes that have waited long enough.
    pub async fn next(&mut self, work: &mut Vec<Item>) {
        loop {
            let due = self.first.as_ref().map(|(_, due)| *due);
            let waited = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                Some(item) = self.due.recv() => return work.push(item),
                Some(item) = self.intents.recv() => return work.push(item),
                Some(item) = self.later.recv(), if due.is_none() => {
                    self.first = Some((item, Instant::now() + PATIENCE));
                }
                () = waited => return,
            }
        }
    }

    /// Takes every waiting outcome; they go first.
    pub fn take_waiting(&mut self, work: &mut Vec<Item>) {
        let mut waiting: Vec<Item> = self.first.take().map(|(item, _)| item).into_iter().collect();
        while let Ok(item) = self.later.try_recv() {
            waiting.push(item);
        }
        waiting.append(work);
        *work = waiting;
    }

    /// Closes the queues, and refuses what they hold.
    pub fn close(&mut self) {
        self.intents.close();
        while let Ok(item) = self.intents.try_recv() {
            item.done.refuse(Error::Unavailable("the ledger is closed".into()));
        }
        self.later.close();
        self.due.close();
        let mut waiting = Vec::new();
        self.take_waiting(&mut waiting);
        while let Ok(item) = self.due.try_recv() {
            waiting.push(item);
        }
        for item in waiting {
            item.done.refuse(Error::Unknown);
        }
    }
}

/// A promised outcome: it is recorded within 50 ms, unless the ledger is failing.
#[derive(Debug)]
#[must_use = "the run is not quiet before its outcomes are recorded"]
pub struct Promised(oneshot::Receiver<Result<Settled, Error>>);

impl Promised {
    /// Waits until the outcome is recorded.
    ///
    /// # Errors
    /// The writer ended first. The next writer closes the call as unknown.
    pub async fn kept(self) -> Result<Settled, Error> {
        self.0.await.unwrap_or(Err(Error::Unknown))
    }
}

impl Ledger {
    /// Queues an outcome for the next batch; the caller may release the result before the outcome
    /// is written.
    ///
    /// # Errors
    /// Returns the outcome, which the caller must settle: the tool is not a read-only T0 tool, the
    /// call has no result, the result is too large, too many outcomes wait already, or the ledger
    /// is failing.
    pub fn promise(&self, finished: Finished) -> Result<(Pledged, Promised), Box<Finished>> {
        let fits = match &finished.ended().outcome {
            Outcome::Completed { result, .. } => result.len() <= drafts::INLINE_MAX,
            Outcome::Failed { .. } | Outcome::Unknown { .. } | Outcome::Cancelled { .. } => false,
        };
        if !finished.inert() || !fits || *self.status.borrow() != LedgerStatus::Ready {
            return Err(Box::new(finished));
        }
        let Ok(place) = self.later.try_reserve() else { return Err(Box::new(finished)) };
        let mut written = drafts::ended(&*self.shared.entropy, &finished);
        if self.confine(&mut written).is_err() {
            return Err(Box::new(finished));
        }
        // Sealed payloads are a little larger than their content.
        if written.payloads.iter().any(|payload| payload.body.len() > drafts::INLINE_MAX) {
            return Err(Box::new(finished));
        }
        let queued = Pledged::mint(&finished);
        let (reply, answer) = oneshot::channel();
        let done = Completion::Finished { finished: Box::new(finished), reply };
        place.send(Item { written, claim: Claim::default(), done });
        Ok((queued, Promised(answer)))
    }
}
