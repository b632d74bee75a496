//! Opens a run: checks the agent's claims against its manifest, then records the opening.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::answer::Fault;
use super::delegate::ChildPosition;
use super::hold_turns::HoldTurns;
use super::implicit::Thread;
use super::keeping::REPLAY;
use super::opened::{Opens, claims};
use super::run::{Run, RunState};
use super::sight::RunModels;
use super::{ParentClaim, Road, delegate, request};
use crate::clock::random16;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::seed::Seed;
use crate::domain::tier::{Binding, Face};
use crate::domain::time::Timestamp;
use crate::identity::lineage::Grants;
use crate::identity::manifest::{Manifest, Mode};
use crate::identity::{self, Caller, Mismatch};
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::permit::Receipt;
use crate::ledger::{self};
use crate::limits::{Usage, shares};
use crate::policy::input::AgentFacts;
use crate::record::chain::ManifestRefused;
use crate::record::debug_by;
use crate::record::decided::clip;
use crate::record::run::{Implicit, RunName};
use crate::record::{Draft, Role};
use crate::taint::{ReadingCopy, Taint};

/// What an agent claims when it opens a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opening {
    /// Requested model id.
    pub model: String,
    /// SHA-256 of the instructions the agent runs with, 64 hex digits each.
    pub instructions: Vec<String>,
    /// Tools the agent has loaded.
    pub tools: Vec<String>,
    /// `enforce`, `simulate`, or empty. A manifest with `simulate` makes every run simulated.
    pub mode: String,
    /// Labels: claims, never authority.
    pub labels: BTreeMap<String, String>,
    /// W3C trace context from the caller.
    pub traceparent: Option<String>,
    /// Store only commitments, no payloads.
    pub incognito: bool,
    /// The parent run, if the new run is a child.
    pub parent: Option<ParentClaim>,
    /// `record` or `deterministic`: the agent may have more kept than its manifest requires, never
    /// less.
    pub replay: String,
    /// The recording to replay, `sha256:…`; empty: that of the gate, if it has one.
    pub recording: String,
    /// The first step that `recording` does not answer, counted from 1; 0: it answers all of them.
    pub fork_at: u64,
}

/// A run that was opened. The token is returned once and never stored.
pub struct OpenedRun {
    /// The run.
    pub run: RunId,
    /// The run token.
    pub token: String,
    /// The latest time at which the token works.
    pub expires: Option<Timestamp>,
    /// `unclaimed`, `claimed` or `observed`.
    pub binding: &'static str,
    /// For a deterministic run, the values its agent may use as randomness and as the time.
    pub determined: Option<(Seed, Timestamp)>,
    /// The receipt of `run.opened`.
    pub receipt: Receipt,
}

debug_by!(OpenedRun: run);

/// The key by which a run is found.
pub(super) enum Handle {
    /// The hash of its token.
    Token(Digest),
    /// The thread of work it belongs to, and the hash that names the thread across restarts.
    Thread(Thread, Digest),
}

impl Handle {
    pub(super) const fn hash(&self) -> &Digest {
        match self {
            Self::Token(hash) | Self::Thread(_, hash) => hash,
        }
    }

    /// The key of the run itself: a thread may have several runs, one after another.
    fn token(&self, id: &RunId) -> Digest {
        match self {
            Self::Token(hash) => *hash,
            Self::Thread(_, hash) => token_of(hash, id),
        }
    }

    const fn thread(&self) -> Option<Digest> {
        match self {
            Self::Token(_) => None,
            Self::Thread(_, hash) => Some(*hash),
        }
    }

    /// The kind of thread and the name that its requests give. A session id is not recorded,
    /// because it lets every client that knows it use the session.
    pub(super) fn thread_facts(&self) -> (Option<Implicit>, Option<RunName>) {
        match self {
            Self::Token(_) => (None, None),
            Self::Thread(thread, _) => {
                let Thread::Named(name) = thread else {
                    return (Implicit::parse(thread.as_str()), None);
                };
                (Some(Implicit::Named), RunName::parse(name.as_str()))
            }
        }
    }
}

/// The key of one run of a thread; no run token hashes to it.
pub(super) fn token_of(thread: &Digest, run: &RunId) -> Digest {
    Digest::of(&[b"wicketgate/implicit-run/1\0", thread.as_bytes(), run.to_string().as_bytes()])
}

/// Largest number of labels of one run, and bytes of a name and of a value.
const LABELS_MAX: (usize, usize, usize) = (32, 64, 256);

