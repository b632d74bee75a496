//! What agents find when they try to get past the gate: `wicketgate config doctor`, run as the agent.
//!
//! A report is the word of the caller who hands it in. An opening that it names is believed: until the same
//! caller reports none, every call is denied where `isolation: enforced`. That there is none is a claim; it is
//! asked for again and again, and a gate that does not hear it denies that caller's calls.

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

/// What a report has to have tried, each at least once.
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

/// An attempt at something that stands behind the gate.
pub const BACKEND: &str = "gate.backend";

/// How long a challenge can be answered.
const NONCE_LASTS: Duration = Duration::from_secs(60);
const NAME_BYTES_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 128;
/// Openings that are named to people.
const NAMED_MAX: usize = 8;

/// What the gate demands of the place where agents run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Isolation {
    /// Whether calls hang on it.
    pub enforced: bool,
    /// How long a report holds.
    pub stale_after: Duration,
    /// The gate's own uid: no agent may have it. `None`: not looked at.
    pub uid: Option<u32>,
    /// Where operators are answered: no agent may connect there.
    pub operators: Option<SocketAddr>,
    /// Where agents with tokens are answered: no agent may answer there itself.
    pub addresses: Vec<SocketAddr>,
    /// Files and directories that no agent may change.
    pub paths: Vec<PathBuf>,
    /// Host and port of what the gate itself connects to, beside what its tools do: no agent may get there.
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

/// One attempt to get past the gate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probe {
    /// Which, of [`PROBES`] or one that is asked for besides.
    pub probe: String,
    /// At what.
    pub target: String,
    /// How it ended.
    pub outcome: Attempt,
    /// What happened, for a person.
    pub detail: String,
}

impl Probe {
    /// Reads one of a report; `None` if a part of it is too long or its outcome no word.
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

/// What a caller is to test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Challenge {
    /// Names the report to come.
    pub nonce: String,
    /// `advisory` or `enforced`.
    pub isolation: &'static str,
    /// See [`Isolation::operators`].
    pub operators: Option<SocketAddr>,
    /// See [`Isolation::addresses`].
    pub addresses: Vec<SocketAddr>,
    /// See [`Isolation::paths`].
    pub paths: Vec<PathBuf>,
    /// What stands behind the gate and its tools, and whether the gate gets there.
    pub backends: Vec<Backend>,
}

/// What a test found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PostureReport {
    /// That of the challenge.
    pub nonce: String,
    /// Name and version of what tested.
    pub doctor: String,
    /// Every attempt.
    pub probes: Vec<Probe>,
}

/// A report that is on the books.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    /// What speaks against the caller's isolation; nothing: it passed.
    pub reasons: Vec<String>,
    /// Where it is.
    pub receipt: Receipt,
}

/// Who reports: an agent, and how it proved that it is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Holder {
    agent: String,
    uid: Option<u32>,
    token: Option<String>,
    /// Its SPIFFE id, which outlives a certificate; else the certificate.
    workload: Option<String>,
}

impl Holder {
    fn of(agent: &str, auth: &CallerAuth) -> Self {
        let workload = auth.spiffe.as_ref().or(auth.certificate.as_ref()).cloned();
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

/// What one holder said last.
#[derive(Debug)]
struct HolderReport {
    /// On the clock that only goes forward.
    at: Duration,
    /// What spoke against it.
    failed: Option<String>,
}

/// A challenge that was given.
#[derive(Debug)]
struct IssuedChallenge {
    nonce: String,
    /// Until when it can be answered.
    until: Duration,
    /// What stands behind the gate: each has to be tried.
    backends: Vec<String>,
}

#[derive(Debug, Default)]
struct HolderState {
    /// The open challenge of each holder.
    nonces: BTreeMap<Holder, IssuedChallenge>,
    seen: BTreeMap<Holder, HolderReport>,
}

/// What the gate demands of the places where its agents run, and knows of them.
pub(super) struct Postures {
    isolation: Isolation,
    clock: Arc<dyn Clock>,
    known: Mutex<HolderState>,
    found: LastProbe,
}

impl Postures {
    /// Nothing is known yet.
    pub fn new(isolation: Isolation, clock: &Arc<dyn Clock>) -> Self {
        let clock = Arc::clone(clock);
        Self { isolation, clock, known: Mutex::default(), found: LastProbe::default() }
    }

    /// Takes the nonce of this holder, whatever it says: a wrong guess ends the challenge too. What stands behind
    /// the gate had to be tried.
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

    /// What the gate sees itself: a caller with the gate's uid or root's is held by nothing.
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

    /// What the agents' isolation has against a call of this agent by this caller.
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
        Some(LayerReason {
            code: Code::PolicyDenied,
            detail: detail.into(),
            message,
            rule: detail.into(),
        })
    }

    fn is_stale(&self, seen: &HolderReport) -> bool {
        let age = self.clock.monotonic().saturating_sub(seen.at);
        age > self.isolation.stale_after
    }

    /// What keeps the gate from being ready, because of where its agents run.
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
    /// Begins a test of this caller's isolation.
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
        // One for each holder: asking again takes the place of the one before.
        posture.known.lock().nonces.insert(holder, given);
        let isolation = posture.demanded().as_str();
        Ok(Challenge { nonce, isolation, operators, addresses, paths, backends })
    }

    /// Puts on the books what this caller found. An opening counts at once, that there is none only once it
    /// is on the books.
    ///
    /// # Errors
    /// `identity.missing`: not the nonce this caller was given, or too late; `overloaded`; what the ledger says.
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
            // What was heard while this one was written down is newer.
            if known.seen.get(&holder).is_none_or(|seen| seen.at <= at) {
                known.seen.insert(holder, HolderReport { at, failed });
            }
        }
        Ok(Observed { reasons, receipt })
    }
}

impl HolderState {
    /// Every holder whose last report named an opening, however old that is.
    fn failed(&self) -> impl Iterator<Item = String> {
        self.seen
            .iter()
            .filter_map(|(holder, seen)| Some(format!("{holder}: {}", seen.failed.as_ref()?)))
    }
}

/// What had to be tried and was not.
fn missing(report: &PostureReport, backends: &[String]) -> Vec<String> {
    let tried = |name: &str| report.probes.iter().any(|probe| probe.probe == name);
    let at = |target: &str| {
        report.probes.iter().any(|probe| probe.probe == BACKEND && probe.target == target)
    };
    let names = PROBES.into_iter().filter(|name| !tried(name)).map(str::to_owned);
    let backends = backends.iter().filter(|target| !at(target));
    names.chain(backends.map(|target| format!("{BACKEND} {target}"))).collect()
}

/// What a report has against the isolation of its caller: doubt is an opening.
fn against(probes: &[Probe], missing: &[String]) -> Vec<String> {
    let open = probes.iter().filter(|probe| probe.outcome != Attempt::Blocked);
    let open = open.map(|p| format!("{} {} is {}", p.probe, p.target, p.outcome));
    let untried = missing.iter().map(|name| format!("{name} was not tried"));
    let all: Vec<String> = open.chain(untried).collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    let rest = (more > 0).then(|| format!("and {more} more"));
    all.into_iter().take(NAMED_MAX).chain(rest).collect()
}
