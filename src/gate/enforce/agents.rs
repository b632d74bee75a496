//! The configured agents, and replacing the whole configuration at once.

use std::sync::Arc;

use super::answer::Fault;
use super::in_force::{Policy, Rules};
use super::run::Run;
use super::{Road, tools};
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::identity::Caller;
use crate::identity::callers::{Callers, ManagedConfig};
use crate::identity::manifest::Manifest;
use crate::ledger;
use crate::ledger::drafts::DraftWithPayloads;
use crate::tool::toolbox::Toolbox;

/// The configured agents.
#[derive(Clone, Debug, Default)]
pub struct Agents {
    manifests: Arc<[Arc<Manifest>]>,
    callers: Option<Arc<Callers>>,
}

/// A configuration that was checked as a whole and is put in force as a whole.
#[derive(Debug)]
pub struct AgentsUpdate {
    /// The policy bundle. `None` keeps the one in force.
    pub policy: Option<Policy>,
    /// The tools.
    pub toolbox: Toolbox,
    /// The agents. `None` keeps those in force.
    pub agents: Option<Agents>,
}

impl From<&Arc<Callers>> for Agents {
    fn from(callers: &Arc<Callers>) -> Self {
        Self { manifests: callers.manifests().into(), callers: Some(Arc::clone(callers)) }
    }
}

impl Agents {
    /// Agents under these manifests, whose credentials are never taken away.
    pub fn fixed(manifests: impl IntoIterator<Item = Arc<Manifest>>) -> Self {
        Self { manifests: manifests.into_iter().collect(), callers: None }
    }

    /// Their manifests.
    pub fn manifests(&self) -> &[Arc<Manifest>] {
        &self.manifests
    }

    /// The loop that the gate runs for the agent of this name, if it runs one.
    pub(super) fn managed(&self, agent: &str) -> Option<Arc<ManagedConfig>> {
        self.callers.as_ref()?.managed(agent).cloned()
    }

    /// How many agents share the gate's capacity.
    pub(super) fn count(&self) -> usize {
        self.manifests.len().max(1)
    }

    /// Why the configuration refuses a call of an open run: its agent, an agent above it, or the
    /// credential that opened it is no longer configured. If the agent's manifest was merely
    /// replaced, runs bound to the old one continue.
    pub(super) fn against(&self, run: &Run) -> Option<LayerReason> {
        let callers = self.callers.as_ref()?;
        let mut lineage = std::iter::once(run).chain(run.above());
        let removed = lineage
            .find(|run| !self.manifests.iter().any(|manifest| manifest.name == run.manifest.name));
        if let Some(removed) = removed {
            let message = format!("agent `{}` is no longer configured", removed.manifest.name);
            return Some(LayerReason::denied("agents", "agent.removed", message));
        }
        (!callers.still(&run.auth, &run.opener.name)).then(|| {
            let agent = &run.opener.name;
            let message = format!("the caller that opened the run is no longer agent `{agent}`");
            LayerReason::denied("agents", "agent.caller_removed", message)
        })
    }

    /// The caller with the manifest that is in force for its agent now. It may have been identified
    /// just before a reload.
    pub(super) fn current(&self, caller: &Caller) -> Result<Caller, Fault> {
        let Some(callers) = &self.callers else { return Ok(caller.clone()) };
        let name = &caller.manifest.name;
        let manifest = self.manifests.iter().find(|manifest| manifest.name == *name);
        let manifest = manifest.filter(|_| callers.still(&caller.auth, name)).ok_or_else(|| {
            let message = format!("the caller that opens the run is no longer agent `{name}`");
            Fault::new(Code::IdentityMissing, message).detail("identity.unmapped")
        })?;
        Ok(Caller { manifest: Arc::clone(manifest), auth: caller.auth.clone() })
    }
}

impl Road {
    /// Puts policy, tools and agents in force together: every decision uses either all of the old
    /// configuration or all of the new one, and its entry stands before or after the entries of the
    /// change. Those entries are `policy.activated`, `config.changed` and one `manifest.bound` per
    /// new manifest, each only if something changed. Returns their number. Calls prepared earlier
    /// run with the tools they were prepared with.
    ///
    /// # Errors
    /// The ledger's error for the first entry. The old configuration then stays in force, except
    /// after `Unknown`. Later entries are retried until they are recorded; calls wait meanwhile.
    pub async fn change(&self, change: AgentsUpdate) -> Result<usize, ledger::Error> {
        let AgentsUpdate { policy, toolbox, agents } = change;
        let order = self.in_force.replacing().await;
        let old = self.in_force.now();
        let judged_by = old.policy.as_ref().map(|policy| policy.engine.digest());
        let next = policy.as_ref().filter(|next| judged_by != Some(next.engine.digest()));
        let mut entries: Vec<DraftWithPayloads> =
            next.map(|next| next.activated(None)).into_iter().collect();
        let tools = tools::changed(&old.toolbox, &toolbox);
        let shown = tools.is_some();
        entries.extend(tools);
        let bound =
            |new: &&Arc<Manifest>| old.agents.manifests.iter().any(|m| m.digest == new.digest);
        let new = agents.iter().flat_map(Agents::manifests).filter(|new| !bound(new));
        let before = entries.len();
        entries.extend(new.map(|manifest| Self::binding(manifest)));
        // A new manifest may grant other tools.
        let shown = shown || entries.len() > before;
        let recorded = entries.len();
        let mut entries = entries.into_iter();
        if let Some(first) = entries.next() {
            // WHY: if the write is in doubt, the new configuration must take effect. Every later
            // decision stands behind this entry in the chain and cannot become durable without it.
            match self.ledger.record(first).await {
                Ok(_) | Err(ledger::Error::Unknown) => {}
                Err(error) => return Err(error),
            }
        }
        for entry in entries {
            // This fails only when the writer has ended; then nothing becomes durable any more.
            self.ledger.owe(entry).await?;
        }
        self.metrics.know(toolbox.iter().map(|tool| tool.facts.name.to_string()));
        let rules = Rules {
            policy: policy.or_else(|| old.policy.clone()),
            toolbox: Arc::new(toolbox),
            agents: agents.unwrap_or_else(|| old.agents.clone()),
        };
        self.in_force.replace(&order, rules);
        if shown {
            self.in_force.show();
        }
        drop(order);
        Ok(recorded)
    }

    /// Whether any agent is granted any tool.
    #[must_use]
    pub fn grants_anything(&self) -> bool {
        self.in_force.now().agents.manifests.iter().any(|manifest| !manifest.tools.is_empty())
    }
}
