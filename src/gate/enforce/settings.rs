//! The gate's settings, and everything it is built from.

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
pub use super::taint::FlowSettings;
use crate::approval::PasskeyScope;
use crate::clock::{Clock, Entropy};
use crate::identity::token::RunTokens;
use crate::ledger::Ledger;
use crate::record::debug_by;
use crate::telemetry::metrics::Metrics;
use crate::tool::toolbox::Toolbox;

/// Bounds of the gate.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Concurrent calls on the road, over all runs, without requests in a dialect.
    pub in_flight_max: usize,
    /// Concurrent requests in a dialect on the road, over all runs.
    pub model_streams_max: usize,
    /// Concurrent open runs.
    pub open_runs_max: usize,
    /// How long a held call waits.
    pub hold: Duration,
    /// Held calls per run; a further one is denied.
    pub pending_max: usize,
    /// Held calls in all; a further one is denied.
    pub pending_all_max: usize,
    /// The calls that passkeys alone may approve.
    pub passkeys: PasskeyScope,
    /// How long an implicit run stays open without a call.
    pub idle: Duration,
    /// How long an explicit run stays open without a call, of its own or of a run below it.
    pub run_idle: Duration,
    /// How long a run may be open if its manifest sets no limit; `None`: without limit.
    pub run_wall: Option<Duration>,
    /// How long a caller waits for its outcome to be recorded before it receives `call.unknown`.
    pub settle_wait: Duration,
    /// The period between two summaries of rejected requests.
    pub reject_period: Duration,
    /// Evaluate policies on blocking threads, so that a slow one does not block other work.
    pub judge_apart: bool,
    /// Facts the sidecar vouches for (`input.context.attested`).
    pub attested: BTreeMap<String, String>,
    /// A file that stops calls while it exists, whatever else is up or down.
    pub switch_file: Option<PathBuf>,
    /// How many trusted keys must have signed a manifest; revoked keys do not count.
    pub manifest_threshold: usize,
    /// Whether the gate becomes ready only after it has passed its self-test.
    pub self_test: bool,
    /// The isolation demanded of agents.
    pub isolation: Isolation,
    /// What the gate does about calls of runs that have read something.
    pub taint: FlowSettings,
    /// Rates, pools and the order of calls.
    pub bounds: Bounds,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            in_flight_max: 512,
            model_streams_max: 1024,
            open_runs_max: 20_000,
            hold: Duration::from_secs(15 * 60),
            pending_max: 10,
            pending_all_max: 1000,
            passkeys: PasskeyScope::T2,
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
            taint: FlowSettings::default(),
            bounds: Bounds::default(),
        }
    }
}

/// Everything the gate is built from: [`Road::new`](super::Road::new) takes it, and nothing is
/// added later.
pub struct Parts {
    /// The gate's settings.
    pub settings: Settings,
    /// The ledger.
    pub ledger: Ledger,
    /// The tools.
    pub toolbox: Toolbox,
    /// The configured agents.
    pub agents: Agents,
    /// Issues and hashes run tokens.
    pub tokens: Arc<RunTokens>,
    /// The clock; tests replace it.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness; tests replace it.
    pub entropy: Arc<dyn Entropy>,
    /// The metrics to update.
    pub metrics: Arc<Metrics>,
    /// The components that check signatures.
    pub signers: Signers,
    /// The operators' channels to the gate.
    pub commands: Commands,
    /// The recordings that runs are answered from.
    pub replaying: Replaying,
}

debug_by!(Parts);
