//! What operators have stopped: asked at every decision, and obeyed for calls on their way.
//!
//! Orders come from the numbered list (`watch`) and from one local file (`file`) that works with everything
//! else down. `Switches` is what is stopped now; `obey` is what an order does to calls on the road.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use super::Road;
use super::amend::Amender;
use super::run::Run;
use crate::control::Target;
use crate::domain::code::Code;
use crate::domain::decision::Reason;
use crate::domain::id::ToolName;
use crate::domain::time::Timestamp;
use crate::identity::manifest::Manifest;
use crate::tool::Cancel;
use file::SwitchFile;
pub use glass::Breaker;
use glass::Glass;
use loosen::Release;
pub use loosen::Releaser;
use switches::{About, Switches};
use watch::Progress;
pub use watch::{Follow, Told};

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

/// What this gate knows of its operators' will.
pub(super) struct Control {
    switches: RwLock<Switches>,
    glass: Glass,
    release: Release,
    file: Option<SwitchFile>,
    follow: OnceLock<Follow>,
    /// When the last look at the list that was answered began, monotonic.
    read: Mutex<Option<Duration>>,
    progress: Mutex<Progress>,
    wake: Notify,
    /// Who signed the bundle in force, and how many of them must have.
    bundle: RwLock<(Vec<String>, usize)>,
    /// Who decides about amendments of the policy.
    pub(super) amender: OnceLock<Arc<dyn Amender>>,
}

impl Control {
    pub fn new(switch_file: Option<PathBuf>) -> Self {
        Self {
            switches: RwLock::default(),
            glass: Glass::default(),
            release: Release::default(),
            file: switch_file.map(SwitchFile::at),
            follow: OnceLock::new(),
            read: Mutex::new(None),
            progress: Mutex::default(),
            wake: Notify::new(),
            bundle: RwLock::default(),
            amender: OnceLock::new(),
        }
    }

    /// Whether the bundle in force has too few signatures without this key.
    fn bundle_falls_with(&self, target: &Target) -> bool {
        let Target::Key(key) = target else { return false };
        let bundle = self.bundle.read();
        let (signers, needed) = &*bundle;
        signers.contains(key) && signers.iter().filter(|signer| *signer != key).count() < *needed
    }

    /// Whether too few of those who signed the bundle in force are still trusted.
    fn bundle_fell(&self, now: Timestamp) -> bool {
        let bundle = self.bundle.read();
        let (signers, needed) = &*bundle;
        let switches = self.switches.read();
        *needed > 0 && signers.iter().filter(|key| !switches.key(key, now)).count() < *needed
    }

    /// How long the list was not read, if that is too long. A gate without a list never is.
    pub(super) fn stale(&self, now: Duration) -> Option<Duration> {
        self.unread(now).filter(|age| *age > FRESH)
    }

    /// How long the list was not read. A gate without a list reads none.
    fn unread(&self, now: Duration) -> Option<Duration> {
        self.follow.get()?;
        let read = (*self.read.lock()).unwrap_or_default();
        Some(now.saturating_sub(read))
    }
}

fn refusal(detail: &str, message: String, rule: &str) -> Reason {
    let (detail, rule) = (format!("control.{detail}"), format!("control.{rule}"));
    Reason { code: Code::PolicyDenied, detail, message, rule }
}

impl Road {
    /// Everything operators have against one call, just now.
    pub(super) fn stopped(&self, run: &Run, tool: &ToolName, cancel: &Cancel) -> Vec<Reason> {
        let mut against = Vec::new();
        if cancel.is_ordered() {
            let message = "an operator stopped the call".to_owned();
            against.push(refusal("killed", message, "order"));
        }
        against.extend(self.standing(&About::call(run, tool)));
        if !against.is_empty() {
            cancel.deny();
        }
        against
    }

    /// Whether an order stands against this call.
    pub(super) fn is_stopped(&self, run: &Run, tool: &ToolName) -> bool {
        self.standing(&About::call(run, tool)).is_some()
    }

    /// What operators have against a new run under this manifest, below this parent.
    pub(super) fn stopped_opening(
        &self,
        manifest: &Manifest,
        parent: Option<&Run>,
    ) -> Option<Reason> {
        self.standing(&About::opening(manifest, parent))
    }

    fn standing(&self, about: &About<'_>) -> Option<Reason> {
        let needed = self.settings.manifest_threshold;
        let found = self.control.switches.read().against(about, needed, self.clock.now());
        if let Some(stop) = found {
            return Some(refusal(stop.detail, stop.message(), stop.kind));
        }
        if self.control.bundle_fell(self.clock.now()) {
            let message = "an operator has revoked a key that signed the policy in force";
            return Some(refusal("revoked", message.to_owned(), "key"));
        }
        let file = self.control.file.as_ref()?;
        let why = file.against(about, self.clock.monotonic())?;
        Some(refusal("switch_file", why, "switch_file"))
    }

    /// Notes who signed the bundle in force, and how many signatures it needs.
    pub fn bundle_signed_by(&self, signers: Vec<String>, needed: usize) {
        *self.control.bundle.write() = (signers, needed);
    }

    /// Whether an order takes trust away from this key: of an approver, of who signs manifests or bundles.
    #[must_use]
    pub fn is_key_stopped(&self, key: &str) -> bool {
        self.control.switches.read().key(key, self.clock.now())
    }

    /// What keeps the gate from doing all its work, because of its operators.
    #[must_use]
    pub fn control_reasons(&self) -> Vec<String> {
        let silent = self.control.unread(self.clock.monotonic()).filter(|age| *age > HEARD);
        let told = silent.map(|age| {
            let stale = if age > FRESH { ": T2 and T3 calls are not taken" } else { "" };
            format!("control: operators' orders were not read for {} s{stale}", age.as_secs())
        });
        told.into_iter().collect()
    }

    /// What operators have stopped, for people.
    #[must_use]
    pub fn control_notes(&self) -> Vec<String> {
        let mut notes = self.control.switches.read().notes(self.clock.now());
        let file = self.control.file.as_ref();
        notes.extend(file.and_then(|file| file.note(self.clock.monotonic())));
        notes.extend(self.glass_notes());
        notes
    }
}
