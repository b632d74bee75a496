//! Every bound tool of this process, opened at start; and `prepare`, the road's access to all of
//! them.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

pub mod described;
mod findings;

use findings::{decoded, findings};

use super::client::{self, ClientTool};
use super::guard::{self, Guard, Screened, without_secrets_in};
use super::mcp::Upstreams;
use super::net::{Resolve, System};
use super::sandbox::Workspaces;
use super::scrub::{Scrub, Scrubbed};
use super::{ToolExecutor, open};
use crate::catalog::read_back::ReadBack;
use crate::catalog::schema::Schema;
use crate::catalog::secret::Secret;
use crate::catalog::{Binding, Kind};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::decision::{Alarm, LayerReason};
use crate::domain::digest::Digest;
use crate::domain::effect::{Effect, ToolKind};
use crate::domain::facts::ToolFacts;
use crate::domain::id::{RunId, ToolName};
use crate::domain::json::Json;
use crate::domain::taint::ToolRoles;
use crate::domain::tier::Tier;
use crate::firewall;
use crate::identity::manifest::Grant;
use crate::judge::conversation::ModelArgs;
use crate::judge::guarding::Screening;
use crate::judge::prepared::{Prepared, PreparedResource};
use crate::record::control::TargetKind;

/// The arguments of a tool call are handed over at once.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of those arguments.
const CLIENT_BYTES_MAX: u64 = 1 << 20;

/// One binding that cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("tool `{tool}`: {message}")]
pub struct Error {
    /// The tool.
    pub tool: ToolName,
    /// The cause.
    pub message: String,
}

/// One tool, ready to be prepared.
pub struct Tool {
    /// The facts for policies and entries; the tier is the binding's own.
    pub facts: Arc<ToolFacts>,
    /// The description that agents receive.
    pub description: String,
    /// JSON Schema (2020-12) of the arguments, canonical, as agents receive it.
    pub input_schema: Vec<u8>,
    /// The same schema, compiled.
    pub schema: Arc<Schema>,
    /// The whole MCP tool object that agents receive, canonical; `None` for tools of other kinds.
    pub shown: Option<Arc<[u8]>>,
    /// Ids of the trusted keys that signed its lock; empty for tools of other kinds.
    pub signers: Arc<[String]>,
    /// The executor of the tool.
    pub executor: Arc<dyn ToolExecutor>,
}

impl Tool {
    /// The demands of this grant that the tool does not meet: the definition, or the lock's signer.
    pub fn refusals(&self, grant: &Grant) -> Vec<LayerReason> {
        let name = &self.facts.name;
        let refuse = |detail: &str, message: String| LayerReason {
            code: Code::ToolNotGranted,
            detail: detail.into(),
            message,
            rule: "manifest".into(),
        };
        let mut reasons = Vec::new();
        // A tool that the agent runs itself is pinned where the agent offers it.
        let client = self.facts.kind == ToolKind::Client.as_str();
        let pinned = grant.definition.filter(|_| !client);
        if pinned.is_some_and(|pinned| pinned != self.facts.definition) {
            let message = format!("tool `{name}` is not the one the manifest pins");
            reasons.push(refuse("tool.definition", message));
        }
        if let Some(signer) = grant.signers.iter().find(|signer| !self.signers.contains(signer)) {
            let message = format!(
                "tool `{name}` is granted from a lock signed by `{signer}`, and it is in none"
            );
            reasons.push(refuse("tool.lock", message));
        }
        reasons
    }

    /// The facts under this grant: the higher tier applies.
    pub fn facts_for(&self, grant: &Grant) -> Arc<ToolFacts> {
        if self.facts.kind == ToolKind::Client.as_str() {
            let (name, tier) = (grant.name.clone(), grant.tier.unwrap_or(Tier::T3));
            return Arc::new(ToolFacts { name, tier, ..ToolFacts::clone(&self.facts) });
        }
        match grant.tier {
            Some(tier) if tier > self.facts.tier => {
                Arc::new(ToolFacts { tier, ..ToolFacts::clone(&self.facts) })
            }
            Some(_) | None => Arc::clone(&self.facts),
        }
    }
}

crate::record::debug_by!(Tool: facts);

