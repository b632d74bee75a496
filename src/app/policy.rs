//! Loading, trying and activating the policy bundle; a broken one leaves the old one in force.
//!
//! Where amendments are required, `constitution` decides which bundle that may be.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::checked::{Checked, Live};
use super::running::Running;
use super::versions::SuccessionError;
use super::{PAUSE, approvers, lint};
use crate::config::Lint;
use crate::domain::tier::Tier;
use crate::domain::time::Timestamp;
use crate::enforce::{Basis, Policy, Road};
use crate::evidence;
use crate::identity::manifest::Manifest;
use crate::ledger::{self, Ledger};
use crate::policy::activation::{Candidate, load_signed};
use crate::policy::bundle::Bundle;
use crate::policy::fault;
use crate::policy::lint::{Finding, Level};

/// Why a bundle is not put in force.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// None is configured.
    #[error("`policy.bundle` is not set")]
    Unset,
    /// It does not hold by itself.
    #[error("{}; {}", .0, .0.next())]
    Bundle(#[from] fault::Error),
    /// Who read it is lost.
    #[error("loading panicked")]
    Lost,
    /// An operator has revoked a signer's key.
    #[error("an operator revoked a key that signed it")]
    Revoked,
    /// It may not follow the one in force.
    #[error(transparent)]
    SuccessionError(#[from] SuccessionError),
    /// A manifest does not fit it.
    #[error("{}", .0.message)]
    Unfit(Finding),
    /// Lints found errors in it.
    #[error("lints found errors in it (`policy.lint`): {}", shown(.0))]
    Lints(Vec<Finding>),
    /// It cannot be kept for evidence.
    #[error(transparent)]
    Unkept(#[from] evidence::Error),
    /// Its activation cannot be recorded.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

fn shown(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Puts the configured bundle in force when the gate opens. Without one nothing is ready.
pub(super) async fn load(checked: &Arc<Checked>, running: &Running, road: &Arc<Road>) {
    let why = match running.constitution.get() {
        Some(constitution) => constitution.open(road).await.err().map(|why| why.to_string()),
        // WHY: a store that is away just now must not leave the gate shut for good.
        None => {
            let loaded = try_load(checked, running, road, |error| running.passes(error)).await;
            // Readiness shows it until a good bundle was read.
            let why = loaded.err().map(|why| why.to_string());
            running.refused.lock().extend(why.iter().map(|why| format!("policy: {why}")));
            why
        }
    };
    if let Some(why) = why {
        tracing::error!(%why, "no policy bundle is in force");
    }
    running.update_readiness();
}

async fn try_load(
    checked: &Arc<Checked>,
    running: &Running,
    road: &Arc<Road>,
    again: impl Fn(&ledger::Error) -> bool,
) -> Result<(), Error> {
    let live = checked.live();
    let dir = live.config.policy.bundle.clone().ok_or(Error::Unset)?;
    let (candidate, findings) =
        examine(checked, &live, &running.ledger, road.tool_tiers(), dir).await?;
    let notes = linted(&findings, live.config.policy.lint)?;
    put_in_force(checked, road, candidate, None, again).await?;
    *running.findings.lock() = notes;
    Ok(())
}

/// Reads, verifies, tries and lints the bundle in a directory, for a gate with these tools; puts
/// nothing in force.
pub(super) async fn examine(
    checked: &Arc<Checked>,
    live: &Live,
    ledger: &Ledger,
    tools: Vec<(String, Tier)>,
    dir: PathBuf,
) -> Result<(Candidate, Vec<Finding>), Error> {
    let now = checked.clock.now();
    let tools = lint::tiers(tools, live.callers.manifests());
    let (list, theirs) = (approvers::signed(checked, live, ledger), live.clone());
    // Blocks for the trial in a child process.
    let loading = tokio::task::spawn_blocking(move || {
        // Whose approval would count: on the list as it is signed, with a key that is not revoked.
        let list = list.and_then(|list| list.open().ok());
        let approvers = list.as_ref().map_or(0, lint::approvers);
        read(&theirs, &dir, now, (&tools, approvers))
    });
    let (candidate, findings) = loading.await.map_err(|_| Error::Lost)??;
    let needed = live.policy_trust.threshold;
    if candidate.signers.iter().filter(|key| !checked.stops.has_key(key, now)).count() < needed {
        return Err(Error::Revoked);
    }
    checked.versions.check_bundle(&candidate.bundle)?;
    Ok((candidate, findings))
}

/// Reads, verifies, tries and lints the bundle in a directory, for these tools and so many
/// approvers. Blocks.
pub(super) fn read(
    live: &Live,
    dir: &Path,
    now: Timestamp,
    (tools, approvers): (&[(String, Tier)], usize),
) -> Result<(Candidate, Vec<Finding>), Error> {
    let deadline = Duration::from_millis(live.config.policy.deadline_ms);
    let loaded = load_signed(dir, &live.policy_trust, now, Path::new("/proc/self/exe"), deadline);
    let loaded = loaded?;
    let manifests = live.callers.manifests();
    let findings = lint::of(&loaded.bundle, &live.config, tools, approvers, manifests);
    Ok((loaded, findings))
}

/// The findings of these manifests against a bundle.
pub(super) fn unfit(manifests: &[Arc<Manifest>], bundle: &Bundle) -> Vec<Finding> {
    let agent = bundle.layers().iter().find(|layer| layer.layer == "agent");
    let mut findings = Vec::new();
    for manifest in manifests {
        let mut add = |code, message| {
            let place = manifest.name.clone();
            findings.push(Finding { level: Level::Error, code, message, place });
        };
        if let Err(why) = bundle.check_manifest(&manifest.name) {
            add("policy.manifest", why.to_string());
        }
        let pinned = manifest.policy_agent;
        if pinned.is_some() && pinned != agent.map(|layer| layer.digest) {
            add("policy.pin", format!("agent `{}` pins a different agent layer", manifest.name));
        }
    }
    findings
}

/// A bundle as the road takes it, with the keys that signed it.
pub(super) fn signed(candidate: &Candidate, live: &Live) -> Policy {
    let Candidate { bundle, engine, signers } = candidate;
    Policy {
        engine: Arc::clone(engine),
        name: bundle.name().to_owned(),
        version: bundle.version().to_string(),
        signers: signers.clone(),
        threshold: live.policy_trust.threshold,
    }
}

/// Puts a bundle in force that was examined, and remembers it.
pub(super) async fn put_in_force(
    checked: &Checked,
    road: &Road,
    candidate: Candidate,
    basis: Option<Basis>,
    again: impl Fn(&ledger::Error) -> bool,
) -> Result<(), Error> {
    let live = checked.live();
    let policy = signed(&candidate, &live);
    let bundle = candidate.bundle;
    if let Some(finding) = unfit(live.callers.manifests(), &bundle).into_iter().next() {
        return Err(Error::Unfit(finding));
    }
    checked.artifacts.put_policy(&bundle.digest(), bundle.tar())?;
    while let Err(error) = road.activate(policy.clone(), basis).await {
        if !again(&error) {
            return Err(error.into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    remember(checked, bundle);
    Ok(())
}

/// Remembers the bundle in force: its manifests, and that no older one may follow it.
pub(super) fn remember(checked: &Checked, bundle: Bundle) {
    let bundle = Arc::new(bundle);
    checked.bundle.store(Some(Arc::clone(&bundle)));
    checked.versions.keep_bundle(&bundle);
}

/// What of the findings is to be known while the bundle is in force. Warnings are logged.
pub(super) fn linted(findings: &[Finding], lint: Lint) -> Result<Vec<String>, Error> {
    let (errors, warnings): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.level == Level::Error);
    for finding in warnings {
        tracing::warn!("policy: {finding}");
    }
    if errors.is_empty() {
        return Ok(Vec::new());
    }
    match lint {
        Lint::Enforce => Err(Error::Lints(errors.into_iter().cloned().collect())),
        Lint::Warn => Ok(errors.iter().map(|finding| format!("policy: {finding}")).collect()),
    }
}