impl Road {
    /// Opens a run for this caller, after checking its claims against its manifest.
    ///
    /// # Errors
    /// `manifest.mismatch`, `not_ready`, `request.malformed`, `ledger.*`, `shutdown`, `overloaded`.
    pub async fn open_run(
        self: &Arc<Self>,
        face: Face,
        caller: &Caller,
        opening: Opening,
    ) -> Result<OpenedRun, Fault> {
        // On a task of its own: if the caller disconnects, the run is still watched.
        let (road, caller) = (Arc::clone(self), caller.clone());
        let opening = self.tasks.spawn(async move { road.try_open(face, &caller, opening).await });
        let lost = |_| Err(Fault::new(Code::LedgerUnknown, "the opening was lost"));
        let opened = opening.await.unwrap_or_else(lost);
        if let Err(fault) = &opened {
            self.budget.reject(fault.code);
        }
        opened
    }

    async fn try_open(
        self: &Arc<Self>,
        face: Face,
        caller: &Caller,
        opening: Opening,
    ) -> Result<OpenedRun, Fault> {
        let place = self.may_open(caller, &opening)?;
        // WHY: no manifest may be replaced between this point and the record.
        let _order = self.in_force.deciding().await;
        let caller = &self.in_force.now().agents.current(caller)?;
        let below = match &opening.parent {
            Some(claim) => Some(self.below(caller, claim).await?),
            None => None,
        };
        let (child, below) = below.unzip();
        let caller = child.as_ref().unwrap_or(caller);
        let above = below.as_ref().map(ChildPosition::parent).map(AsRef::as_ref);
        let binding = self.check_claims(caller, face, Some(&opening), above).await?;
        let (token, hash) = self.runs.tokens.issue(&*self.entropy);
        let handle = Handle::Token(hash);
        let (run, receipt) =
            self.put_open(caller, below, opening, binding, (&handle, place)).await?;
        let (id, expires, determined) = (run.id, run.expires, run.determined());
        Ok(OpenedRun { run: id, token, expires, binding: binding.as_str(), determined, receipt })
    }

    /// Opens the run of a thread, for a face that carries no claims.
    pub(super) async fn open_thread(
        self: &Arc<Self>,
        face: Face,
        caller: &Caller,
        opening: Opening,
        handle: &Handle,
    ) -> Result<Arc<Run>, Fault> {
        let place = self.may_open(caller, &opening)?;
        let _order = self.in_force.deciding().await;
        let caller = &self.in_force.now().agents.current(caller)?;
        let binding = self.check_claims(caller, face, None, None).await?;
        Ok(self.put_open(caller, None, opening, binding, (handle, place)).await?.0)
    }

    /// Records the opening and starts watching the run.
    async fn put_open(
        self: &Arc<Self>,
        caller: &Caller,
        below: Option<ChildPosition>,
        mut opening: Opening,
        binding: Binding,
        (handle, place): (&Handle, shares::ShareSlot),
    ) -> Result<(Arc<Run>, Receipt), Fault> {
        let manifest = &caller.manifest;
        let parent = below.as_ref().map(ChildPosition::parent).cloned();
        let opener = Arc::clone(below.as_ref().map_or(manifest, |below| &below.opener));
        self.budget.pace(&opener.name, &caller.auth)?;
        let hidden = parent.as_ref().is_some_and(|parent| parent.incognito);
        opening.incognito = self.incognito(manifest, opening.incognito, hidden).await?;
        let keeping =
            self.replaying.keeping(&*self.entropy, &opening, manifest, parent.as_deref()).await?;
        let granted = grants(manifest, parent.as_deref());
        let (now, id) = (self.clock.now(), keeping.run_id(|| random16(&*self.entropy)));
        let wall = manifest.limits.wall_seconds.map(Duration::from_secs);
        let expires = wall.or(self.settings.run_wall).map(|wall| now.plus(wall));
        let expires = earlier(expires, parent.as_ref().and_then(|parent| parent.expires));
        let mode = mode_of(&opening, manifest, parent.as_deref());
        let agent = agent_facts(manifest, binding, parent.as_deref());
        let proof = below.as_ref().map(|below| below.proof);
        let recorded = keeping.fork_prefix().map(|prefix| ReadingCopy::labelled(prefix.labels()));
        let of_caller = (opener.name.as_str(), &caller.auth);
        let known = Self::inherited(parent.as_deref(), recorded.as_ref());
        let labels = self.labels_at_opening(of_caller, &known);
        let opens =
            Opens { caller, opening: &opening, agent: &agent, mode, handle, proof, expires };
        let draft = Draft { run: Some(id), ..Draft::of(opens.entry(keeping.facts(now), labels)) };
        if opening.incognito {
            self.ledger.keep_nothing_of(id);
        }
        let mut written = DraftWithPayloads::bare(draft);
        if let Some(tools) = keeping.tools(&granted, &self.in_force.toolbox()) {
            written.keep(&*self.entropy, Role::Tools, &tools);
        }
        let receipt = match self.ledger.record(written).await {
            Ok(receipt) => receipt,
            Err(error) => {
                if error == ledger::Error::Unknown {
                    self.seal_stray(id, below.map(|below| below.slot));
                }
                return Err(Fault::of_ledger(&error));
            }
        };
        keeping.put_open(&id, &receipt);
        let run = Arc::new(Run {
            id,
            manifest: Arc::clone(manifest),
            grants: granted,
            parent,
            opener,
            agent,
            auth: caller.auth.clone(),
            opened_at: now,
            expires,
            mode,
            labels: opening.labels,
            incognito: opening.incognito,
            keeping,
            token: handle.token(&id),
            ordered: self.settings.bounds.ordered.contains(&manifest.name),
            thread: handle.thread(),
            taint: Mutex::new(Taint::knowing(known)),
            models: RunModels::default(),
            state: Mutex::new(self.fresh_state(caller, place)),
            released: AtomicU64::new(0),
            idle: Notify::new(),
            followers: AtomicUsize::new(0),
            statements: HoldTurns::default(),
        });
        self.put_in_force(&run, below);
        Ok((run, receipt))
    }

