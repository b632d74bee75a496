//! Which agents there are, and putting another state of everything that is configured in force at once.

use std::sync::Arc;

use super::answer::Fault;
use super::{Basis, Road, Run};
use crate::domain::code::Code;
use crate::domain::decision::Reason;
use crate::identity::Caller;
use crate::identity::callers::Callers;
use crate::identity::manifest::Manifest;
use crate::ledger;
use crate::policy::PolicyEngine;
use crate::tool::toolbox::Toolbox;

/// The agents that are configured.
#[derive(Clone, Debug, Default)]
pub(super) struct Agents {
    /// Their manifests.
    pub manifests: Vec<Arc<Manifest>>,
    /// Who may be which of them. `None`: nobody's credentials are taken away while the gate runs.
    pub callers: Option<Arc<Callers>>,
}

/// A state that was checked as a whole, to be put in force as a whole.
pub struct Change {
    /// The policy bundle's engine, with the bundle's name and version. `None`: the one in force stays.
    pub engine: Option<(Arc<dyn PolicyEngine>, String, String)>,
    /// The tools.
    pub toolbox: Toolbox,
    /// The agents and their callers. `None`: those in force stay.
    pub callers: Option<Arc<Callers>>,
}

impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Change").field("policy", &self.engine.is_some()).finish_non_exhaustive()
    }
}

impl Agents {
    /// How many agents share what the gate has.
    pub fn count(&self) -> usize {
        self.manifests.len().max(1)
    }
}

impl Road {
    /// Whose credentials count from now on.
    pub fn trust_callers(&self, callers: &Arc<Callers>) {
        let manifests = callers.manifests().to_vec();
        self.agents.store(Arc::new(Agents { manifests, callers: Some(Arc::clone(callers)) }));
    }

    /// Puts policy, tools and agents in force together: a decision was made with all of the old state or with
    /// all of the new one, and stands before or behind the entries of the change. Those are
    /// `policy.activated`, `config.changed` and one `manifest.bound` for each manifest that is new, as far as
    /// something is new. Gives back how many. Calls that were prepared before run with the tools they were
    /// prepared with.
    ///
    /// # Errors
    /// The ledger's, for the first entry: then the old state stays in force, except after `Unknown`. Entries
    /// after the first are waited for, for as long as it takes; calls wait meanwhile.
    pub async fn change(&self, change: Change) -> Result<usize, ledger::Error> {
        let Change { engine, toolbox, callers } = change;
        let turn = self.turn.write().await;
        let mut entries = Vec::new();
        if let Some((engine, name, version)) = &engine
            && self.engine().is_none_or(|old| old.digest() != engine.digest())
        {
            let basis: Option<Basis> = None;
            entries.push(Self::activation(&**engine, (name, version), basis));
        }
        let tools = self.tools_changed(&toolbox);
        let shown = tools.is_some();
        entries.extend(tools);
        let old = self.agents.load_full();
        let bound = |new: &&Arc<Manifest>| old.manifests.iter().any(|m| m.digest == new.digest);
        let new = callers.iter().flat_map(|callers| callers.manifests()).filter(|new| !bound(new));
        let before = entries.len();
        entries.extend(new.map(|manifest| Self::binding(manifest)));
        // Another manifest may grant other tools.
        let shown = shown || entries.len() > before;
        let recorded = entries.len();
        let mut entries = entries.into_iter();
        if let Some(first) = entries.next() {
            // WHY: in doubt, the new state is the right one: everything that is judged by it stands behind
            // this entry in the chain, and cannot become durable without it.
            match self.ledger.record(first).await {
                Ok(_) | Err(ledger::Error::Unknown) => {}
                Err(error) => return Err(error),
            }
        }
        for entry in entries {
            // An error here is the end of the writer: nothing becomes durable any more.
            self.ledger.owe(entry).await?;
        }
        if let Some((engine, ..)) = engine {
            self.engine.store(Arc::new(Some(engine)));
            self.docket.forget();
        }
        if let Some(callers) = &callers {
            self.trust_callers(callers);
        }
        self.put_toolbox(toolbox, shown);
        drop(turn);
        Ok(recorded)
    }

    /// Whether any agent is granted any tool.
    #[must_use]
    pub fn grants_anything(&self) -> bool {
        self.agents.load().manifests.iter().any(|manifest| !manifest.tools.is_empty())
    }

    /// What the configuration has against a call of an open run: its agent, one above it or the credential it
    /// was opened with is configured no more. A manifest that was replaced by another of the same agent goes on
    /// for the runs that were bound to it.
    pub(super) fn removed(&self, run: &Run) -> Option<Reason> {
        let agents = self.agents.load();
        let callers = agents.callers.as_ref()?;
        let mut lineage = std::iter::once(run).chain(run.above());
        let gone = lineage.find(|run| {
            !agents.manifests.iter().any(|manifest| manifest.name == run.manifest.name)
        });
        if let Some(gone) = gone {
            let message = format!("agent `{}` is configured no more", gone.manifest.name);
            return Some(reason("agent.removed", message));
        }
        (!callers.still(&run.auth, &run.opener.name)).then(|| {
            let agent = &run.opener.name;
            let message = format!("who opened the run is agent `{agent}` no more");
            reason("agent.caller_removed", message)
        })
    }

    /// Who was identified a moment ago, with the manifest that is in force for its agent now.
    pub(super) fn current(&self, caller: &Caller) -> Result<Caller, Fault> {
        let agents = self.agents.load();
        let Some(callers) = &agents.callers else { return Ok(caller.clone()) };
        let name = &caller.manifest.name;
        let manifest = agents.manifests.iter().find(|manifest| manifest.name == *name);
        let manifest = manifest.filter(|_| callers.still(&caller.auth, name)).ok_or_else(|| {
            let message = format!("who opens the run is agent `{name}` no more");
            Fault::new(Code::IdentityMissing, message).detail("identity.unmapped")
        })?;
        Ok(Caller { manifest: Arc::clone(manifest), auth: caller.auth.clone() })
    }
}

fn reason(detail: &str, message: String) -> Reason {
    let (detail, rule) = (detail.to_owned(), "agents".to_owned());
    Reason { code: Code::PolicyDenied, detail, message, rule }
}
