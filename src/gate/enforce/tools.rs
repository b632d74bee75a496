//! The tools in force, as agents see them.

use std::sync::Arc;

use tokio::sync::watch;

use super::Road;
use super::answer::Fault;
use super::run::Run;
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::tier::Tier;
use crate::identity::manifest::Grant;
use crate::ledger::drafts::DraftWithPayloads;
use crate::record::chain::{Changed, ConfigChanged};
use crate::record::{Draft, TaggedDigest};
use crate::tool::toolbox::{Tool, Toolbox};

/// One tool, as an agent sees it.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolView {
    /// Its name.
    pub name: String,
    /// The description that the agent receives.
    pub description: String,
    /// JSON Schema (2020-12) of its arguments, canonical.
    pub input_schema: Vec<u8>,
    /// The whole MCP tool object, canonical, with its name qualified; `None` for tools of other
    /// kinds.
    pub shown: Option<Arc<[u8]>>,
    /// `http`, `file.read`, `mcp`.
    pub kind: String,
    /// Effective tier.
    pub tier: &'static str,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// `sha256:` definition digest.
    pub definition: String,
}

/// A tool as an agent with this grant sees it; `None` if the grant is for another definition or
/// lock.
fn view(tool: &Tool, grant: &Grant) -> Option<ToolView> {
    if !tool.refusals(grant).is_empty() {
        return None;
    }
    let facts = tool.facts_for(grant);
    Some(ToolView {
        name: grant.name.to_string(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.clone(),
        shown: tool.shown.clone(),
        kind: facts.kind.clone(),
        tier: facts.tier.as_str(),
        read_only: facts.read_only,
        definition: facts.definition.prefixed(),
    })
}

impl Road {
    /// The tools that exist for this run's agent, by name; for a child, only those that exist for
    /// its parent too.
    ///
    /// # Errors
    /// `run.sealed`.
    pub fn list_tools(&self, run: &Arc<Run>) -> Result<Vec<ToolView>, Fault> {
        if run.is_over() {
            return Err(Fault::of(Code::RunSealed));
        }
        let toolbox = self.in_force.toolbox();
        let shown = |grant: &Grant| view(toolbox.get(&grant.name)?, grant);
        let mut views: Vec<ToolView> = run.grants.all().iter().filter_map(shown).collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(views)
    }

    /// The tool of this name, if it exists for this run's agent.
    ///
    /// # Errors
    /// `run.sealed`.
    pub fn find_tool(&self, run: &Arc<Run>, name: &str) -> Result<Option<ToolView>, Fault> {
        if run.is_over() {
            return Err(Fault::of(Code::RunSealed));
        }
        let toolbox = self.in_force.toolbox();
        let grant = run.grants.all().iter().find(|grant| grant.name.as_str() == name);
        Ok(grant.and_then(|grant| view(toolbox.get(&grant.name)?, grant)))
    }

    /// Every tool in force, with its own tier.
    pub fn tool_tiers(&self) -> Vec<(String, Tier)> {
        self.in_force.toolbox().tiers()
    }

    /// Counts up whenever the tools that agents see may have changed.
    pub fn toolbox_version(&self) -> watch::Receiver<u64> {
        self.in_force.shown()
    }
}

/// The entry for a change of tools. `None` if agents see no difference; connections and credentials
/// are not visible to them.
pub(super) fn changed(old: &Toolbox, new: &Toolbox) -> Option<DraftWithPayloads> {
    let (old, digest) = (definitions(old), definitions(new));
    if old == digest {
        return None;
    }
    let (digest, tools) = (TaggedDigest(digest), new.iter().count().into());
    let changed = ConfigChanged { digest, tools, what: Changed::Tools };
    Some(DraftWithPayloads::bare(Draft::of(changed)))
}

/// A digest over the name and definition digest of every tool.
fn definitions(toolbox: &Toolbox) -> Digest {
    let lines = toolbox
        .iter()
        .map(|tool| format!("{} {}\n", tool.facts.name, tool.facts.definition.prefixed()));
    Digest::of(&[b"wicketgate/tools/1\0", lines.collect::<String>().as_bytes()])
}
