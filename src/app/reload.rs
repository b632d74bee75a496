//! The configuration and everything it names, followed while the gate runs.
//!
//! Looked at every second and on request. A change is put in force whole or not at all: configuration,
//! manifests, callers, operators, trusted keys, tools and policy bundle are read as one state, and files that
//! change while they are read are read again. What only a start can change refuses the whole change.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinHandle;

use super::checked::{self, Checked, Live};
use super::running::Running;
use super::tools::{self, BoundTools};
use super::{approvers, policy};
use crate::config::archive::Archived;
use crate::config::{self, Config};
use crate::crypto::files::FileMarks;
use crate::enforce::{Agents, AgentsUpdate, Road};
use crate::identity::{envelope_path, templates};
use crate::ledger;
use crate::policy::activation::Candidate;
use crate::tool::mcp::Upstreams;

/// What the gate takes over while it runs: sections, or fields of one. Not
/// `trust.manifest_threshold`: orders against keys are checked against the one of the start.
const TAKEN: [&str; 17] = [
    "agents",
    "approvals.owner_may_approve",
    "approvals.signers",
    "lock",
    "operators",
    "policy.bundle",
    "policy.deadline_ms",
    "policy.lint",
    "servers",
    "tools",
    "trust.approver_keys",
    "trust.approver_threshold",
    "trust.kubernetes",
    "trust.lock_keys",
    "trust.manifest_keys",
    "trust.policy_keys",
    "trust.policy_threshold",
];

/// Files, and how they were.
pub(super) struct Followed {
    /// As they were when they were last read. `None`: they are to be read again.
    pub read: Option<FileMarks>,
    /// As they were at the last look, if that was not as they were read.
    moving: Option<FileMarks>,
}

impl Followed {
    /// Takes the marks made before the files were read: a later change is then read again.
    pub const fn new(read: FileMarks) -> Self {
        Self { read: Some(read), moving: None }
    }

    /// Whether the files differ from those that were read, and have not changed since the last
    /// look: so no half-written file is read.
    pub fn due(&mut self) -> bool {
        let Some(read) = &self.read else { return true };
        let now = read.again();
        let moved = now != *read;
        let still = self.moving.as_ref() == Some(&now);
        self.moving = moved.then_some(now);
        moved && still
    }

    /// Notes that they were read as these marks have them; none: they are to be read again.
    pub fn was_read(&mut self, seen: Option<FileMarks>) {
        *self = Self { read: seen, moving: None };
    }
}

/// Files that are followed, and read by a task that ends with a `T`.
pub(super) struct Watched<T> {
    files: Followed,
    /// The current read, with the files' state before it.
    reading: Option<JoinHandle<(FileMarks, T)>>,
    /// Whether another request came after the current read began, which may have missed its
    /// changes.
    again: bool,
}

/// The number of entries that record the new state, or why it is not in force.
type GateRead = Result<usize, Unchanged>;

/// The files' state before the read, and the outcome.
pub(super) type ReloadOutcome = (FileMarks, GateRead);

/// Why the new state is not in force.
pub(super) enum Unchanged {
    /// Everything that is wrong.
    Refused(Vec<String>),
    /// The files are still changing, or the ledger takes nothing just now: try again after the
    /// delay.
    Later(Delay),
}

/// Why a change is tried again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Delay {
    /// Files are being changed.
    #[error("the files changed while they were read")]
    Changing,
    /// The change cannot be recorded now.
    #[error(transparent)]
    Ledger(#[from] ledger::Error),
}

impl<T> Watched<T> {
    /// Takes the marks made before the start read the files.
    pub const fn new(read: FileMarks) -> Self {
        Self { files: Followed::new(read), reading: None, again: false }
    }

    /// Whether the files are to be read again.
    pub fn due(&mut self) -> bool {
        self.reading.is_none() && self.files.due()
    }

    /// Starts this read, or has the files read again after the current one.
    pub fn start(&mut self, read: impl FnOnce() -> JoinHandle<(FileMarks, T)>) {
        match self.reading {
            Some(_) => self.again = true,
            None => self.reading = Some(read()),
        }
    }

