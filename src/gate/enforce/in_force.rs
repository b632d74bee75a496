//! The rules that decisions use, and the two events that replace them: the activation of a policy,
//! and a change of the whole configuration.

use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, watch};

use super::agents::Agents;
use super::amend::Basis;
use super::control::Stops;
use super::evaluation::EvaluationSlots;
use crate::control::Target;
use crate::domain::time::Timestamp;
use crate::identity::callers::ManagedConfig;
use crate::ledger::drafts::DraftWithPayloads;
use crate::policy::PolicyEngine;
use crate::record::chain::PolicyActivated;
use crate::record::debug_by;
use crate::record::{Draft, TaggedDigest, Text};
use crate::tool::toolbox::Toolbox;

/// A policy bundle and its signatures.
#[derive(Clone)]
pub struct Policy {
    /// The engine that evaluates the bundle.
    pub engine: Arc<dyn PolicyEngine>,
    /// The name of the bundle.
    pub name: String,
    /// The version of the bundle.
    pub version: String,
    /// Fingerprints of the keys that signed it.
    pub signers: Vec<String>,
    /// How many of these keys must be trusted for the policy to decide.
    pub threshold: usize,
}

debug_by!(Policy: name, version);

impl Policy {
    /// A policy that needs no signature.
    pub fn unsigned(engine: Arc<dyn PolicyEngine>, name: &str, version: &str) -> Self {
        let (name, version) = (name.to_owned(), version.to_owned());
        Self { engine, name, version, signers: Vec::new(), threshold: 0 }
    }

    /// The `policy.activated` entry.
    pub(super) fn activated(&self, basis: Option<Basis>) -> DraftWithPayloads {
        let (kind, base, approvals) = match basis {
            Some(Basis { kind, base, approvals }) => (Some(kind), base, Some(approvals.into())),
            None => (None, None, None),
        };
        let activated = PolicyActivated {
            approvals,
            base: base.map(TaggedDigest),
            basis: kind,
            layers: crate::record::decided::layers(self.engine.layers()),
            name: Text::clip(&self.name, 128),
            version: Text::clip(&self.version, 64),
        };
        let policy = Some(self.engine.digest());
        DraftWithPayloads::bare(Draft { policy, ..Draft::of(activated) })
    }

    /// Whether the bundle has too few signatures without this key.
    pub(super) fn falls_with(&self, target: &Target) -> bool {
        let Target::Key(key) = target else { return false };
        let left = self.signers.iter().filter(|signer| *signer != key).count();
        self.signers.contains(key) && left < self.threshold
    }

    /// Whether operators have stopped so many of the bundle's keys that too few remain.
    pub(super) fn has_fallen(&self, stops: &Stops, now: Timestamp) -> bool {
        let trusted = |key: &&String| !stops.has_key(key, now);
        self.threshold > 0 && self.signers.iter().filter(trusted).count() < self.threshold
    }
}

/// The rules of a decision. A call keeps the toolbox that prepared it.
#[derive(Clone)]
pub(super) struct Rules {
    /// `None` before the first activation; the gate decides nothing then.
    pub policy: Option<Policy>,
    pub toolbox: Arc<Toolbox>,
    pub agents: Agents,
}

/// The rules in force, and the order between decisions and changes of the rules.
pub(super) struct InForce {
    rules: ArcSwap<Rules>,
    /// Read-locked while a decision is made and queued, write-locked while rules are replaced. A
    /// decision therefore precedes the entries of a change in the ledger if and only if it used the
    /// old rules.
    order: RwLock<()>,
    /// Counts toolbox changes that agents can see.
    shown: watch::Sender<u64>,
    pub evaluation: EvaluationSlots,
}

impl InForce {
    /// Starts without a policy.
    pub fn new(toolbox: Toolbox, agents: Agents) -> Self {
        let rules = Rules { policy: None, toolbox: Arc::new(toolbox), agents };
        Self {
            rules: ArcSwap::from_pointee(rules),
            order: RwLock::new(()),
            shown: watch::Sender::new(0),
            evaluation: EvaluationSlots::new(),
        }
    }

    /// A consistent snapshot of all rules.
    pub fn now(&self) -> Arc<Rules> {
        self.rules.load_full()
    }

    pub fn toolbox(&self) -> Arc<Toolbox> {
        Arc::clone(&self.rules.load().toolbox)
    }

    pub fn engine(&self) -> Option<Arc<dyn PolicyEngine>> {
        self.rules.load().policy.as_ref().map(|policy| Arc::clone(&policy.engine))
    }

    /// The loop that the gate runs for the agent of this name, if it runs one.
    pub fn managed(&self, agent: &str) -> Option<Arc<ManagedConfig>> {
        self.rules.load().agents.managed(agent)
    }

    /// How many agents share the gate's capacity.
    pub fn agents(&self) -> usize {
        self.rules.load().agents.count()
    }

    /// Blocks replacements of the rules while the guard is held.
    pub async fn deciding(&self) -> RwLockReadGuard<'_, ()> {
        self.order.read().await
    }

    /// Waits for the decisions in progress, and blocks new ones while the guard is held.
    pub async fn replacing(&self) -> RwLockWriteGuard<'_, ()> {
        self.order.write().await
    }

    /// Replaces the rules; `order` is the guard of [`Self::replacing`].
    pub fn replace(&self, _order: &RwLockWriteGuard<'_, ()>, rules: Rules) {
        let new = rules.policy.as_ref().map(|policy| &policy.engine);
        let old = self.engine();
        // The evaluation time of a new engine is unknown.
        if new.is_some_and(|new| old.is_none_or(|old| !Arc::ptr_eq(new, &old))) {
            self.evaluation.forget();
        }
        self.rules.store(Arc::new(rules));
    }

    /// Notifies agents that their list of tools may have changed.
    pub fn show(&self) {
        self.shown.send_modify(|version| *version = version.saturating_add(1));
    }

    /// Counts up whenever the tools that agents see may have changed.
    pub fn shown(&self) -> watch::Receiver<u64> {
        self.shown.subscribe()
    }
}
