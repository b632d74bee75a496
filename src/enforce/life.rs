//! A run from `run.opened` to `run.sealed`: opening, what it is shown, holds that run out, sealing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Notify, RwLock, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::Fault;
use super::docket::Docket;
use super::rejected::Rejected;
use super::run::{Place, Run, Runs, Sealed, State};
use super::{Engine, Parts, Road, Settings};
use crate::clock::{random16, random32};
use crate::domain::code::Code;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::Json;
use crate::domain::tier::{Binding, Tier};
use crate::domain::time::Timestamp;
use crate::identity::manifest::Manifest;
use crate::identity::{self, Caller};
use crate::ledger::drafts::{self, Written, clip};
use crate::ledger::entry::{Draft, Kind};
use crate::ledger::permit::Receipt;
use crate::ledger::tail::Phase;
use crate::ledger::{self, Ledger, RecoveredRun, recover};
use crate::limits::Usage;
use crate::policy::PolicyEngine;
use crate::policy::input::AgentFacts;
use crate::telemetry::trace;

/// What an agent claims when it opens a run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Opening {
    /// Requested model id.
    pub model: String,
    /// SHA-256 of the instructions the agent runs with, 64 hex digits each.
    pub instructions: Vec<String>,
    /// Tools the agent has loaded.
    pub tools: Vec<String>,
    /// `enforce` or empty.
    pub mode: String,
    /// Labels: claims, never authority.
    pub labels: BTreeMap<String, String>,
    /// W3C trace context from the caller.
    pub traceparent: Option<String>,
}

/// A run that was opened. The token is given once and never stored.
pub struct Opened {
    /// The run.
    pub run: RunId,
    /// The run token.
    pub token: String,
    /// Until when the token works at the latest.
    pub expires: Option<Timestamp>,
    /// `claimed` or `observed`.
    pub binding: &'static str,
    /// Where it is on the books.
    pub receipt: Receipt,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").field("run", &self.run).finish_non_exhaustive()
    }
}

/// One tool as the agent is shown it.
#[derive(Clone, PartialEq, Debug)]
pub struct ToolView {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema (2020-12) of its arguments, canonical.
    pub input_schema: Vec<u8>,
    /// Effective tier.
    pub tier: &'static str,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// `sha256:` definition digest.
    pub definition: String,
}

/// Labels of one run at most, and bytes of a name and a value.
const LABELS_MAX: (usize, usize, usize) = (32, 64, 256);