    /// What the current read ends with, or what `lost` makes of a task that was lost. Cancel-safe:
    /// may be dropped and called again.
    pub async fn ended(&mut self, lost: impl FnOnce(String) -> (FileMarks, T)) -> (FileMarks, T) {
        let Some(reading) = &mut self.reading else { return std::future::pending().await };
        let outcome = reading.await;
        self.reading = None;
        outcome.unwrap_or_else(|why| lost(why.to_string()))
    }

    /// Notes that the files were read as these marks have them.
    pub fn was_read(&mut self, seen: FileMarks) {
        self.files.was_read((!std::mem::take(&mut self.again)).then_some(seen));
    }

    /// Has the files read again.
    pub fn read_again(&mut self) {
        self.files.was_read(None);
    }
}

impl Watched<GateRead> {
    /// Starts a task that reads everything again and puts it in force: a recorded change is in
    /// force even if the gate is asked to end meanwhile.
    pub fn begin(&mut self, checked: &Arc<Checked>, running: &Arc<Running>) {
        // WHY: the first bundle is not yet in force, and would come to be so after a newer one.
        let Some(road) = running.road.get().filter(|_| running.judged.get().is_some()) else {
            return;
        };
        if checked.replay.is_some() {
            // A replay has no files to reload.
            return;
        }
        self.start(|| {
            let (checked, running) = (Arc::clone(checked), Arc::clone(running));
            let road = Arc::clone(road);
            tokio::spawn(async move { read_and_put(&checked, &running, &road).await })
        });
    }

    /// The outcome of the current read. Cancel-safe: may be dropped and called again.
    pub async fn outcome(&mut self, checked: &Checked) -> ReloadOutcome {
        let refused = |why| Err(Unchanged::Refused(vec![why]));
        self.ended(|why| (files(&checked.live().config), refused(why))).await
    }

    /// Logs the outcome.
    pub async fn finish(
        &mut self,
        checked: &Checked,
        running: &Running,
        (seen, outcome): ReloadOutcome,
    ) {
        self.was_read(seen);
        match outcome {
            Ok(recorded) => {
                running.refused.lock().clear();
                checked.metrics.config_read(true);
                tracing::info!(recorded, "reloaded the configuration");
            }
            Err(Unchanged::Later(why)) => {
                tracing::warn!(%why, "the new configuration is not in force yet");
                self.read_again();
            }
            Err(Unchanged::Refused(problems)) => {
                checked.metrics.config_read(false);
                for why in &problems {
                    tracing::error!(%why, "the configuration was refused; the old state stays in force");
                }
                *running.refused.lock() = problems.iter().map(refused_note).collect();
            }
        }
        if let (Some(constitution), Some(road)) = (running.constitution.get(), running.road.get()) {
            constitution.look_again(road).await;
        }
        running.update_readiness();
    }
}

/// What readiness says of a change that is not in force.
pub(super) fn refused_note(why: &String) -> String {
    format!("configuration: {why}; the old state stays in force")
}

/// Reads everything and puts it in force.
async fn read_and_put(
    checked: &Arc<Checked>,
    running: &Arc<Running>,
    road: &Arc<Road>,
) -> ReloadOutcome {
    let (before, of) = (running.upstreams.load_full(), Arc::clone(checked));
    let reading = tokio::task::spawn_blocking(move || read_again(&of, &before));
    let (seen, read) = match reading.await {
        Ok(read) => read,
        Err(lost) => (files(&checked.live().config), Err(vec![lost.to_string()])),
    };
    let outcome = match read {
        Ok((live, tools)) => put(checked, running, road, (live, tools), &seen).await,
        Err(problems) => Err(Unchanged::Refused(problems)),
    };
    // WHY: parts of two states are no valid state, whether they load or not.
    let is_torn = matches!(outcome, Err(Unchanged::Refused(_))) && seen.changed();
    let outcome = if is_torn { Err(Unchanged::Later(Delay::Changing)) } else { outcome };
    (seen, outcome)
}

/// A state that was read and checked, or everything that is wrong with it.
type Read = Result<(Live, BoundTools), Vec<String>>;

