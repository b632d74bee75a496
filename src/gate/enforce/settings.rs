//! What the gate is made with: its bounds, and everything it works with.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::agents::Agents;
use super::budget::Bounds;
use super::control::Commands;
use super::holds::Signers;
use super::posture::Isolation;
use super::replaying::Replaying;
use crate::clock::{Clock, Entropy};
use crate::identity::token::RunTokens;
use crate::ledger::Ledger;
use crate::telemetry::metrics::Metrics;
use crate::tool::toolbox::Toolbox;

/// Bounds of the gate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Calls on the road at the same time, all runs together.
    pub in_flight_max: usize,
    /// Open runs.
    pub open_runs_max: usize,
    /// How long a held call waits.
    pub hold: Duration,
    /// Held calls of one run; the next one is denied.
    pub pending_max: usize,
    /// Held calls in all; the next one is denied.
    pub pending_all_max: usize,
    /// How long an implicit run stays open without a call.
    pub idle: Duration,
    /// How long a run that was opened by name stays open without a call, of its own or of a run below it.
    pub run_idle: Duration,
    /// How long a run may be open whose manifest says nothing of it; none: without end.
    pub run_wall: Option<Duration>,
    /// How long a caller waits for an outcome to be on the books before it is told `call.unknown`.
    pub settle_wait: Duration,
    /// Between two summaries of rejected requests.
    pub reject_period: Duration,
    /// Evaluate policies apart, so that a slow one does not hold up its neighbours.
    pub judge_apart: bool,
    /// Facts the sidecar vouches for (`input.context.attested`).
    pub attested: BTreeMap<String, String>,
    /// A file that stops calls while it is there, whatever else is up or down.
    pub switch_file: Option<PathBuf>,
    /// Trusted keys that must have signed a manifest; of those that are not revoked, too.
    pub manifest_threshold: usize,
    /// Whether the gate is not ready before it has passed its own test.
    pub self_test: bool,
    /// What is demanded of the place where agents run.
    pub isolation: Isolation,
    /// Rates, pools and turns.
    pub bounds: Bounds,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            in_flight_max: 512,
            open_runs_max: 20_000,
            hold: Duration::from_secs(15 * 60),
            pending_max: 10,
            pending_all_max: 1000,
            idle: Duration::from_secs(15 * 60),
            run_idle: Duration::from_secs(3600),
            run_wall: None,
            settle_wait: Duration::from_secs(4),
            reject_period: Duration::from_secs(10),
            judge_apart: true,
            attested: BTreeMap::new(),
            switch_file: None,
            manifest_threshold: 1,
            self_test: false,
            isolation: Isolation::default(),
            bounds: Bounds::default(),
        }
    }
}

/// Everything the gate is made of: [`Road::new`](super::Road::new) takes it, and nothing is added later.
pub struct Parts {
    /// Bounds of the gate.
    pub settings: Settings,
    /// The ledger.
    pub ledger: Ledger,
    /// The tools.
    pub toolbox: Toolbox,
    /// The agents.
    pub agents: Agents,
    /// Run tokens.
    pub tokens: Arc<RunTokens>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
    /// Where to count.
    pub metrics: Arc<Metrics>,
    /// Whose signatures count.
    pub signers: Signers,
    /// How operators reach the gate.
    pub commands: Commands,
    /// Recordings that runs are answered from.
    pub replaying: Replaying,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").finish_non_exhaustive()
    }
}
