//! What became of an order: what every gate reports, and which gates did not report in time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{OrderReport, Orders, Presence};
use crate::domain::json::Json;
use crate::ledger::store::StoreError;

/// Between two looks at the reports.
const LOOK: Duration = Duration::from_millis(25);

/// The member of [`Presence::state`] that says that a gate ended in order: nothing runs there, and no
/// report will come.
pub const ENDED: &str = "ended";

/// What is known about an order when the time to wait for it is over.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderProgress {
    /// What gates did, by origin.
    pub reports: Vec<OrderReport>,
    /// Gates that showed themselves, did not end in order, and have not reported: whether they still
    /// run calls is not known.
    pub unreachable: Vec<Presence>,
}

/// Waits until every gate has reported about a row, or `most` is over. A gate counts from its first
/// sign of life until it ends in order, however long it has been silent: silence is no proof that
/// nothing runs there. One whose place another process took over reports with that process.
///
/// # Errors
/// The list cannot be read: nothing is known.
pub async fn wait(
    orders: &dyn Orders,
    seq: u64,
    most: Duration,
) -> Result<OrderProgress, StoreError> {
    let patience = Patience::of(most);
    loop {
        // WHY: in this order: a gate that shows that it has obeyed has reported before.
        let shown = orders.shown().await?;
        let reports = orders.reports(seq).await?;
        let heard: BTreeSet<&str> = reports.iter().map(|report| report.origin.as_str()).collect();
        let silent = shown.into_iter().filter(|gate| {
            let ended = gate.state.get(ENDED).and_then(Json::as_bool).unwrap_or(false);
            // One that began after the order read it as it began: it had nothing to stop.
            !ended && gate.seq < seq && !heard.contains(gate.origin.as_str())
        });
        let unreachable: Vec<Presence> = silent.collect();
        if unreachable.is_empty() || patience.is_over() {
            return Ok(OrderProgress { reports, unreachable });
        }
        patience.pause().await;
    }
}

/// How long somebody looks at the list again and again for what the gates say.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    end: tokio::time::Instant,
}

impl Patience {
    /// So long from now.
    #[must_use]
    pub fn of(most: Duration) -> Self {
        Self { end: tokio::time::Instant::now() + most }
    }

    /// Whether the last look was the last.
    #[must_use]
    pub fn is_over(&self) -> bool {
        tokio::time::Instant::now() >= self.end
    }

    /// Waits until the next look.
    pub async fn pause(&self) {
        tokio::time::sleep(LOOK).await;
    }
}