/// The marks of the files from before the read, and the new state. Blocks.
fn read_again(checked: &Checked, before: &Upstreams) -> (FileMarks, Read) {
    let live = checked.live();
    // Reading an archive lays its files out anew, so they are marked after that.
    let seen = match &live.config.archived {
        Some(archived) => FileMarks::of(archived.files()),
        None => files(&live.config),
    };
    let next = match live.config.again(&config::environment) {
        Ok(next) => next,
        Err(problems) => {
            let seen = seen.and(files(&live.config));
            return (seen, Err(problems.iter().map(ToString::to_string).collect()));
        }
    };
    // It may name other files now. WHY: mark them before reading, so that a change in between
    // counts.
    let seen = seen.and(files(&next));
    (seen, state(checked, next, before))
}

/// The state that a configuration describes.
fn state(checked: &Checked, next: Config, before: &Upstreams) -> Read {
    let mut restart = differing(&checked.config, &next, &TAKEN);
    if checked.config.sockets() != next.sockets() {
        restart.push("agents[].callers[].socket".to_owned());
    }
    if restart.is_empty() {
        let tools = tools::open_after(&next, before);
        let live = checked::live(next, tools, &checked.tokens, checked.clock.now());
        let (live, tools) = live.map_err(checked::texts)?;
        checked.versions.check(&live.callers).map_err(|why| vec![why.to_string()])?;
        restart.extend(ordered(checked, &live).then(|| "agents[].ordered".to_owned()));
        restart.extend(unjudged(checked, &live).then(|| "policy.bundle".to_owned()));
        restart.extend(unheard(checked, &live).then(|| "operators".to_owned()));
        if restart.is_empty() {
            return Ok((live, tools));
        }
    }
    Err(vec![format!("needs a restart: {}", restart.join(", "))])
}

/// Whether an agent's runs would begin or cease to make one call at a time: only a start decides
/// that.
fn ordered(checked: &Checked, next: &Live) -> bool {
    let mut agents = next.config.agents.iter().zip(next.callers.manifests());
    agents.any(|(agent, manifest)| agent.ordered != checked.ordered.contains(&manifest.name))
}

/// Whether the configuration no longer names a bundle: the one in force would go on judging,
/// whatever its signer.
fn unjudged(checked: &Checked, next: &Live) -> bool {
    next.config.policy.bundle.is_none() && checked.live().config.policy.bundle.is_some()
}

/// Whether operators are named although no operator API was opened at the start.
fn unheard(checked: &Checked, next: &Live) -> bool {
    let none = checked.config.operators.is_empty() && checked.config.approvals.webhook.is_none();
    none && !next.operators.is_empty()
}

/// Puts a state that was read from these files in force: everything, or nothing.
async fn put(
    checked: &Arc<Checked>,
    running: &Running,
    road: &Arc<Road>,
    (live, BoundTools { toolbox, upstreams }): (Live, BoundTools),
    seen: &FileMarks,
) -> Result<usize, Unchanged> {
    let refused = |why: String| Unchanged::Refused(vec![why]);
    let bundle = match (&live.config.policy.bundle, running.constitution.get()) {
        (Some(dir), None) => {
            let of_bundle =
                |why: policy::Error| refused(format!("policy.bundle `{}`: {why}", dir.display()));
            let examined =
                policy::examine(checked, &live, &running.ledger, toolbox.tiers(), dir.clone())
                    .await;
            let (candidate, findings) = examined.map_err(of_bundle)?;
            let notes = policy::linted(&findings, live.config.policy.lint).map_err(of_bundle)?;
            Some((candidate, notes))
        }
        // Amendments decide about the bundle in force, or neither state names one.
        (_, Some(_)) | (None, None) => None,
    };
    let in_force = checked.bundle.load_full();
    let judged_by = bundle.as_ref().map(|(next, _)| &next.bundle).or(in_force.as_deref());
    let unfit = judged_by.map(|bundle| policy::unfit(live.callers.manifests(), bundle));
    if let Some(finding) = unfit.into_iter().flatten().next() {
        return Err(refused(finding.message));
    }
    live.keep_manifests(&checked.artifacts).map_err(|error| refused(error.to_string()))?;
    if let Some((Candidate { bundle, .. }, _)) = &bundle {
        let kept = checked.artifacts.put_policy(&bundle.digest(), bundle.tar());
        kept.map_err(|e| refused(e.to_string()))?;
    }
    if seen.changed() {
        return Err(Unchanged::Later(Delay::Changing));
    }
    let policy = bundle.as_ref().map(|(candidate, _)| policy::signed(candidate, &live));
    let change = AgentsUpdate { policy, toolbox, agents: Some(Agents::from(&live.callers)) };
    let recorded = road.change(change).await;
    let recorded = recorded.map_err(|error| Unchanged::Later(error.into()))?;
    upstreams.start_all();
    running.upstreams.store(Arc::new(upstreams));
    if let Some((Candidate { bundle, .. }, notes)) = bundle {
        *running.findings.lock() = notes;
        policy::remember(checked, bundle);
    }
    checked.versions.keep(&live.callers);
    take_over(checked, running, road, live);
    if let Some(list) = approvers::signed(checked, &checked.live(), &running.ledger)
        && let Err(why) = list.bind().await
    {
        // The next attempt records it; no approval counts by it before that.
        tracing::warn!(why = %why.why, "the list of approvers could not be recorded yet");
    }
    Ok(recorded)
}