    /// The state of a run without a call.
    fn fresh_state(&self, caller: &Caller, place: shares::ShareSlot) -> RunState {
        let calls = self.budget.callers.calls(&caller.manifest.name, &caller.auth);
        RunState {
            usage: Usage::default().among(calls),
            touched: self.clock.monotonic(),
            place: Some(place),
            ..RunState::default()
        }
    }

    /// Whether the run keeps only commitments, which its manifest must grant.
    async fn incognito(
        &self,
        manifest: &Manifest,
        asked: bool,
        above: bool,
    ) -> Result<bool, Fault> {
        match identity::incognito(manifest, asked, above) {
            Ok(incognito) => Ok(incognito),
            Err(mismatch) => Err(self.refused(&manifest.name, mismatch).await),
        }
    }

    /// Makes a recorded run available to requests and starts watching it.
    fn put_in_force(self: &Arc<Self>, run: &Arc<Run>, below: Option<ChildPosition>) {
        // WHY first: an order about the run must find what it shares.
        self.share_new_taint(run);
        self.runs.insert(run);
        if let Some(below) = below {
            below.slot.settle(run);
        }
        self.watch_wall(run);
        self.watch_idle(run);
    }

    fn may_open(&self, caller: &Caller, opening: &Opening) -> Result<shares::ShareSlot, Fault> {
        if let Some(condition) = self.condition() {
            return Err(condition.fault());
        }
        self.budget.may_begin(&caller.manifest.name, &caller.auth)?;
        let agents = self.in_force.agents();
        let Some(place) = self.runs.places.take(agents, &caller.manifest.name) else {
            let fault = Fault::new(Code::Overloaded, "too many runs are open");
            return Err(fault.after(Duration::from_secs(5)));
        };
        let modes = ["", Mode::Enforce.as_str(), Mode::Simulate.as_str(), REPLAY];
        if !modes.contains(&opening.mode.as_str()) {
            let mode = clip(&opening.mode, 32);
            let message = format!("mode `{mode}` is neither `enforce` nor `simulate`");
            return Err(Fault::new(Code::RequestMalformed, message).detail("run.mode"));
        }
        let (most, name, value) = LABELS_MAX;
        let too_long = opening.labels.iter().any(|(k, v)| k.len() > name || v.len() > value);
        if opening.labels.len() > most || too_long {
            let message = format!("at most {most} labels of {name} and {value} bytes");
            return Err(Fault::new(Code::RequestMalformed, message).detail("run.labels"));
        }
        let claims = claims(opening);
        request::no_token(&claims)?;
        self.no_secret(&claims)?;
        Ok(place)
    }

