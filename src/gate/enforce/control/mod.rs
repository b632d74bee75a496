//! Operators' orders at the gate: consulted at every decision, and carried out on calls already on
//! the road.
//!
//! Orders come from the numbered list (`watch`) and from one local file (`file`), which works even
//! if everything else is down. `Switches` holds the current stops; `obey` applies an order to calls
//! on the road.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::amend::Amender;
use super::canary::CanaryTrust;
use super::posture::Postures;
use super::run::Run;
use super::tasks::Tasks;
use super::{Parts, Road};
use crate::clock::Clock;
use crate::domain::call::ToolCall;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::json::Json;
use crate::domain::tier::Face;
use crate::identity::manifest::Manifest;
use crate::judge::Prepared;
use crate::ledger::Ledger;
use crate::telemetry::metrics::Metrics;
use crate::tool::Cancel;
use break_glass::BreakGlassOrders;
pub use break_glass::Breaker;
use exceptions::FindingExceptions;
use file::SwitchFile;
use loosen::Release;
pub use loosen::Releaser;
use switches::OrderSubject;
pub use switches::Stops;
use watch::Progress;
pub use watch::{Backlog, Follow, StateReporter};

mod apply;
mod break_glass;
mod exceptions;
mod file;
mod known;
mod loosen;
mod switches;
mod watch;

/// Maximum age of the last read of the list before T2 and T3 calls are refused.
const FRESH: Duration = Duration::from_secs(5);
/// Maximum age before the gate reports that it is not ready. The list lives in the ledger's
/// storage, so a gate that cannot read it cannot write entries either.
const LIST_AGE_MAX: Duration = Duration::from_millis(1500);

/// The operators' channels to this gate, and the components that act on their orders.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// The current stops; shared with the components that check signatures.
    pub stops: Arc<Stops>,
    /// The list of orders to follow, if there is one.
    pub follow: Option<Follow>,
    /// Checks break-glass statements. Without it nothing opens.
    pub breaker: Option<Arc<dyn Breaker>>,
    /// Decides about amendments of the policy, where they are required.
    pub amender: Option<Arc<dyn Amender>>,
}

/// The operators' orders at this gate, and the gate's self-test and posture.
pub struct Control {
    commands: Commands,
    pub(super) break_glass: BreakGlassOrders,
    release: Release,
    exceptions: FindingExceptions,
    file: Option<SwitchFile>,
    /// When the last successful read of the list began (monotonic). `None` before the first.
    read: Mutex<Option<Duration>>,
    progress: Mutex<Progress>,
    wake: Notify,
    /// The result of the gate's self-test.
    pub(super) canary: CanaryTrust,
    /// The ways past the gate that agents reported.
    pub(super) posture: Postures,
    ledger: Ledger,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    tasks: Tasks,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("commands", &self.commands).finish_non_exhaustive()
    }
}

impl Control {
    /// Starts without any order read.
    pub(super) fn new(parts: &Parts, tasks: &Tasks) -> Self {
        let settings = &parts.settings;
        Self {
            commands: parts.commands.clone(),
            break_glass: BreakGlassOrders::new(parts),
            release: Release::default(),
            exceptions: FindingExceptions::default(),
            file: settings.switch_file.clone().map(SwitchFile::at),
            read: Mutex::new(None),
            progress: Mutex::default(),
            wake: Notify::new(),
            canary: CanaryTrust::new(settings.self_test),
            posture: Postures::new(settings.isolation.clone(), &parts.clock),
            ledger: parts.ledger.clone(),
            clock: Arc::clone(&parts.clock),
            metrics: Arc::clone(&parts.metrics),
            tasks: tasks.clone(),
        }
    }

    /// The age of the last read of the list, if it exceeds `FRESH`. `None` for a gate without a
    /// list.
    pub(super) fn stale(&self) -> Option<Duration> {
        self.unread().filter(|age| *age > FRESH)
    }

    /// The age of the last read of the list. `None` for a gate that follows no list or has not read
    /// it yet.
    fn unread(&self) -> Option<Duration> {
        let read = (*self.read.lock())?;
        Some(self.clock.monotonic().saturating_sub(read))
    }

