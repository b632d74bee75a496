//! The isolation of agents: what they reach when they try to bypass the gate. An agent tests this
//! with `wicketgate config doctor`.
//!
//! A report is a claim of its caller. The gate believes a reported opening: until the same caller
//! reports none, every call is denied where `isolation: enforced`. The absence of openings is only
//! a claim, so the gate requires a new report regularly and denies the calls of a caller whose
//! report is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Road;
use super::agents::Agents;
use super::answer::Fault;
use super::backends::{Backend, LastProbe};
use crate::clock::{Clock, random16};
use crate::domain::call::CallerAuth;
use crate::domain::code::Code;
use crate::domain::decision::LayerReason;
use crate::identity::Caller;
use crate::ledger::drafts::DraftWithPayloads;
use crate::ledger::permit::Receipt;
use crate::record::chain::{Attempt, Observer, PostureObserved};
use crate::record::{self, Draft, Nonce, Text};

/// The probes that a report must contain, each at least once.
pub const PROBES: [&str; 20] = [
    "tcp.public",
    "tcp.private",
    "tcp.metadata",
    "tcp6.public",
    "tcp6.private",
    "tcp6.metadata",
    "udp.dns",
    "udp6.dns",
    "icmp.echo",
    "socket.raw",
    "socket.unix",
    "gate.operators",
    "gate.address",
    "gate.process",
    "gate.files",
    "credentials.token",
    "privileges.capabilities",
    "privileges.escalation",
    "privileges.namespaces",
    "kernel.keys",
];

/// A probe of a backend of the gate.
pub const BACKEND: &str = "gate.backend";

/// How long a challenge can be answered.
const NONCE_LASTS: Duration = Duration::from_secs(60);
const NAME_BYTES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 128;
/// Openings that one message names.
const NAMED_MAX: usize = 8;

/// The isolation that the gate demands for its agents.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Isolation {
    /// Whether calls are denied without it.
    pub enforced: bool,
    /// How long a report is valid.
    pub stale_after: Duration,
    /// The gate's own uid, which no agent may have. `None`: not checked.
    pub uid: Option<u32>,
    /// The operator API's address: no agent may connect to it.
    pub operators: Option<SocketAddr>,
    /// The addresses where the gate serves agents with tokens: no agent may listen there itself.
    pub addresses: Vec<SocketAddr>,
    /// Files and directories that no agent may change.
    pub paths: Vec<PathBuf>,
    /// Backends of the gate other than its tools', as host and port: no agent may reach them.
    pub backends: BTreeSet<(String, u16)>,
}

impl Default for Isolation {
    fn default() -> Self {
        Self {
            enforced: false,
            stale_after: Duration::from_secs(900),
            uid: None,
            operators: None,
            addresses: Vec::new(),
            paths: Vec::new(),
            backends: BTreeSet::new(),
        }
    }
}

/// One attempt to bypass the gate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// The name of the probe, from [`PROBES`] or requested in addition.
    pub probe: String,
    /// The target of the attempt.
    pub target: String,
    /// The outcome of the attempt.
    pub outcome: Attempt,
    /// A description for a human reader.
    pub detail: String,
}

impl Probe {
    /// Reads one probe of a report; `None` if a part is too long or the outcome is unknown.
    #[must_use]
    pub fn parse(probe: String, target: String, outcome: &str, detail: String) -> Option<Self> {
        let outcome = Attempt::parse(outcome)?;
        let fits = probe.len() <= NAME_BYTES_MAX
            && target.len() <= TEXT_BYTES_MAX
            && detail.len() <= TEXT_BYTES_MAX;
        fits.then_some(Self { probe, target, outcome, detail })
    }

    fn recorded(&self) -> record::chain::Probe {
        record::chain::Probe {
            detail: self.detail.as_str().into(),
            outcome: self.outcome,
            probe: self.probe.as_str().into(),
            target: self.target.as_str().into(),
        }
    }
}

