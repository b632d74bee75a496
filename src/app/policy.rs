//! Loading, trying and activating the policy bundle; a broken one leaves the old one in force.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::checked::Checked;
use super::running::Running;
use super::{PAUSE, lint, versions};
use crate::config::Lint;
use crate::enforce::Road;
use crate::ledger;
use crate::policy::activation::{Candidate, load_signed};
use crate::policy::lint::{Finding, Level};

/// Puts the configured bundle in force when the gate opens. Without one nothing is ready.
pub(super) async fn load(checked: &Arc<Checked>, running: &Running, road: &Arc<Road>) {
    // WHY: a store that is away just now must not leave the gate shut for good.
    let again = |error: &ledger::Error| running.passes(error);
    if let Err(why) = try_load(checked, running, road, again).await {
        tracing::error!(%why, "no policy bundle is in force");
    }
    running.tell();
}

/// Puts the configured bundle in force again after somebody changed it.
pub(super) async fn reload(checked: &Arc<Checked>, running: &Arc<Running>) {
    let Some(road) = running.road.get() else { return };
    match try_load(checked, running, road, |_| false).await {
        Ok(digest) => tracing::info!(%digest, "policy bundle activated"),
        Err(why) => {
            tracing::error!(%why, "the policy bundle was refused; the old one stays in force");
        }
    }
    running.tell();
}

async fn try_load(
    checked: &Arc<Checked>,
    running: &Running,
    road: &Arc<Road>,
    again: impl Fn(&ledger::Error) -> bool,
) -> Result<String, String> {
    let Some(dir) = checked.config.policy.bundle.clone() else {
        return Err("`policy.bundle` is not set".to_owned());
    };
    let (trust, now) = (checked.policy_trust.clone(), checked.clock.now());
    let deadline = Duration::from_millis(checked.config.policy.deadline_ms);
    let tools = lint::tiers(road.tool_tiers(), checked.callers.manifests());
    let config = checked.config.clone();
    // Blocks for the trial in a child process.
    let loading = tokio::task::spawn_blocking(move || {
        let loaded = load_signed(&dir, &trust, now, Path::new("/proc/self/exe"), deadline);
        let loaded = loaded.map_err(|e| e.to_string())?;
        let findings = lint::of(&loaded.bundle, &config, &tools);
        Ok::<_, String>((loaded, findings))
    });
    let (loaded, findings) = loading.await.map_err(|_| "loading panicked".to_owned())??;
    let Candidate { bundle, engine, signers } = loaded;
    let noted = linted(&findings, checked.config.policy.lint)?;
    let needed = checked.policy_trust.threshold;
    if signers.iter().filter(|key| !road.is_key_stopped(key)).count() < needed {
        return Err("an operator has revoked a key that signed it".to_owned());
    }
    let (name, version) = (bundle.name().to_owned(), bundle.version().to_string());
    let digest = engine.digest();
    for manifest in checked.callers.manifests() {
        bundle.check_manifest(&manifest.name).map_err(|e| e.to_string())?;
        let agent = bundle.layers().iter().find(|layer| layer.layer == "agent");
        let pinned = manifest.policy_agent;
        if pinned.is_some() && pinned != agent.map(|layer| layer.digest) {
            return Err(format!("agent `{}` pins another agent layer", manifest.name));
        }
    }
    let state = &checked.config.state;
    versions::check_bundle(state, &bundle)?;
    checked.artifacts.put_policy(&digest, bundle.tar()).map_err(|e| e.to_string())?;
    while let Err(error) = road.activate(Arc::clone(&engine), &name, &version).await {
        if !again(&error) {
            return Err(error.to_string());
        }
        tokio::time::sleep(PAUSE).await;
    }
    road.bundle_signed_by(signers, needed);
    *running.findings.lock() = noted;
    versions::keep_bundle(state, &bundle)?;
    Ok(digest.prefixed())
}

/// What of the findings is to be known while the bundle is in force. Warnings are logged.
fn linted(findings: &[Finding], lint: Lint) -> Result<Vec<String>, String> {
    let (errors, warnings): (Vec<_>, Vec<_>) =
        findings.iter().partition(|finding| finding.level == Level::Error);
    for finding in warnings {
        tracing::warn!("policy: {finding}");
    }
    if errors.is_empty() {
        return Ok(Vec::new());
    }
    match lint {
        Lint::Enforce => {
            let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
            Err(format!("lints found errors in it (`policy.lint`): {}", shown.join("; ")))
        }
        Lint::Warn => Ok(errors.iter().map(|finding| format!("policy: {finding}")).collect()),
    }
}
