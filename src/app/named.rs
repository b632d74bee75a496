//! Everything a configuration names, loaded as the gate will load it, for `config check`: every
//! error in it, with its remedy. Starts nothing and reaches no network.

use std::sync::Arc;

use super::checked::{self, Live};
use super::never::{asked_in_dialects, never};
use super::tools;
use super::versions::Versions;
use super::{approvers, break_glass, lint, policy};
use crate::approval::approvers::Purpose;
use crate::catalog::Bound;
use crate::clock::{Clock as _, SystemClock};
use crate::config::{self, Amendments, Config, Lint};
use crate::domain::plural::many;
use crate::domain::tier::Tier;
use crate::identity::callers::Callers;
use crate::identity::manifest::Manifest;
use crate::identity::token::RunTokens;
use crate::ledger::in_force::Marks;
use crate::policy::lint::{Finding, Level};
use crate::tool::mcp::Upstreams;
use crate::tool::sandbox::Levels;

crate::domain::closed::texts! {
    /// The part of a configuration that a line is about.
    pub enum Area {
        /// The keys that are trusted.
        Trust = "trust",
        /// Agents, their manifests and their callers.
        Agents = "agents",
        /// Tools, the servers behind them, and what isolates them.
        Tools = "tools",
        /// The policy bundle.
        Policy = "policy",
        /// Approvers, and those who may break the glass.
        Approvals = "approvals",
        /// Operators.
        Operators = "operators",
    }
}

impl Area {
    /// Lines about this part.
    pub(super) fn lines(self, texts: impl IntoIterator<Item = String>) -> Vec<NamedLine> {
        texts.into_iter().map(|text| self.line(text)).collect()
    }

    fn line(self, text: String) -> NamedLine {
        NamedLine { area: self, text }
    }
}

/// One line about one part of a configuration.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NamedLine {
    /// The part.
    pub area: Area,
    /// What is so, or what is wrong with it and the remedy.
    pub text: String,
}

/// The findings.
#[derive(Debug, Default)]
pub struct NamedFiles {
    /// What keeps the gate from starting, from being ready, or a part of it from working.
    pub problems: Vec<NamedLine>,
    /// Warnings for the operator; the gate starts all the same.
    pub warnings: Vec<NamedLine>,
    /// What was loaded: manifests, tools, the bundle and lists, with their versions.
    pub loaded: Vec<NamedLine>,
}

impl NamedFiles {
    fn wrong(&mut self, area: Area, texts: impl IntoIterator<Item = String>) {
        self.problems.extend(area.lines(texts));
    }

    fn warn(&mut self, area: Area, texts: impl IntoIterator<Item = String>) {
        self.warnings.extend(area.lines(texts));
    }

    fn loaded(&mut self, area: Area, text: String) {
        self.loaded.push(area.line(text));
    }
}

/// Loads all of it. `in_force`: the newest that each chain of the ledger has had in force, with the chain's log.
/// Blocks: the bundle is tried in a child process.
#[must_use]
pub fn check(config: &Config, in_force: Vec<(String, Marks)>) -> NamedFiles {
    let mut named = NamedFiles::default();
    let bound = config.bindings(&config::environment);
    let tiers = bound.as_ref().map(tiers).unwrap_or_default();
    let (mut signers, mut isolated) = (Vec::new(), Vec::new());
    if let Ok(bound) = &bound {
        named.warn(Area::Tools, bound.warnings.iter().cloned());
        isolated = isolation(config, bound);
        signers = bound.lock_signers().to_vec();
    }
    let opened = bound.and_then(|bound| tools::opened(config, bound, &Upstreams::default()));
    // Only the thumbprints of tokens depend on this key, and this check shows none.
    let tokens = Arc::new(RunTokens::new([0; 32]));
    let now = SystemClock::new().now();
    let mut of_lists = Vec::new();
    let approving = approving(config, &mut of_lists);
    named.wrong(Area::Approvals, of_lists);
    named.wrong(Area::Approvals, break_glass::wrong(config));
    named.wrong(Area::Tools, isolated);
    match checked::live(config.clone(), opened, &tokens, now) {
        Err(problems) => named.problems.splice(0..0, problems).for_each(drop),
        Ok((live, _)) => {
            let manifests = live.callers.manifests();
            let ungranted = manifests.iter().flat_map(|one| ungranted(one, &tiers, &signers));
            named.warn(Area::Agents, ungranted);
            named.warn(Area::Agents, live.callers.strangers());
            let asked = asked_in_dialects(config);
            named.warn(Area::Agents, never(manifests, &tiers, (&asked, approving)));
            summary(&live, (&tiers, approving), &mut named);
            follows(&live, &in_force, &mut named);
            bundle(&live, (&tiers, approving), in_force, &mut named);
        }
    }
    named
}