/// The probes that a caller must run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// Identifies the report to come.
    pub nonce: String,
    /// `advisory` or `enforced`.
    pub isolation: &'static str,
    /// See [`Isolation::operators`].
    pub operators: Option<SocketAddr>,
    /// See [`Isolation::addresses`].
    pub addresses: Vec<SocketAddr>,
    /// See [`Isolation::paths`].
    pub paths: Vec<PathBuf>,
    /// The backends of the gate and of its tools, and whether the gate reaches them.
    pub backends: Vec<Backend>,
}

/// The report of one test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PostureReport {
    /// The nonce of the challenge.
    pub nonce: String,
    /// Name and version of the testing program.
    pub doctor: String,
    /// Every attempt.
    pub probes: Vec<Probe>,
}

/// A report that is recorded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    /// The findings against the caller's isolation; empty if it passed.
    pub reasons: Vec<String>,
    /// The receipt of the entry.
    pub receipt: Receipt,
}

/// The source of a report: an agent and its proof of identity.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Holder {
    agent: String,
    uid: Option<u32>,
    token: Option<String>,
    /// The SPIFFE id, which outlives a certificate; otherwise the certificate, or the service account.
    workload: Option<String>,
}

impl Holder {
    fn of(agent: &str, auth: &CallerAuth) -> Self {
        let workload = auth.holder().or(auth.account.as_deref()).map(str::to_owned);
        Self { agent: agent.to_owned(), uid: auth.uid, token: auth.token.clone(), workload }
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "agent `{}`", self.agent)?;
        self.uid.map_or(Ok(()), |uid| write!(f, " as uid {uid}"))?;
        self.workload.as_ref().map_or(Ok(()), |name| write!(f, " as {name}"))
    }
}

/// The last report of one holder.
#[derive(Debug)]
struct HolderReport {
    /// When it was made, on the monotonic clock.
    at: Duration,
    /// The finding against it.
    failed: Option<String>,
}

/// A challenge that is open.
#[derive(Debug)]
struct IssuedChallenge {
    nonce: String,
    /// The time until which it can be answered.
    until: Duration,
    /// The backends that the report must try.
    backends: Vec<String>,
}

#[derive(Debug, Default)]
struct HolderState {
    /// The open challenge of each holder.
    nonces: BTreeMap<Holder, IssuedChallenge>,
    seen: BTreeMap<Holder, HolderReport>,
}

/// The isolation that the gate demands, and the reports it has received.
pub(super) struct Postures {
    isolation: Isolation,
    clock: Arc<dyn Clock>,
    known: Mutex<HolderState>,
    found: LastProbe,
}

impl Postures {
    /// Starts without any report.
    pub fn new(isolation: Isolation, clock: &Arc<dyn Clock>) -> Self {
        let clock = Arc::clone(clock);
        Self { isolation, clock, known: Mutex::default(), found: LastProbe::default() }
    }

    /// Uses up the holder's challenge: a wrong nonce ends it too. Returns the backends that the
    /// report must have tried.
    fn spend(&self, holder: &Holder, nonce: &str) -> Result<Vec<String>, Fault> {
        let given = self.known.lock().nonces.remove(holder);
        let now = self.clock.monotonic();
        match given {
            Some(given) if given.nonce == nonce && now < given.until => Ok(given.backends),
            Some(_) | None => {
                let message =
                    "the nonce is not the one this caller was given, or it is used or over";
                Err(Fault::new(Code::IdentityMissing, message).detail("posture.nonce"))
            }
        }
    }

    /// The gate's own observation: a caller with the uid of the gate or of root is not confined.
    fn own_finding(&self, auth: &CallerAuth) -> Option<Probe> {
        let (own, uid) = (self.isolation.uid?, auth.uid?);
        let same = uid == own || uid == 0;
        let outcome = if same { Attempt::Open } else { Attempt::Blocked };
        let detail = if same { "the gate's uid, or root" } else { "another uid than the gate's" };
        let (probe, target) = ("gate.uid".to_owned(), format!("uid {uid}"));
        Some(Probe { probe, target, outcome, detail: detail.to_owned() })
    }