impl Road {
    /// The gate over these parts. It serves once a policy is activated and the ledger is ready.
    #[must_use]
    pub fn new(settings: Settings, parts: Parts) -> Arc<Self> {
        let Parts { ledger, toolbox, tokens, clock, entropy, metrics } = parts;
        let slots = Arc::new(Semaphore::new(settings.in_flight_max));
        Arc::new(Self {
            salt: random32(&*entropy),
            settings,
            ledger,
            toolbox,
            tokens,
            clock,
            entropy,
            metrics,
            engine: ArcSwap::from_pointee(None),
            docket: Docket::new(),
            turn: RwLock::new(()),
            runs: Runs::default(),
            rejected: Rejected::default(),
            slots,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    /// The books.
    #[must_use]
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The bundle in force.
    #[must_use]
    pub fn engine(&self) -> Engine {
        self.engine.load().as_ref().clone()
    }

    /// Runs that are open, and calls on the road.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        let free = self.slots.available_permits();
        (self.runs.len(), self.settings.in_flight_max.saturating_sub(free))
    }

    /// Puts a bundle in force: every decision made before stands before `policy.activated` in the
    /// ledger, every one made after stands behind it.
    ///
    /// # Errors
    /// The ledger's; the old bundle stays in force, except after `Unknown`: the activation may be
    /// on the books, and then nothing judged by the old one may follow it.
    pub async fn activate(
        &self,
        engine: Arc<dyn PolicyEngine>,
        name: &str,
        version: &str,
    ) -> Result<Receipt, ledger::Error> {
        let layers = engine.layers().iter().map(|layer| {
            Json::object([
                ("layer", Json::from(layer.layer.as_str())),
                ("digest", Json::from(layer.digest.prefixed())),
            ])
        });
        let data = Json::object([
            ("name", Json::from(clip(name, 128))),
            ("version", Json::from(clip(version, 64))),
            ("layers", layers.collect::<Vec<_>>().into()),
        ]);
        let policy = Some(engine.digest());
        let written = Written::bare(Draft { policy, ..Draft::of(Kind::PolicyActivated, data) });
        let _turn = self.turn.write().await;
        let recorded = self.ledger.record(written).await;
        // WHY: in doubt, the new bundle is the right one. Everything judged by it from here on stands
        // behind the activation in the same chain, and cannot become durable without it.
        if matches!(recorded, Ok(_) | Err(ledger::Error::Unknown)) {
            self.engine.store(Arc::new(Some(engine)));
            self.docket.forget();
        }
        recorded
    }

    /// Records that this manifest is the one in force for its agent.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn bind_manifest(&self, manifest: &Manifest) -> Result<Receipt, ledger::Error> {
        let data = Json::object([
            ("agent", Json::from(manifest.name.as_str())),
            ("version", Json::from(manifest.version.to_string())),
            ("digest", Json::from(manifest.digest.prefixed())),
            ("binding", Json::from(Binding::Claimed.as_str())),
        ]);
        self.ledger.record(Written::bare(Draft::of(Kind::ManifestBound, data))).await
    }

    /// Opens a run for this caller, after its claims were held against its manifest.
    ///
    /// # Errors
    /// `manifest.mismatch`, `not_ready`, `request.malformed`, `ledger.*`, `shutdown`, `overloaded`.
    pub async fn open_run(
        self: &Arc<Self>,
        caller: &Caller,
        opening: Opening,
    ) -> Result<Opened, Fault> {
        // On a task of its own: a caller that hangs up must not leave a run nobody watches.
        let (road, caller) = (Arc::clone(self), caller.clone());
        let opening = self.tasks.spawn(async move { road.try_open(&caller, opening).await });
        let lost = |_| Err(Fault::new(Code::LedgerUnknown, "the opening was lost"));
        let opened = opening.await.unwrap_or_else(lost);
        if let Err(fault) = &opened {
            self.reject(fault.code);
        }
        opened
    }

    async fn try_open(
        self: &Arc<Self>,
        caller: &Caller,
        opening: Opening,
    ) -> Result<Opened, Fault> {
        self.may_open(&opening)?;
        let manifest = &caller.manifest;
        let now = self.clock.now();
        let binding = self.check_claims(manifest, &opening, now).await?;
        let id = RunId::from_random(random16(&*self.entropy));
        let (token, hash) = self.tokens.issue(&*self.entropy);
        let expires = manifest.limits.wall_seconds.map(|s| now.plus(Duration::from_secs(s)));
        let data = run_opened(caller, &opening, binding, &hash, expires);
        let draft = Draft { run: Some(id), ..Draft::of(Kind::RunOpened, data) };
        let receipt = match self.ledger.record(Written::bare(draft)).await {
            Ok(receipt) => receipt,
            Err(error) => {
                if error == ledger::Error::Unknown {
                    self.seal_stray(id);
                }
                return Err(Fault::of_ledger(&error));
            }
        };
        let run = Arc::new(Run {
            id,
            manifest: Arc::clone(manifest),
            agent: agent_facts(manifest, binding),
            auth: caller.auth.clone(),
            opened_at: now,
            expires,
            labels: opening.labels,
            token: hash,
            state: Mutex::new(State::default()),
            released: AtomicU64::new(0),
            idle: Notify::new(),
        });
        self.runs.insert(&run);
        self.watch_wall(&run);
        Ok(Opened { run: id, token, expires, binding: binding.as_str(), receipt })
    }

    fn may_open(&self, opening: &Opening) -> Result<(), Fault> {
        if self.stop.is_cancelled() {
            return Err(Fault::new(Code::Shutdown, "the gate is draining"));
        }
        if self.engine.load().is_none() {
            return Err(Fault::new(Code::NotReady, "no policy bundle is in force"));
        }
        if self.runs.len() >= self.settings.open_runs_max {
            let mut fault = Fault::new(Code::Overloaded, "too many runs are open");
            fault.retry_after = Some(Duration::from_secs(5));
            return Err(fault);
        }
        if !matches!(opening.mode.as_str(), "" | "enforce") {
            let message =
                format!("mode `{}` is not supported by this build", clip(&opening.mode, 32));
            return Err(Fault::new(Code::RequestMalformed, message).detail("run.mode"));
        }
        let (most, name, value) = LABELS_MAX;
        let too_long = opening.labels.iter().any(|(k, v)| k.len() > name || v.len() > value);
        if opening.labels.len() > most || too_long {
            let message = format!("at most {most} labels of {name} and {value} bytes");
            return Err(Fault::new(Code::RequestMalformed, message).detail("run.labels"));
        }
        Ok(())
    }

    /// Validity and binding; a mismatch is recorded as `manifest.refused` before it is told.
    async fn check_claims(
        &self,
        manifest: &Manifest,
        opening: &Opening,
        now: Timestamp,
    ) -> Result<Binding, Fault> {
        let bound = identity::bind(manifest, &opening.model, &opening.instructions, &opening.tools);
        let valid = manifest.not_before <= now && now < manifest.not_after;
        let (detail, message, reasons) = match bound {
            Ok(binding) if valid => return Ok(binding),
            Ok(_) => {
                let message = "the manifest is outside its validity".to_owned();
                ("manifest.expired".to_owned(), message, Vec::new())
            }
            Err(mismatch) => {
                let first = mismatch.reasons.first();
                let detail = first.map(|r| r.detail.clone()).unwrap_or_default();
                let message = first.map(|r| r.message.clone()).unwrap_or_default();
                (detail, message, mismatch.reasons)
            }
        };
        let data = Json::object([
            ("agent", Json::from(manifest.name.as_str())),
            ("code", Json::from(detail.as_str())),
        ]);
        let recorded =
            self.ledger.record(Written::bare(Draft::of(Kind::ManifestRefused, data))).await;
        let receipt = recorded.map_err(|e| Fault::of_ledger(&e))?;
        let mut fault = Fault::new(Code::ManifestMismatch, message).detail(detail);
        fault.reasons = reasons;
        fault.receipt = Some(receipt);
        Err(fault)
    }

    /// The tools that exist for this run's agent, by name.
    ///
    /// # Errors
    /// `run.sealed`.
    pub fn list_tools(&self, run: &Arc<Run>) -> Result<Vec<ToolView>, Fault> {
        if run.is_over() {
            return Err(Fault::new(Code::RunSealed, "the run is sealed"));
        }
        let mut views: Vec<ToolView> = run
            .manifest
            .tools
            .iter()
            .filter_map(|grant| {
                let tool = self.toolbox.get(&grant.name)?;
                let pinned = grant.definition.is_none_or(|pin| pin == tool.facts.definition);
                let tier = grant.tier.unwrap_or(Tier::T0).max(tool.facts.tier);
                pinned.then(|| ToolView {
                    name: grant.name.to_string(),
                    description: tool.description.clone(),
                    input_schema: tool.input_schema.clone(),
                    tier: tier.as_str(),
                    read_only: tool.facts.read_only,
                    definition: tool.facts.definition.prefixed(),
                })
            })
            .collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(views)
    }

    /// Ends the run: waits for its calls, cancels held ones, writes `run.sealed`.
    ///
    /// Sealing a sealed run gives the first answer again.
    ///
    /// # Errors
    /// `ledger.*`: the run stays closed to new calls and sealing may be asked again.
    pub async fn seal_run(self: &Arc<Self>, run: &Arc<Run>) -> Result<Sealed, Fault> {
        let (road, run) = (Arc::clone(self), Arc::clone(run));
        let sealing = self.tasks.spawn(async move { road.seal(&run, "requested").await });
        sealing.await.unwrap_or_else(|_| Err(Fault::new(Code::LedgerUnknown, "sealing was lost")))
    }

    async fn seal(&self, run: &Arc<Run>, reason: &str) -> Result<Sealed, Fault> {
        {
            let mut state = run.state.lock();
            if let Some(sealed) = &state.sealed {
                return Ok(sealed.clone());
            }
            state.closing = true;
        }
        run.quiet().await;
        for call in run.held() {
            let ended = recover::held_ended(run.id, &call, false, "run sealed");
            // `CallTaken`: it expired in the same moment, and that is on the books.
            match self.ledger.owe(ended).await {
                Ok(_) | Err(ledger::Error::CallTaken) => run.unheld(&call),
                Err(error) => return Err(Fault::of_ledger(&error)),
            }
        }
        let receipt = match self.ledger.record(recover::sealing(run.id, reason)).await {
            // An earlier try was in doubt and is on the books.
            Err(ledger::Error::RunNotOpen) => self.ledger.seal_of(&run.id).await,
            recorded => recorded,
        };
        let receipt = receipt.map_err(|e| Fault::of_ledger(&e))?;
        let sealed = Sealed { entries: receipt.run_seq.saturating_add(1), receipt };
        run.state.lock().sealed = Some(sealed.clone());
        self.runs.sealed(run);
        Ok(sealed)
    }

    /// Ends a held call when its time is over, unless it ends otherwise first.
    pub(super) fn watch_hold(&self, run: &Arc<Run>, call: &CallId, expires: Timestamp) {
        let left = expires.millis().saturating_sub(self.clock.now().millis());
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        let (run, call) = (Arc::clone(run), call.clone());
        let (ledger, stop) = (self.ledger.clone(), self.stop.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(left) => {}
            }
            let waits = matches!(run.state.lock().calls.get(&call), Some(Place::Held));
            if waits {
                let ended = recover::held_ended(run.id, &call, true, "no approval in time");
                drop(ledger.owe(ended).await);
                run.unheld(&call);
            }
        });
    }

    /// Seals the run when its wall time is over.
    fn watch_wall(self: &Arc<Self>, run: &Arc<Run>) {
        let Some(expires) = run.expires else { return };
        let left = expires.millis().saturating_sub(self.clock.now().millis());
        let left = Duration::from_millis(u64::try_from(left).unwrap_or(0));
        let (road, run) = (Arc::clone(self), Arc::clone(run));
        self.tasks.spawn(async move {
            tokio::select! {
                biased;
                () = road.stop.cancelled() => return,
                () = tokio::time::sleep(left) => {}
            }
            let mut pause = Duration::from_millis(100);
            while road.seal(&run, "wall_seconds").await.is_err() {
                tokio::select! {
                    biased;
                    () = road.stop.cancelled() => return,
                    () = tokio::time::sleep(pause) => {}
                }
                pause = pause.saturating_mul(2).min(Duration::from_secs(5));
            }
        });
    }

    /// Takes up runs that were open when this writer last ended. A run whose manifest is no longer in
    /// force is sealed.
    pub fn resume(self: &Arc<Self>, recovered: Vec<RecoveredRun>, manifests: &[Arc<Manifest>]) {
        for found in recovered {
            match resumed(&found, manifests) {
                Some(run) => {
                    let run = Arc::new(run);
                    self.runs.insert(&run);
                    for (call, expires) in found.held() {
                        self.watch_hold(&run, call, expires);
                    }
                    self.watch_wall(&run);
                }
                None => self.seal_orphan(found),
            }
        }
    }

    /// A run that may have been opened after its caller was answered: nobody has its token.
    fn seal_stray(&self, id: RunId) {
        let ledger = self.ledger.clone();
        self.tasks.spawn(async move {
            drop(ledger.owe(recover::sealing(id, "not_started")).await);
        });
    }

    fn seal_orphan(&self, found: RecoveredRun) {
        let ledger = self.ledger.clone();
        self.tasks.spawn(async move {
            for (call, _) in found.held() {
                drop(ledger.owe(recover::held_ended(found.run, call, false, "orphaned")).await);
            }
            drop(ledger.owe(recover::sealing(found.run, "orphaned")).await);
        });
    }

    /// Puts the summary of rejected requests on the books, until the gate stops.
    pub fn summarise(self: &Arc<Self>) {
        let road = Arc::clone(self);
        self.tasks.spawn(async move {
            let mut over = false;
            while !over {
                tokio::select! {
                    biased;
                    () = road.stop.cancelled() => over = true,
                    () = tokio::time::sleep(road.settings.reject_period) => {}
                }
                for written in road.rejected.take() {
                    drop(road.ledger.record(written).await);
                }
            }
        });
    }

    /// Takes no new work and waits for what is on the road; runs stay open for the next life.
    pub async fn drain(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Whether the gate takes no new work.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Runs that are open now.
    #[must_use]
    pub fn open_runs(&self) -> Vec<Arc<Run>> {
        self.runs.open()
    }
}

