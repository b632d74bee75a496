//! Turns at the held calls of a run: what decides about one call happens one after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::domain::id::CallId;

/// The turn of one held call.
type HoldTurn = tokio::sync::Mutex<()>;

/// The turns at the held calls of one run. WHY one for each call: a turn reads and writes the ledger,
/// and may wait for it. Other calls of the run must not wait with it.
#[derive(Debug, Default)]
pub(super) struct HoldTurns(Mutex<BTreeMap<CallId, Weak<HoldTurn>>>);

impl HoldTurns {
    /// Waits for the turn at this call.
    pub async fn at(&self, call: &CallId) -> OwnedMutexGuard<()> {
        self.of(call).lock_owned().await
    }

    fn of(&self, call: &CallId) -> Arc<HoldTurn> {
        let mut turns = self.0.lock();
        turns.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = turns.get(call).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        turns.insert(call.clone(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_turn_at_one_call_keeps_only_that_call_waiting() {
        let (turns, [a, b]) =
            (HoldTurns::default(), ["a", "b"].map(|id| CallId::parse(id).unwrap()));
        let first = turns.at(&a).await;
        assert!(turns.at(&a).now_or_never().is_none());
        assert!(turns.at(&b).now_or_never().is_some());
        drop(first);
        assert!(turns.at(&a).now_or_never().is_some());
        assert_eq!(turns.0.lock().len(), 1, "turns that are over are forgotten");
    }
}