    fn entry(
        &self,
        caller: &Caller,
        report: &PostureReport,
        missing: &[String],
    ) -> Option<PostureObserved> {
        let count = |outcome: Attempt| {
            report.probes.iter().filter(|probe| probe.outcome == outcome).count().into()
        };
        Some(PostureObserved {
            agent: caller.manifest.name.as_str().into(),
            auth: (&caller.auth).into(),
            blocked: count(Attempt::Blocked),
            doctor: report.doctor.as_str().into(),
            isolation: self.demanded(),
            missing: missing.iter().map(Text::from).collect(),
            nonce: Nonce::parse(&report.nonce)?,
            observer: Observer::Agent,
            open: count(Attempt::Open),
            passed: against(&report.probes, &[]).is_empty() && missing.is_empty(),
            probes: report.probes.iter().map(Probe::recorded).collect(),
            unknown: count(Attempt::Unknown),
        })
    }

    const fn demanded(&self) -> record::chain::Isolation {
        use record::chain::Isolation;
        if self.isolation.enforced { Isolation::Enforced } else { Isolation::Advisory }
    }

    /// Why the isolation of agents refuses a call of this agent by this caller.
    pub fn against(&self, agent: &str, auth: &CallerAuth) -> Option<LayerReason> {
        // The gate's own calls run nothing.
        if !self.isolation.enforced || auth.method == "internal" {
            return None;
        }
        let known = self.known.lock();
        let holder = Holder::of(agent, auth);
        let (detail, message) = match known.failed().next() {
            Some(why) => ("isolation.failed", why),
            None => match known.seen.get(&holder) {
                None if known.nonces.contains_key(&holder) => {
                    let what = "a `wicketgate config doctor` has begun and its report has not come";
                    ("isolation.missing", format!("{holder}: {what}"))
                }
                None => {
                    ("isolation.missing", format!("{holder}: no `wicketgate config doctor` yet"))
                }
                Some(seen) if self.is_stale(seen) => (
                    "isolation.stale",
                    format!("{holder}: the last `wicketgate config doctor` is too old"),
                ),
                Some(_) => return None,
            },
        };
        Some(LayerReason::denied(detail, detail, message))
    }

    fn is_stale(&self, seen: &HolderReport) -> bool {
        let age = self.clock.monotonic().saturating_sub(seen.at);
        age > self.isolation.stale_after
    }

    /// Why the isolation of agents keeps the gate from being ready.
    pub fn reasons(&self, agents: &Agents) -> Vec<String> {
        if !self.isolation.enforced {
            return Vec::new();
        }
        let known = self.known.lock();
        let mut reasons: Vec<String> = known
            .failed()
            .map(|why| format!("isolation.failed: {why}: every call is denied"))
            .collect();
        for manifest in agents.manifests() {
            let mut own =
                known.seen.iter().filter(|(holder, _)| holder.agent == manifest.name).peekable();
            let agent = &manifest.name;
            if own.peek().is_none() {
                reasons.push(format!(
                    "isolation.missing: agent `{agent}`: no `wicketgate config doctor` yet"
                ));
            } else if own.all(|(_, seen)| self.is_stale(seen)) {
                let what = "the last `wicketgate config doctor` is too old";
                reasons.push(format!("isolation.stale: agent `{agent}`: {what}"));
            }
        }
        reasons
    }
}