/// Updates everything beside the road that depends on the state in force.
fn take_over(checked: &Arc<Checked>, running: &Running, road: &Arc<Road>, live: Live) {
    if let Some(api) = &running.listening.operator_api {
        api.set_operators(live.operators.clone());
    }
    checked.live.store(Arc::new(live));
    road.replace_signers(approvers::signers(checked, &running.ledger));
}

/// The configuration file and everything it names that is followed, as it is now.
pub(super) fn files(config: &Config) -> FileMarks {
    let agents = config.agents.iter();
    let manifests = agents.flat_map(|one| [one.manifest.clone(), envelope_path(&one.manifest)]);
    let templates = config.agents.iter().flat_map(|one| {
        let dir = templates::directory(&one.manifest);
        templates::files(&one.manifest).into_iter().chain([dir])
    });
    let callers = config.agents.iter().flat_map(|one| &one.callers);
    let tokens = callers.filter_map(|one| one.token_file.clone());
    let operators = config.operators.iter().filter_map(|one| one.token_file.clone());
    let trust = &config.trust;
    let keys = [&trust.manifest_keys, &trust.policy_keys, &trust.approver_keys, &trust.lock_keys];
    let cluster = trust.kubernetes.iter().map(|cluster| cluster.keys.clone());
    let keys = keys.into_iter().flatten().cloned().chain(cluster);
    let named: Vec<PathBuf> = config.file.iter().cloned().chain(manifests).chain(tokens).collect();
    let archived = config.archived.iter().flat_map(Archived::files);
    let more = operators.chain(keys).chain(tools::files(config)).chain(archived);
    let bundle = config.policy.bundle.as_deref().map(FileMarks::below).unwrap_or_default();
    FileMarks::of(named.into_iter().chain(more).chain(templates)).and(bundle)
}

/// Sections, or fields of partly reloadable ones, that differ from those at the start and are not among those taken over.
pub(super) fn differing(started: &Config, next: &Config, taken: &[&str]) -> Vec<String> {
    let text = |config: &Config| serde_json::to_value(config).unwrap_or_default();
    let (started, next) = (text(started), text(next));
    different((&started, &next), "", taken)
}

fn different((started, next): (&Value, &Value), within: &str, taken: &[&str]) -> Vec<String> {
    let members = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let (started, next) = (members(started), members(next));
    let names: std::collections::BTreeSet<&String> = started.keys().chain(next.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        let (old, new) = (started.get(name), next.get(name));
        let path = if within.is_empty() { name.clone() } else { format!("{within}.{name}") };
        if old == new || taken.contains(&path.as_str()) {
            continue;
        }
        let is_above =
            |taken: &&str| taken.strip_prefix(&path).is_some_and(|rest| rest.starts_with('.'));
        let above = within.is_empty() || taken.iter().any(is_above);
        let parts = above && old.is_some_and(Value::is_object);
        match (parts, old, new) {
            (true, Some(old), Some(new)) => found.extend(different((old, new), &path, taken)),
            _ => found.push(path),
        }
    }
    found
}
