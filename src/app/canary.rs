//! When the gate tests itself: before it is ready, every hour after, and soon again after a failure.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::PAUSE;
use super::checked::Checked;
use super::running::Running;
use crate::enforce::{Canary, Road};

/// The longest pause between two tries until one succeeds.
const SOON: Duration = Duration::from_secs(10);

/// Sends canaries until the gate stops listening.
pub(super) fn follow(checked: &Arc<Checked>, running: &Arc<Running>, road: &Arc<Road>) {
    let watching = watch(Arc::clone(checked), Arc::downgrade(running), Arc::clone(road));
    let stop_following = running.stop_following.clone();
    running.following.spawn(async move {
        let _stopped = stop_following.run_until_cancelled(watching).await;
    });
}

async fn watch(checked: Arc<Checked>, running: Weak<Running>, road: Arc<Road>) {
    let settings = checked.config.self_test;
    let every = Duration::from_secs(settings.every_seconds);
    let (mut pause, mut soon) =
        if settings.at_start { (Duration::ZERO, PAUSE) } else { (every, PAUSE) };
    loop {
        tokio::time::sleep(pause).await;
        let tested = road.test_enforcement(checked.live().callers.manifests()).await;
        let Some(running) = running.upgrade() else { return };
        running.update_readiness();
        pause = if tested == Canary::Passed {
            soon = PAUSE;
            every
        } else {
            soon = soon.saturating_mul(2).min(SOON);
            soon
        };
    }
}