impl Road {
    /// Starts a test of this caller's isolation.
    ///
    /// # Errors
    /// `overloaded`: the caller asks too often.
    pub async fn challenge_posture(&self, caller: &Caller) -> Result<Challenge, Fault> {
        self.budget.pace(&caller.manifest.name, &caller.auth)?;
        let nonce = hex::encode(random16(&*self.entropy));
        let posture = &self.control.posture;
        let Isolation { operators, addresses, paths, mut backends, .. } = posture.isolation.clone();
        backends.extend(self.in_force.toolbox().reaches().iter().cloned());
        let backends = posture.found.look(self.clock.monotonic(), backends).await;
        let until = self.clock.monotonic().saturating_add(NONCE_LASTS);
        let holder = Holder::of(&caller.manifest.name, &caller.auth);
        let tried = backends.iter().map(Backend::target).collect();
        let given = IssuedChallenge { nonce: nonce.clone(), until, backends: tried };
        // One challenge per holder: a new one replaces the one before.
        posture.known.lock().nonces.insert(holder, given);
        let isolation = posture.demanded().as_str();
        Ok(Challenge { nonce, isolation, operators, addresses, paths, backends })
    }

    /// Records this caller's report. A reported opening takes effect at once; a clean report takes
    /// effect once it is recorded.
    ///
    /// # Errors
    /// `identity.missing`: the nonce is not the caller's or is too old; `overloaded`; errors of the
    /// ledger.
    pub async fn observe_posture(
        &self,
        caller: &Caller,
        mut report: PostureReport,
    ) -> Result<Observed, Fault> {
        let posture = &self.control.posture;
        let holder = Holder::of(&caller.manifest.name, &caller.auth);
        let backends = posture.spend(&holder, &report.nonce)?;
        report.probes.extend(posture.own_finding(&caller.auth));
        let missing = missing(&report, &backends);
        let reasons = against(&report.probes, &missing);
        let failed = (!reasons.is_empty()).then(|| reasons.join("; "));
        let at = self.clock.monotonic();
        if failed.is_some() {
            posture
                .known
                .lock()
                .seen
                .insert(holder.clone(), HolderReport { at, failed: failed.clone() });
        }
        let entry = posture.entry(caller, &report, &missing);
        let unknown = || Fault::new(Code::RequestMalformed, "the nonce is not one of this gate");
        let draft = Draft::of(entry.ok_or_else(unknown)?);
        let recorded = self.ledger.record(DraftWithPayloads::bare(draft)).await;
        let receipt = recorded.map_err(|error| Fault::of_ledger(&error))?;
        if failed.is_none() {
            let mut known = posture.known.lock();
            // A report that arrived while this one was being recorded is newer.
            if known.seen.get(&holder).is_none_or(|seen| seen.at <= at) {
                known.seen.insert(holder, HolderReport { at, failed });
            }
        }
        Ok(Observed { reasons, receipt })
    }
}

impl HolderState {
    /// Every holder whose last report named an opening, whatever its age.
    fn failed(&self) -> impl Iterator<Item = String> {
        self.seen
            .iter()
            .filter_map(|(holder, seen)| Some(format!("{holder}: {}", seen.failed.as_ref()?)))
    }
}

/// The required probes that the report lacks.
fn missing(report: &PostureReport, backends: &[String]) -> Vec<String> {
    let tried = |name: &str| report.probes.iter().any(|probe| probe.probe == name);
    let at = |target: &str| {
        report.probes.iter().any(|probe| probe.probe == BACKEND && probe.target == target)
    };
    let names = PROBES.into_iter().filter(|name| !tried(name)).map(str::to_owned);
    let backends = backends.iter().filter(|target| !at(target));
    names.chain(backends.map(|target| format!("{BACKEND} {target}"))).collect()
}

/// The findings of a report against its caller's isolation. An unknown outcome counts as an
/// opening.
fn against(probes: &[Probe], missing: &[String]) -> Vec<String> {
    let open = probes.iter().filter(|probe| probe.outcome != Attempt::Blocked);
    let open = open.map(|p| format!("{} {} is {}", p.probe, p.target, p.outcome));
    let untried = missing.iter().map(|name| format!("{name} was not tried"));
    let all: Vec<String> = open.chain(untried).collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    let rest = (more > 0).then(|| format!("and {more} more"));
    all.into_iter().take(NAMED_MAX).chain(rest).collect()
}