/// Every bound tool, by name.
#[derive(Debug, Default)]
pub struct Toolbox {
    tools: BTreeMap<ToolName, Tool>,
    /// Host and port of every backend.
    reaches: BTreeSet<(String, u16)>,
    /// What of the tools operators can switch off by its name.
    parts: BTreeSet<(TargetKind, String)>,
    /// The checks after calls that completed, by tool.
    checks: BTreeMap<ToolName, Arc<ReadBack>>,
    scrub: Scrub,
    guard: Guard,
    workspaces: Arc<Workspaces>,
    /// Stands for every tool that agents run themselves; each manifest names its own.
    client: Option<Tool>,
}

impl Toolbox {
    /// Opens roots and builds clients. Uses no network. `own`: credentials that callers and
    /// operators present to this gate, which must not reach a tool either.
    ///
    /// # Errors
    /// Every binding that cannot be opened.
    pub fn build(
        bindings: Vec<Binding>,
        upstreams: &Upstreams,
        own: Vec<Secret>,
    ) -> Result<Self, Vec<Error>> {
        Self::build_with(bindings, (upstreams, own), &(Arc::new(System) as Arc<dyn Resolve>))
    }

    /// As `build`, with the given resolver.
    ///
    /// # Errors
    /// As `build`.
    pub fn build_with(
        bindings: Vec<Binding>,
        (upstreams, mut secrets): (&Upstreams, Vec<Secret>),
        resolve: &Arc<dyn Resolve>,
    ) -> Result<Self, Vec<Error>> {
        secrets.extend(bindings.iter().flat_map(|binding| binding.kind.secrets()));
        let scrub = Scrub::new(&secrets);
        // Compiles the patterns now and not during the first call.
        let _ = firewall::findings(&Json::from("a@b 1"));
        let (mut tools, mut errors) = (Vec::new(), Vec::new());
        let origins = bindings.iter().flat_map(|binding| binding.kind.origins());
        let reaches = origins.map(|origin| (origin.host.to_string(), origin.port)).collect();
        let check = |binding: &Binding| {
            Some((binding.name.clone(), Arc::clone(binding.read_back.as_ref()?)))
        };
        let checks = bindings.iter().filter_map(check).collect();
        let parts = bindings.iter().flat_map(|binding| parts_of(&binding.kind)).collect();
        for binding in bindings {
            let name = binding.name.clone();
            match tool(binding, upstreams, resolve) {
                Ok(tool) => tools.push(tool),
                Err(why) => errors.push(Error { tool: name, message: why.to_string() }),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let workspaces = Arc::clone(upstreams.workspaces());
        Ok(Self { workspaces, reaches, parts, checks, ..Self::of(tools, scrub) })
    }

    /// The names of the tools.
    pub fn names(&self) -> impl Iterator<Item = &ToolName> {
        self.tools.keys()
    }

    /// Host and port of every backend of the tools.
    pub const fn reaches(&self) -> &BTreeSet<(String, u16)> {
        &self.reaches
    }

    /// The check after a completed call of this tool.
    #[must_use]
    pub fn read_back(&self, tool: &ToolName) -> Option<&Arc<ReadBack>> {
        self.checks.get(tool)
    }

    /// The MCP servers or the upstreams of models, by name.
    pub fn parts(&self, kind: TargetKind) -> impl Iterator<Item = &str> {
        let parts = self.parts.iter().filter(move |(of, _)| *of == kind);
        parts.map(|(_, name)| name.as_str())
    }

    /// A toolbox of these tools. `scrub`'s secrets are masked in every output of their executors.
    pub fn of(tools: Vec<Tool>, scrub: Scrub) -> Self {
        let guarded = tools.into_iter().map(|tool| {
            let executor = Scrubbed { inner: tool.executor, scrub: scrub.clone() };
            (tool.facts.name.clone(), Tool { executor: Arc::new(executor), ..tool })
        });
        let (tools, reaches) = (guarded.collect(), BTreeSet::new());
        let client = client(&scrub);
        let (guard, workspaces, parts) = (Guard::default(), Arc::default(), BTreeSet::new());
        let checks = BTreeMap::new();
        Self { tools, reaches, parts, checks, scrub, guard, workspaces, client }
    }

    /// The same, with what the configuration says about findings.
    #[must_use]
    pub fn guarded(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }

    /// What the configuration says about findings.
    pub const fn guard(&self) -> &Guard {
        &self.guard
    }

    /// The search for the credentials of the tools.
    pub const fn scrub(&self) -> &Scrub {
        &self.scrub
    }

    /// Every tool, with its own tier.
    pub fn tiers(&self) -> Vec<(String, Tier)> {
        self.iter().map(|tool| (tool.facts.name.to_string(), tool.facts.tier)).collect()
    }

    /// The tool of this name.
    #[must_use]
    pub fn get(&self, name: &ToolName) -> Option<&Tool> {
        match name.as_str().starts_with(client::PREFIX) {
            true => self.client.as_ref(),
            false => self.tools.get(name),
        }
    }

    /// Releases the resources kept for the calls of this run, which has ended.
    pub fn forget(&self, run: &RunId) {
        self.workspaces.end(run);
    }

    /// Every tool in name order.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.tools.values()
    }
}

/// The tool that stands for those of agents.
fn client(scrub: &Scrub) -> Option<Tool> {
    const SCHEMA: &[u8] = br#"{"type":"object","additionalProperties":true}"#;
    let schema = Schema::parse(SCHEMA).ok()?;
    let facts = ToolFacts {
        name: ToolName::parse("client")?,
        kind: ToolKind::Client.as_str().to_owned(),
        tier: Tier::T3,
        read_only: false,
        idempotent: false,
        definition: Digest::of(&[b"wicketgate/client/1"]),
        timeout: CLIENT_TIMEOUT,
        result_bytes_max: CLIENT_BYTES_MAX,
        cost_micro_usd: Some(0),
        dedupe: None,
        roles: ToolRoles::NONE,
    };
    let executor = Arc::new(ClientTool) as Arc<dyn ToolExecutor>;
    Some(Tool {
        facts: Arc::new(facts),
        description: String::new(),
        input_schema: SCHEMA.to_vec(),
        schema: Arc::new(schema),
        shown: None,
        signers: Vec::new().into(),
        executor: Arc::new(Scrubbed { inner: executor, scrub: scrub.clone() }),
    })
}

fn tool(
    binding: Binding,
    upstreams: &Upstreams,
    resolve: &Arc<dyn Resolve>,
) -> Result<Tool, super::Error> {
    let facts = ToolFacts {
        name: binding.name,
        kind: binding.kind.as_str().to_owned(),
        tier: binding.tier,
        read_only: binding.read_only,
        idempotent: binding.idempotent,
        definition: binding.definition,
        timeout: binding.timeout,
        result_bytes_max: binding.result_bytes_max,
        cost_micro_usd: binding.cost_micro_usd,
        dedupe: binding.dedupe,
        roles: binding.roles,
    };
    let signers =
        binding.kind.mcp().map_or_else(|| Vec::new().into(), |mcp| Arc::clone(&mcp.signers));
    let executor = open(binding.kind, &facts, upstreams, resolve)?;
    Ok(Tool {
        facts: Arc::new(facts),
        description: binding.description,
        input_schema: binding.schema.canonical().to_vec(),
        schema: Arc::new(binding.schema),
        shown: binding.shown,
        signers,
        executor,
    })
}

/// Opens and resolves one call that the firewall has searched. Total: the reasons against it are part
/// of the result.
pub fn prepare(toolbox: &Toolbox, grant: Option<&Grant>, screened: Screened) -> Prepared {
    let (call, model, alarm, mut screening) = screened.into_parts();
    let model = model.map(Arc::new);
    let about = (model.as_deref(), alarm);
    let prepared = opened(toolbox, grant, call, about, &mut screening);
    let refused = without_secrets_in(&screening, prepared.refusals().to_vec());
    prepared.refused_for(refused).screened(screening).conversing(model)
}

fn opened(
    toolbox: &Toolbox,
    grant: Option<&Grant>,
    call: ToolCall,
    (model, alarm): (Option<&ModelArgs>, Option<Alarm>),
    screening: &mut Screening,
) -> Prepared {
    let refused = |call, facts, reasons| {
        let refused = Prepared::refused(call, facts, reasons);
        match alarm {
            Some(alarm) => refused.alarming(alarm),
            None => refused,
        }
    };
    let granted = grant.filter(|grant| &grant.name == call.tool());
    let (Some(grant), Some(tool)) = (granted, toolbox.get(call.tool())) else {
        // WHY the same message for an unbound and an ungranted tool: agents must not probe for
        // names.
        let reason = LayerReason {
            code: Code::ToolNotGranted,
            detail: String::new(),
            message: format!("tool `{}` is not granted to this agent", call.tool()),
            rule: "manifest".into(),
        };
        return refused(call, None, vec![reason]);
    };
    let facts = tool.facts_for(grant);
    let mut reasons = tool.refusals(grant);
    reasons.extend(screening.refusal.clone());
    if alarm.is_none() && screening.refusal.is_none() {
        // WHY only then: a schema's message may quote arguments, which would contain the
        // credential or the secret.
        // A request in a dialect is no arguments of the tool: its executor checks it whole.
        if call.dialect().is_none() {
            reasons.extend(tool.schema.check(call.args()));
        }
    }
    if alarm.is_some() || !reasons.is_empty() {
        return refused(call, Some(facts), reasons);
    }
    // A panic becomes a refusal too, and is recorded as one.
    let opened = catch_unwind(AssertUnwindSafe(|| resolved(tool, facts.tier, &call, screening)));
    match opened.unwrap_or_else(|_| Err(vec![panicked()])) {
        Ok(OpenedCall { effect, hold, .. })
            if toolbox.scrub.finds(&decoded(&effect, &facts.kind))
                || tool.executor.composed(&*hold).is_some_and(|body| toolbox.scrub.finds(body)) =>
        {
            Prepared::refused(call, Some(facts), Vec::new()).alarming(Alarm::Credential)
        }
        Ok(OpenedCall { effect, hold, kept }) => {
            let composed = tool.executor.composed(&*hold);
            guard::of_effect(screening, &call, (&effect, composed, &facts));
            if let Some(reason) = screening.refusal.clone() {
                return Prepared::refused(call, Some(facts), vec![reason]);
            }
            let findings = match model {
                Some(model) => model.findings.clone(),
                None => findings(&call, screening, (&effect, &facts.kind)),
            };
            let hosts = tool.executor.hosts(&effect);
            let mut effect = guard::shown_effect(screening, effect);
            if let Some(model) = model {
                model.complete(&mut effect, false);
            }
            let findings = guard::shown_findings(screening, findings);
            Prepared::ready(call, facts, effect, findings, hold).keeping(kept).reaching(hosts)
        }
        Err(reasons) => refused(call, Some(facts), reasons),
    }
}

/// The resource that the executor opened, and the data to undo the call.
struct OpenedCall {
    effect: Effect,
    hold: PreparedResource,
    /// Canonical; `None` if the call cannot be undone.
    kept: Option<Vec<u8>>,
}

/// Prepares the call; only a reversible call keeps the data to undo it.
fn resolved(
    tool: &Tool,
    tier: Tier,
    call: &ToolCall,
    screening: &Screening,
) -> Result<OpenedCall, Vec<LayerReason>> {
    let (effect, hold) = tool.executor.prepare(call)?;
    let kept = match tier {
        Tier::T1 => tool.executor.pre_image(&*hold).map_err(|reason| vec![reason])?,
        Tier::T0 | Tier::T2 | Tier::T3 => None,
    };
    let held = kept.as_ref().and_then(|kept| guard::of_pre_image(&screening.guard, call, kept));
    if let Some(reason) = held {
        return Err(vec![reason]);
    }
    Ok(OpenedCall { effect, hold, kept: kept.map(|kept| canonical::bytes(&kept)) })
}

fn panicked() -> LayerReason {
    LayerReason::effect_refused("tool.prepare", "prepare.panic", "the tool could not be prepared")
}

/// The executor of this tool.
#[must_use]
pub fn executor(toolbox: &Toolbox, name: &ToolName) -> Option<Arc<dyn ToolExecutor>> {
    toolbox.get(name).map(|tool| Arc::clone(&tool.executor))
}

#[cfg(test)]
mod tests;

/// What of a tool operators can switch off by its name.
fn parts_of(kind: &Kind) -> Vec<(TargetKind, String)> {
    match kind {
        Kind::Mcp(mcp) => vec![(TargetKind::Server, mcp.server.name.clone())],
        Kind::Model(model) => {
            let names = model.upstreams.iter().map(|upstream| upstream.name.clone());
            names.map(|name| (TargetKind::Upstream, name)).collect()
        }
        Kind::Http(_)
        | Kind::Fetch(_)
        | Kind::FileRead(_)
        | Kind::FileList(_)
        | Kind::FileWrite(_)
        | Kind::Command(_)
        | Kind::Sql(_)
        | Kind::Grpc(_) => Vec::new(),
    }
}