/// Says what was loaded, with the versions.
fn summary(live: &Live, (tiers, approving): (&[(String, Tier)], usize), named: &mut NamedFiles) {
    for manifest in live.callers.manifests() {
        let (agent, version, keys) = (&manifest.name, &manifest.version, manifest.signers.len());
        let grants = many(manifest.tools.len(), "tool");
        let signed = many(keys, "trusted key");
        let text =
            format!("agent `{agent}`: manifest {version}, signed by {signed}, grants {grants}");
        named.loaded(Area::Agents, text);
    }
    named.loaded(Area::Tools, format!("{} can be opened", many(tiers.len(), "tool")));
    if live.config.approvals.signers.is_some() {
        let people = many(approving, "person");
        named.loaded(Area::Approvals, format!("{people} may approve held calls"));
    }
    let operators = live.config.operators.len();
    if operators > 0 {
        named.loaded(Area::Operators, many(operators, "operator"));
    }
}

/// The manifests that the agents name, as [`check`] loads them.
///
/// # Errors
/// Everything that is wrong with them, a line each.
pub fn callers(config: &Config) -> Result<Callers, Vec<String>> {
    let mut problems = Vec::new();
    let keys = checked::keys(&config.trust.manifest_keys, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let tokens = Arc::new(RunTokens::new([0; 32]));
    checked::callers(config, &keys, &tokens, SystemClock::new().now())
}

fn tiers(bound: &Bound) -> Vec<(String, Tier)> {
    bound.bindings.iter().map(|one| (one.name.to_string(), one.tier)).collect()
}

/// The number of people who may approve, by the configured list.
pub(super) fn approving(config: &Config, problems: &mut Vec<String>) -> usize {
    let Some(file) = &config.approvals.signers else { return 0 };
    // Errors of the keys are reported with all others.
    let trusted = checked::keys(&config.trust.approver_keys, &mut Vec::new());
    match approvers::read(Purpose::Approval, file, (&trusted, config.trust.approver_threshold)) {
        Ok((list, _)) => lint::approvers(&list.admitting(config.approvals.passkey_terms())),
        Err(why) => {
            problems.push(format!(
                "approvals.signers: {why}; the gate accepts no approvals until \
                 it is fixed: sign the list as it is with \
                 `wicketgate approval sign-approvers`, by a key of `trust.approver_keys`"
            ));
            0
        }
    }
}

/// Reports manifests and lists that are older than those the ledger has had in force.
fn follows(live: &Live, in_force: &[(String, Marks)], named: &mut NamedFiles) {
    let list = live.config.approvals.signers.as_ref().and_then(|file| {
        let trusted = (live.approver_keys.as_slice(), live.config.trust.approver_threshold);
        approvers::read(Purpose::Approval, file, trusted).ok()
    });
    for (log, marks) in in_force {
        if let Some((list, _)) = &list
            && let Err(why) = Versions::of(marks.clone()).check_list(Purpose::Approval, list)
        {
            named.wrong(Area::Approvals, [format!("approvals.signers: {why} (`{log}`)")]);
        }
        if let Err(why) = Versions::of(marks.clone()).check(&live.callers) {
            let text = format!("{why} in `{log}`; raise `metadata.version` and sign it");
            named.wrong(Area::Agents, [text]);
        }
    }
}

/// Checks the bundle: its signature, its rules, its version, and whether it fits these manifests
/// and tools.
fn bundle(
    live: &Live,
    (tiers, approving): (&[(String, Tier)], usize),
    in_force: Vec<(String, Marks)>,
    named: &mut NamedFiles,
) {
    let Some(dir) = &live.config.policy.bundle else {
        let amended = live.config.policy.amendments == Amendments::Required;
        let why =
            "policy.bundle is not set: without a bundle the gate denies every call".to_owned();
        named.warn(Area::Policy, (!amended).then_some(why));
        return;
    };
    let tools = lint::tiers(tiers.iter().cloned(), live.callers.manifests());
    let now = SystemClock::new().now();
    let at = |why: String| format!("policy.bundle `{}`: {why}", dir.display());
    let (candidate, findings) = match policy::read(live, dir, now, (&tools, approving)) {
        Ok(read) => read,
        Err(why) => return named.wrong(Area::Policy, [at(why.to_string())]),
    };
    let (name, version) = (candidate.bundle.name(), candidate.bundle.version());
    let signed = many(candidate.signers.len(), "trusted key");
    named.loaded(Area::Policy, format!("bundle `{name}` {version}, signed by {signed}"));
    // With amendments, the bundle in force comes from the ledger and not from the directory.
    if live.config.policy.amendments == Amendments::Off {
        for (log, marks) in in_force {
            if let Err(why) = Versions::of(marks).check_bundle(&candidate.bundle) {
                named.wrong(Area::Policy, [at(format!("in `{log}`: {why}"))]);
            }
        }
    }
    let unfit = policy::unfit(live.callers.manifests(), &candidate.bundle);
    named.wrong(Area::Policy, unfit.into_iter().map(|finding| at(finding.message)));
    for finding in findings.into_iter().filter(|finding| finding.code != "lint.never_runs") {
        let enforced = live.config.policy.lint == Lint::Enforce && finding.level == Level::Error;
        let text = at(finding_text(&finding));
        if enforced {
            named.wrong(Area::Policy, [text]);
        } else {
            named.warn(Area::Policy, [text]);
        }
    }
}

fn finding_text(finding: &Finding) -> String {
    format!("{finding}; {}", finding.hint())
}

/// Tools and servers that this machine cannot isolate as they must be.
fn isolation(config: &Config, bound: &Bound) -> Vec<String> {
    let levels = Levels::default();
    let mut missing = Vec::new();
    for binding in &bound.bindings {
        // Those of servers are named below, once for each server.
        let demand = binding.kind.demand().filter(|_| binding.kind.mcp().is_none());
        if let Some(Err(why)) = demand.map(|demand| levels.meet(demand)) {
            missing.push(config.of_tool(binding.name.as_str(), &why.to_string()));
        }
    }
    for server in &bound.servers {
        if let Some(Err(why)) = server.demand().map(|demand| levels.meet(demand)) {
            missing.push(config.of_server(&server.name, &why.to_string()));
        }
    }
    missing
}

/// Grants without effect: of tools that are not bound, or from a lock that another key signed.
fn ungranted(manifest: &Manifest, bound: &[(String, Tier)], signers: &[String]) -> Vec<String> {
    let agent = &manifest.name;
    let mut problems = Vec::new();
    for grant in &manifest.tools {
        let name = &grant.name;
        let other = grant.signers.iter().find(|key| !signers.contains(key));
        if !bound.iter().any(|(tool, _)| tool == name.as_str()) {
            problems.push(format!(
                "agent `{agent}` is granted `{name}`, but no such tool is configured"
            ));
        } else if let Some(signer) = other {
            problems.push(format!(
                "agent `{agent}` is granted `{name}` from a lock signed by `{signer}`, but `{signer}` did not sign"
            ));
        }
    }
    problems
}