    /// Checks validity and binding. A mismatch is recorded as `manifest.refused` before the caller
    /// receives it. `parent`: the parent of the new run.
    async fn check_claims(
        &self,
        caller: &Caller,
        face: Face,
        claims: Option<&Opening>,
        parent: Option<&Run>,
    ) -> Result<Binding, Fault> {
        let (manifest, now) = (&caller.manifest, self.clock.now());
        let bound = match claims {
            Some(made) => identity::bind(manifest, &made.model, &made.instructions, &made.tools),
            None => identity::bind_unclaimed(manifest).map(|without| match face {
                // The gate compares each request with the manifest.
                Face::Llm => Binding::Claimed,
                Face::Grpc | Face::Mcp | Face::Http => without,
            }),
        };
        let valid = manifest.not_before <= now && now < manifest.not_after;
        let asked_at = (caller.auth.method != "internal").then_some(face);
        let stopped = self.stopped_opening(manifest, parent, asked_at);
        let mismatch = match bound {
            _ if let Some(reason) = stopped => Mismatch { reasons: vec![reason] },
            _ if let Some(lapsed) = delegate::lapsed(parent, now) => lapsed,
            // The gate's own calls use no face and run nothing.
            Ok(binding) if valid && caller.auth.method == "internal" => return Ok(binding),
            Ok(binding) if valid => match identity::accept(manifest, face, binding) {
                Ok(()) => return Ok(binding),
                Err(refused) => refused,
            },
            Ok(_) => {
                let message = "the manifest is outside its validity".to_owned();
                return Err(self
                    .refuse(&manifest.name, "manifest.expired".to_owned(), message, Vec::new())
                    .await);
            }
            Err(mismatch) => mismatch,
        };
        Err(self.refused(&manifest.name, mismatch).await)
    }

    /// Records why this agent may not open a run, and returns the fault.
    pub(super) async fn refused(&self, agent: &str, mismatch: Mismatch) -> Fault {
        let first = mismatch.reasons.first();
        let detail = first.map(|r| r.detail.clone()).unwrap_or_default();
        let message = first.map(|r| r.message.clone()).unwrap_or_default();
        self.refuse(agent, detail, message, mismatch.reasons).await
    }

    async fn refuse(
        &self,
        agent: &str,
        detail: String,
        message: String,
        reasons: Vec<LayerReason>,
    ) -> Fault {
        let refused = ManifestRefused { agent: agent.into(), code: detail.as_str().into() };
        let recorded = self.ledger.record(DraftWithPayloads::bare(Draft::of(refused))).await;
        let receipt = match recorded {
            Ok(receipt) => receipt,
            Err(error) => return Fault::of_ledger(&error),
        };
        // An insufficient binding has a code of its own; every other reason is a mismatch.
        let code = match reasons.first() {
            Some(reason) if reason.code == Code::BindingInsufficient => reason.code,
            Some(_) | None => Code::ManifestMismatch,
        };
        let mut fault = Fault::new(code, message).detail(detail);
        fault.reasons = reasons;
        fault.receipt = Some(receipt);
        fault
    }
}

/// Simulation is inherited: neither the opener nor a run above can turn a simulated run into an
/// enforced one.
fn mode_of(opening: &Opening, manifest: &Manifest, parent: Option<&Run>) -> Mode {
    let asked = opening.mode == Mode::Simulate.as_str();
    let above = parent.is_some_and(|parent| parent.mode == Mode::Simulate);
    if asked || above { Mode::Simulate } else { manifest.mode }
}

/// The earlier of two optional times.
pub(super) fn earlier(one: Option<Timestamp>, other: Option<Timestamp>) -> Option<Timestamp> {
    one.into_iter().chain(other).min()
}

/// The tools that exist for a run below `parent`.
pub(super) fn grants(manifest: &Arc<Manifest>, parent: Option<&Run>) -> Grants {
    let manifest = Arc::clone(manifest);
    match parent {
        Some(parent) => parent.grants.below(manifest),
        None => Grants::of(manifest),
    }
}

pub(super) fn agent_facts(
    manifest: &Manifest,
    binding: Binding,
    parent: Option<&Run>,
) -> AgentFacts {
    // A run below must meet at least the binding that the runs above demand.
    let above = parent.map(|parent| parent.agent.tier3);
    AgentFacts {
        tier3: above.into_iter().fold(manifest.binding.tier3, Binding::max),
        delegation: parent.map(Run::delegation_below).unwrap_or_default(),
        id: manifest.name.clone(),
        version: manifest.version.to_string(),
        owner: manifest.owner.clone(),
        labels: manifest.labels.clone(),
        manifest: manifest.digest,
        binding,
    }
}
