//! Puts the results of the threads back into the order of the ledger.

use std::collections::BTreeMap;
use std::io::{Error, Write};

use parking_lot::{Condvar, Mutex};

use super::judged::JudgedDecision;
use super::tally::BacktestTally;

/// Per thread: how many finished batches may wait for an earlier one.
const AHEAD: u64 = 8;

/// The place where the threads deliver their batches.
pub(super) struct Collected<'a> {
    state: Mutex<LineState<'a>>,
    moved: Condvar,
    ahead: u64,
}

struct LineState<'a> {
    next: u64,
    early: BTreeMap<u64, Vec<JudgedDecision>>,
    tally: BacktestTally,
    list: &'a mut (dyn Write + Send),
    failed: Option<Error>,
}

impl<'a> Collected<'a> {
    pub(super) fn new(jobs: usize, list: &'a mut (dyn Write + Send)) -> Self {
        let state = LineState {
            next: 0,
            early: BTreeMap::new(),
            tally: BacktestTally::default(),
            list,
            failed: None,
        };
        let ahead = u64::try_from(jobs).unwrap_or(1).saturating_mul(AHEAD);
        Self { state: Mutex::new(state), moved: Condvar::new(), ahead }
    }

    /// Delivers one batch; waits while too many batches wait for an earlier one.
    pub(super) fn deliver(&self, number: u64, judged: Vec<JudgedDecision>) {
        let mut state = self.state.lock();
        // Threads take batches in order, so the thread with the next batch never waits here.
        while number > state.next.saturating_add(self.ahead) {
            self.moved.wait(&mut state);
        }
        state.early.insert(number, judged);
        let mut next = state.next;
        while let Some(judged) = state.early.remove(&next) {
            state.count(judged);
            next = next.saturating_add(1);
        }
        state.next = next;
        drop(state);
        self.moved.notify_all();
    }

    /// The counts, once all batches are delivered.
    ///
    /// # Errors
    /// The list could not be written.
    pub(super) fn end(self) -> Result<BacktestTally, Error> {
        let LineState { tally, list, failed, .. } = self.state.into_inner();
        failed.map_or_else(|| list.flush(), Err)?;
        Ok(tally)
    }
}

impl LineState<'_> {
    fn count(&mut self, judged: Vec<JudgedDecision>) {
        for one in judged {
            let Some(line) = self.tally.take(one) else { continue };
            if self.failed.is_none() {
                self.failed = self.list.write_all(&line).err();
            }
        }
    }
}
