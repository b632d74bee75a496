//! Opens the gate: makes every part of the road, in the order of their dependencies.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::checked::Checked;
use super::constitution::Constitution;
use super::running::Running;
use super::{Error, approvers, bounds, break_glass, canary, control, health, lists, policy};
use crate::config::Amendments;
use crate::enforce::{self, Agents, Amender, Commands, Replaying, Road};
use crate::ledger::RecoveredRun;
use crate::replay::fork::Forked;
use crate::replay::player::Player;
use crate::replay::store::RecordingStore;
use crate::tool::toolbox::Toolbox;

/// Waits for the chain, then opens the gate: records what is in force, and takes up the runs of the
/// previous process.
pub(super) async fn open(
    checked: Arc<Checked>,
    toolbox: Toolbox,
    running: Arc<Running>,
    recovered: oneshot::Receiver<Vec<RecoveredRun>>,
) -> Result<(), Error> {
    // The writer ended first; its supervisor reports why.
    let Ok(runs) = recovered.await else { return Ok(()) };
    let Some(leased) = running.ledger.leased() else { return Ok(()) };
    newest(&checked, &running).await?;
    let amended = checked.config.policy.amendments == Amendments::Required;
    let constitution = amended.then(|| Constitution::new(&checked, &running, leased));
    let breaker = break_glass::breaker(&checked, &running.ledger).map_err(Error::Config)?;
    let commands = Commands {
        stops: Arc::clone(&checked.stops),
        follow: Some(control::followed(&checked, &running, leased)),
        breaker: breaker.clone(),
        amender: constitution.clone().map(|amender| amender as Arc<dyn Amender>),
    };
    let road = Road::new(parts(&checked, &running, toolbox, commands).await?);
    bind(&checked, &running, &road).await?;
    lists::bind(&checked, &running, breaker.as_deref()).await?;
    let Some(backlog) = control::read(&running, &road).await else { return Ok(()) };
    if let Some(constitution) = constitution {
        drop(running.constitution.set(constitution));
    }
    road.resume(runs, backlog).await;
    control::follow(&running, &road);
    road.summarise();
    // WHY: an amendment made while this gate was away must be in force before the first call.
    if amended {
        policy::load(&checked, &running, &road).await;
    }
    drop(running.road.set(Arc::clone(&road)));
    if !amended {
        policy::load(&checked, &running, &road).await;
    }
    let _ = running.judged.set(());
    canary::follow(&checked, &running, &road);
    health::follow(&running);
    running.update_readiness();
    Ok(())
}

/// The parts that the road is built from.
async fn parts(
    checked: &Checked,
    running: &Running,
    toolbox: Toolbox,
    commands: Commands,
) -> Result<enforce::Parts, Error> {
    let recordings = checked.config.replay.recordings.as_deref();
    let replaying = Replaying {
        whole: checked.replay.as_ref().map(|stage| Arc::<Player>::clone(&stage.player) as _),
        fork: checked.forked.as_ref().map(|forked| Arc::<Forked>::clone(forked) as _),
        recordings: recordings.map(|dir| Arc::new(RecordingStore::at(dir)) as _),
    };
    Ok(enforce::Parts {
        settings: settings(checked, running).await?,
        ledger: running.ledger.clone(),
        toolbox,
        agents: Agents::from(&checked.live().callers),
        tokens: Arc::clone(&checked.tokens),
        clock: Arc::clone(&checked.clock),
        entropy: Arc::clone(&checked.entropy),
        metrics: Arc::clone(&checked.metrics),
        signers: approvers::signers(checked, &running.ledger),
        commands,
        replaying,
    })
}

/// The bounds of the road, as they are configured.
async fn settings(checked: &Checked, running: &Running) -> Result<enforce::Settings, Error> {
    let (config, limits) = (&checked.config, &checked.config.limits);
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok(enforce::Settings {
        in_flight_max: count(limits.in_flight_max),
        model_streams_max: count(limits.model_streams_max),
        open_runs_max: count(limits.open_runs_max),
        hold: Duration::from_secs(limits.hold_seconds),
        run_idle: Duration::from_secs(limits.run_idle_seconds),
        run_wall: Some(Duration::from_secs(limits.run_wall_seconds)),
        pending_max: count(config.approvals.pending_max),
        pending_all_max: count(config.approvals.pending_all_max),
        passkeys: config.approvals.passkeys,
        attested: config.attested.clone(),
        switch_file: Some(config.control.switch_file.clone()),
        manifest_threshold: config.trust.manifest_threshold,
        self_test: config.self_test.at_start,
        isolation: bounds::isolation(checked, running),
        taint: config.taint.settings(),
        bounds: bounds::bounds(checked).await?,
        ..enforce::Settings::default()
    })
}

/// Reads what the chain had in force, and refuses older manifests.
async fn newest(checked: &Checked, running: &Running) -> Result<(), Error> {
    let (live, lists) = (checked.live(), lists::configured(&checked.config));
    while let Err(error) = checked.versions.read(&running.ledger, &live.callers, &lists).await {
        running.wait_out(error).await?;
    }
    checked.versions.check(&live.callers).map_err(Error::wrong)
}

/// Records the manifests that are in force.
async fn bind(checked: &Checked, running: &Running, road: &Road) -> Result<(), Error> {
    let live = checked.live();
    for manifest in live.callers.manifests() {
        while let Err(error) = road.bind_manifest(manifest).await {
            running.wait_out(error).await?;
        }
    }
    checked.versions.keep(&live.callers);
    Ok(())
}