    /// Whether an order suspends or revokes this key, of an approver or of a signer of manifests or
    /// bundles.
    #[must_use]
    pub fn is_key_stopped(&self, key: &str) -> bool {
        self.commands.stops.has_key(key, self.clock.now())
    }

    /// Why operators' orders keep the gate from doing all its work.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let silent = self.unread().filter(|age| *age > LIST_AGE_MAX);
        let reason = silent.map(|age| {
            let stale = if age > FRESH { ": T2 and T3 calls are refused" } else { "" };
            format!("control: operators' orders were not read for {} s{stale}", age.as_secs())
        });
        reason.into_iter().collect()
    }

    /// Why the self-test keeps the gate from being ready.
    #[must_use]
    pub fn self_test_reasons(&self) -> Vec<String> {
        self.canary.reasons()
    }

    /// The current stops, as the entry lists them.
    fn stops_in_force(&self) -> Vec<Json> {
        let standing = self.commands.stops.read().standing(self.clock.now());
        standing.iter().take(super::budget::TOLD_MAX).map(Json::of).collect()
    }

    /// The current stops, as notes for operators.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.commands.stops.read().notes(self.clock.now());
        let file = self.file.as_ref();
        notes.extend(file.and_then(|file| file.note(self.clock.monotonic())));
        notes.extend(self.break_glass.notes());
        notes.extend(self.exceptions.notes(self.clock.now()));
        notes
    }
}

fn refusal(detail: &str, message: String, rule: &str) -> LayerReason {
    let (detail, rule) = (format!("control.{detail}"), format!("control.{rule}"));
    LayerReason { code: Code::PolicyDenied, detail, message, rule }
}

impl Road {
    /// Every reason for which operators' orders refuse this call now.
    pub(super) fn stopped(
        &self,
        run: &Run,
        prepared: &Prepared,
        cancel: &Cancel,
    ) -> Vec<LayerReason> {
        let mut against = Vec::new();
        if cancel.is_ordered() {
            let message = "an operator stopped the call".to_owned();
            against.push(refusal("killed", message, "order"));
        }
        against.extend(self.stop_reason(&OrderSubject::call(run, prepared)));
        if !against.is_empty() {
            cancel.deny();
        }
        against
    }

    /// Why operators' orders refuse an answer of a recording to this call, which touches nothing.
    pub(super) fn stopped_answer(&self, run: &Run, call: &ToolCall) -> Option<LayerReason> {
        let (tool, face) = (Some(call.tool()), call.face());
        self.stop_reason(&OrderSubject { tool, face, ..OrderSubject::run(run) })
    }

    /// Whether an order stops this call.
    pub(super) fn is_stopped(&self, run: &Run, prepared: &Prepared) -> bool {
        self.stop_reason(&OrderSubject::call(run, prepared)).is_some()
    }

    /// The upstreams of models that this call must not ask, because operators switched them off.
    pub(super) fn off_upstreams(&self, prepared: &Prepared) -> Vec<String> {
        self.control.commands.stops.read().off_upstreams(prepared, self.clock.now())
    }

    /// Why operators' orders refuse a new run under this manifest, below this parent, at this face.
    pub(super) fn stopped_opening(
        &self,
        manifest: &Manifest,
        parent: Option<&Run>,
        face: Option<Face>,
    ) -> Option<LayerReason> {
        self.stop_reason(&OrderSubject::opening(manifest, parent, face))
    }

    fn stop_reason(&self, about: &OrderSubject<'_>) -> Option<LayerReason> {
        let needed = self.settings.manifest_threshold;
        let (stops, now) = (&self.control.commands.stops, self.clock.now());
        let found = stops.read().against(about, needed, now);
        if let Some(stop) = found {
            return Some(refusal(stop.detail, stop.message(), stop.kind));
        }
        let rules = self.in_force.now();
        if rules.policy.as_ref().is_some_and(|policy| policy.has_fallen(stops, now)) {
            let message = "an operator has revoked a key that signed the policy in force";
            return Some(refusal("revoked", message.to_owned(), "key"));
        }
        let file = self.control.file.as_ref()?;
        let why = file.against(about, self.clock.monotonic())?;
        Some(refusal("switch_file", why, "switch_file"))
    }
}