fn agent_facts(manifest: &Manifest, binding: Binding) -> AgentFacts {
    AgentFacts {
        id: manifest.name.clone(),
        version: manifest.version.to_string(),
        owner: manifest.owner.clone(),
        labels: manifest.labels.clone(),
        manifest: manifest.digest,
        binding,
    }
}

fn run_opened(
    caller: &Caller,
    opening: &Opening,
    binding: Binding,
    token: &Digest,
    expires: Option<Timestamp>,
) -> Json {
    let manifest = &caller.manifest;
    let labels = opening
        .labels
        .iter()
        .map(|(k, v)| Json::object([("k", Json::from(k.as_str())), ("v", Json::from(v.as_str()))]));
    let instructions = opening.instructions.iter().take(16).map(|i| Json::from(clip(i, 80)));
    let mut data = vec![
        ("agent", Json::from(manifest.name.as_str())),
        ("version", Json::from(manifest.version.to_string())),
        ("manifest", Json::from(manifest.digest.prefixed())),
        ("mode", Json::from("enforce")),
        ("binding", Json::from(binding.as_str())),
        ("labels", labels.collect::<Vec<_>>().into()),
        ("auth", drafts::auth(&caller.auth)),
        ("model", Json::from(clip(&opening.model, 128))),
        ("instructions", instructions.collect::<Vec<_>>().into()),
        ("token_hash", Json::from(token.hex())),
    ];
    data.extend(expires.map(|e| ("expires", Json::from(e.to_string()))));
    let trace = opening.traceparent.as_deref().filter(|t| trace::valid_traceparent(t));
    data.extend(trace.map(|t| ("traceparent", Json::from(t))));
    Json::object(data)
}

