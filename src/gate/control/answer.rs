//! The result of an order: the reports of all gates, and the gates that did not report in time.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{OrderReport, Orders, Presence};
use crate::domain::json::Json;
use crate::ledger::store::StoreError;

/// Pause between two reads of the reports.
const LOOK: Duration = Duration::from_millis(25);

/// The member of [`Presence::state`] that marks a gate that ended in order: it runs nothing and
/// sends no further report.
pub const ENDED: &str = "ended";

/// What is known about an order once the wait for it is over.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderProgress {
    /// The gates' reports, by origin.
    pub reports: Vec<OrderReport>,
    /// Gates that have been present, did not end in order and have not reported. Whether they still
    /// run calls is unknown.
    pub unreachable: Vec<Presence>,
}

/// Waits until every gate has reported about a row, or `most` has passed. A gate counts from its
/// first presence until it ends in order, even if it has been silent for long: silence does not
/// prove that it runs nothing. If another process took over a gate's slot, the report of that
/// process counts.
///
/// # Errors
/// The list cannot be read, so nothing is known.
pub async fn wait(
    orders: &dyn Orders,
    seq: u64,
    most: Duration,
) -> Result<OrderProgress, StoreError> {
    let patience = Patience::of(most);
    loop {
        // WHY in this order: a gate reports before it shows that it has obeyed.
        let shown = orders.shown().await?;
        let reports = orders.reports(seq).await?;
        let reported: BTreeSet<&str> =
            reports.iter().map(|report| report.origin.as_str()).collect();
        let silent = shown.into_iter().filter(|gate| {
            let ended = gate.state.get(ENDED).and_then(Json::as_bool).unwrap_or(false);
            // A gate that started after the order read it at start, and had nothing to stop.
            !ended && gate.seq < seq && !reported.contains(gate.origin.as_str())
        });
        let unreachable: Vec<Presence> = silent.collect();
        if unreachable.is_empty() || patience.is_over() {
            return Ok(OrderProgress { reports, unreachable });
        }
        patience.pause().await;
    }
}

/// How long a client polls the list for the gates' reports.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    end: tokio::time::Instant,
}

impl Patience {
    /// Starts now and lasts this long.
    pub fn of(most: Duration) -> Self {
        Self { end: tokio::time::Instant::now() + most }
    }

    /// Whether the time is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        tokio::time::Instant::now() >= self.end
    }

    /// Waits until the next poll.
    pub async fn pause(&self) {
        tokio::time::sleep(LOOK).await;
    }
}
