//! What operators have stopped: asked at every decision, and obeyed for calls on their way.
//!
//! Orders come from the numbered list (`watch`) and from one local file (`file`) that works with everything
//! else down. `Switches` is what is stopped now; `obey` is what an order does to calls on the road.

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
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::id::ToolName;
use crate::identity::manifest::Manifest;
use crate::ledger::Ledger;
use crate::telemetry::metrics::Metrics;
use crate::tool::Cancel;
use file::SwitchFile;
pub use glass::Breaker;
use glass::Glass;
use loosen::Release;
pub use loosen::Releaser;
use switches::OrderSubject;
pub use switches::Stops;
use watch::Progress;
pub use watch::{Backlog, Follow, StateReporter};

mod file;
mod glass;
mod known;
mod loosen;
mod obey;
mod switches;
mod watch;

/// How old the last look at the list may be before T2 and T3 calls are not taken.
const FRESH: Duration = Duration::from_secs(5);
/// How old it may be before the gate says that it is not ready: who reads the list reads the ledger's storage.
const HEARD: Duration = Duration::from_millis(1500);

/// How operators reach this gate, and what they may do here.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    /// What they have stopped: shared with those who check signatures.
    pub stops: Arc<Stops>,
    /// The list of orders that is followed, if one is.
    pub follow: Option<Follow>,
    /// Who checks break-glass statements. Without it nothing opens.
    pub breaker: Option<Arc<dyn Breaker>>,
    /// Who decides about amendments of the policy, where they are required.
    pub amender: Option<Arc<dyn Amender>>,
}

/// What operators want of this gate, and what it knows of itself.
pub struct Control {
    commands: Commands,
    pub(super) glass: Glass,
    release: Release,
    file: Option<SwitchFile>,
    /// When the last look at the list that was answered began, monotonic. None before the first.
    read: Mutex<Option<Duration>>,
    progress: Mutex<Progress>,
    wake: Notify,
    /// Whether the gate passes its own test.
    pub(super) canary: CanaryTrust,
    /// What agents found of ways past the gate.
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
    /// No order was read yet.
    pub(super) fn new(parts: &Parts, tasks: &Tasks) -> Self {
        let settings = &parts.settings;
        Self {
            commands: parts.commands.clone(),
            glass: Glass::new(parts),
            release: Release::default(),
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

    /// How long the list was not read, if that is too long. A gate without a list never is.
    pub(super) fn stale(&self) -> Option<Duration> {
        self.unread().filter(|age| *age > FRESH)
    }

    /// How long the list was not read. A gate that follows none, or has not read it once, reads none.
    fn unread(&self) -> Option<Duration> {
        let read = (*self.read.lock())?;
        Some(self.clock.monotonic().saturating_sub(read))
    }

    /// Whether an order takes trust away from this key: of an approver, of who signs manifests or bundles.
    #[must_use]
    pub fn is_key_stopped(&self, key: &str) -> bool {
        self.commands.stops.has_key(key, self.clock.now())
    }

    /// What keeps the gate from doing all its work, because of its operators.
    #[must_use]
    pub fn reasons(&self) -> Vec<String> {
        let silent = self.unread().filter(|age| *age > HEARD);
        let told = silent.map(|age| {
            let stale = if age > FRESH { ": T2 and T3 calls are not taken" } else { "" };
            format!("control: operators' orders were not read for {} s{stale}", age.as_secs())
        });
        told.into_iter().collect()
    }

    /// What keeps the gate from being ready, because of its own test.
    #[must_use]
    pub fn self_test_reasons(&self) -> Vec<String> {
        self.canary.reasons()
    }

    /// What operators have stopped, for people.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.commands.stops.read().notes(self.clock.now());
        let file = self.file.as_ref();
        notes.extend(file.and_then(|file| file.note(self.clock.monotonic())));
        notes.extend(self.glass.notes());
        notes
    }
}

fn refusal(detail: &str, message: String, rule: &str) -> LayerReason {
    let (detail, rule) = (format!("control.{detail}"), format!("control.{rule}"));
    LayerReason { code: Code::PolicyDenied, detail, message, rule }
}

impl Road {
    /// Everything operators have against one call, just now.
    pub(super) fn stopped(&self, run: &Run, tool: &ToolName, cancel: &Cancel) -> Vec<LayerReason> {
        let mut against = Vec::new();
        if cancel.is_ordered() {
            let message = "an operator stopped the call".to_owned();
            against.push(refusal("killed", message, "order"));
        }
        against.extend(self.standing(&OrderSubject::call(run, tool)));
        if !against.is_empty() {
            cancel.deny();
        }
        against
    }

    /// Whether an order stands against this call.
    pub(super) fn is_stopped(&self, run: &Run, tool: &ToolName) -> bool {
        self.standing(&OrderSubject::call(run, tool)).is_some()
    }

    /// What operators have against a new run under this manifest, below this parent.
    pub(super) fn stopped_opening(
        &self,
        manifest: &Manifest,
        parent: Option<&Run>,
    ) -> Option<LayerReason> {
        self.standing(&OrderSubject::opening(manifest, parent))
    }

    fn standing(&self, about: &OrderSubject<'_>) -> Option<LayerReason> {
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