/// The run as its entries tell it, if its manifest is still the one in force.
fn resumed(found: &RecoveredRun, manifests: &[Arc<Manifest>]) -> Option<Run> {
    let data = &found.opened.draft.data;
    let text = |name: &str| data.get(name).and_then(Json::as_str);
    let digest = Digest::parse(text("manifest")?)?;
    let manifest = manifests.iter().find(|m| m.digest == digest)?;
    let auth = data.get("auth")?;
    let labels = data.get("labels").and_then(Json::as_array).unwrap_or_default();
    let pair = |label: &Json| {
        let text = |name| label.get(name).and_then(Json::as_str).map(str::to_owned);
        Some((text("k")?, text("v")?))
    };
    let (mut errors, mut denied) = (0_u64, 0_u64);
    let mut calls = BTreeMap::new();
    for (call, phase) in &found.calls {
        let place = match phase {
            Phase::Held(_) => Place::Held,
            Phase::Authorized | Phase::Over(_) => Place::Booked,
        };
        match phase {
            Phase::Over(Kind::CallFailed | Kind::CallUnknown) => errors = errors.saturating_add(1),
            Phase::Over(Kind::CallDenied) => denied = denied.saturating_add(1),
            Phase::Held(_) | Phase::Authorized | Phase::Over(_) => {}
        }
        calls.insert(call.clone(), place);
    }
    let asked = u64::try_from(calls.len()).unwrap_or(u64::MAX);
    let usage = Usage::resumed(asked, errors, denied);
    Some(Run {
        id: found.run,
        manifest: Arc::clone(manifest),
        agent: agent_facts(manifest, Binding::Claimed),
        auth: crate::domain::call::Auth {
            method: auth.get("method")?.as_str()?.to_owned(),
            uid: auth.get("uid").and_then(Json::as_u64).and_then(|u| u32::try_from(u).ok()),
            token: auth.get("token").and_then(Json::as_str).map(str::to_owned),
        },
        opened_at: found.opened.ts,
        expires: text("expires").and_then(Timestamp::parse),
        labels: labels.iter().filter_map(pair).collect(),
        token: Digest::parse(text("token_hash")?)?,
        state: Mutex::new(State { usage, calls, ..State::default() }),
        released: AtomicU64::new(found.last_seq),
        idle: Notify::new(),
    })
}
