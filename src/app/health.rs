//! The gate's own health in its ledger: each change of readiness after the first, with its reasons. And that of its
//! tools: alerts about trust that falls.

use std::sync::{Arc, Weak};

use super::running::{DRAINING, Running};
use crate::ledger::drafts::DraftWithPayloads;
use crate::record::chain::HealthChanged;
use crate::record::{Draft, Text};
use crate::serve::Readiness;

/// Reasons of one entry, and bytes of each.
const REASONS_MAX: usize = 16;
const REASON_MAX: usize = 256;

/// Writes `health.changed`, and alerts about trust, until the gate is asked to stop. A change that the ledger itself caused
/// is recorded as soon as the ledger works again: its entry is later than the change.
pub(super) fn follow(running: &Arc<Running>) {
    let watching = watch(Arc::downgrade(running), running.readiness.subscribe());
    // WHY not the stop of the gate: that comes once these have ended.
    let stop = running.stop_following.clone();
    running.following.spawn(async move {
        let _stopped = stop.run_until_cancelled(watching).await;
    });
    let (ledger, stop) = (running.ledger.clone(), running.stop_following.clone());
    running.following.spawn(async move {
        let _stopped = stop.run_until_cancelled(ledger.watch_trust()).await;
    });
}

fn written(now: &Readiness) -> DraftWithPayloads {
    let reasons = now.reasons.iter().take(REASONS_MAX);
    let reasons = reasons.map(|one| Text::clip(one, REASON_MAX)).collect();
    DraftWithPayloads::bare(Draft::of(HealthChanged { ready: now.ready, reasons }))
}

async fn watch(running: Weak<Running>, mut readiness: tokio::sync::watch::Receiver<Readiness>) {
    // The start's own entry already records the first time that it becomes ready.
    if readiness.wait_for(|now| now.ready).await.is_err() {
        return;
    }
    let mut before = true;
    loop {
        let changed = readiness.wait_for(|now| now.ready != before).await;
        // The end is no change of health: `writer.stopped` follows.
        let changed = changed.ok().filter(|now| now.reasons != [DRAINING]);
        let Some(entry) = changed.map(|now| written(&now)) else { return };
        before = !before;
        let Some(ledger) = running.upgrade().map(|running| running.ledger.clone()) else { return };
        if ledger.owe(entry).await.is_err() {
            return;
        }
    }
}

/// Publishes the readiness, and logs it if it is another one.
pub(super) fn publish(readiness: &tokio::sync::watch::Sender<Readiness>, next: Readiness) {
    readiness.send_if_modified(|now| {
        let changed = *now != next;
        if changed {
            let Readiness { ready, reasons, notes, .. } = &next;
            tracing::info!(ready, ?reasons, ?notes, "readiness");
            *now = next;
        }
        changed
    });
}
