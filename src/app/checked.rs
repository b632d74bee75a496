//! Everything the configuration names, loaded and checked before anything is started.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};

use super::enrolment::Enrolled;
use super::named::{Area, NamedLine};
use super::tools::{self, BoundTools};
use super::versions::Versions;
use super::{Error, ReplayExtent, ReplayParts, System, bounds, reload};
use crate::clock::{Clock, Entropy, SystemClock, SystemEntropy};
use crate::config::Config;
use crate::crypto::files::FileMarks;
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::signer::{self, Signer};
use crate::domain::time::Timestamp;
use crate::enforce::Stops;
use crate::evidence;
use crate::evidence::artifacts::Artifacts;
use crate::firewall;
use crate::identity::callers::{Callers, Trust};
use crate::identity::token::RunTokens;
use crate::ledger::enrolment::{Certifier, Local};
use crate::ledger::time::LedgerTime;
use crate::operator::operators::Operators;
use crate::policy::activation;
use crate::policy::bundle::Bundle;
use crate::replay::environment::RecordedClock;
use crate::replay::fork::Forked;
use crate::telemetry::metrics::Metrics;

/// One state of everything that may change while the gate runs. It was checked as a whole, and its
/// readers use it as a whole.
#[derive(Clone)]
pub(super) struct Live {
    pub config: Config,
    pub callers: Arc<Callers>,
    pub policy_trust: activation::Trust,
    pub approver_keys: Vec<PublicKey>,
    pub operators: Operators,
}

/// Everything that is checked before anything is started.
pub(super) struct Checked {
    /// The configuration it was started with.
    pub config: Config,
    pub clock: Arc<dyn Clock>,
    pub entropy: Arc<dyn Entropy>,
    pub tokens: Arc<RunTokens>,
    /// What is in force of all that may change while the gate runs.
    pub live: ArcSwap<Live>,
    /// The bundle in force.
    pub bundle: ArcSwapOption<Bundle>,
    pub artifacts: Artifacts,
    /// The newest of everything that was in force on the chain.
    pub versions: Arc<Versions>,
    /// What operators have stopped.
    pub stops: Arc<Stops>,
    pub enrolment: Arc<dyn Certifier>,
    pub metrics: Arc<Metrics>,
    /// What is replayed, if anything is.
    pub replay: Option<ReplayParts>,
    /// The recording that one run continues, if any.
    pub forked: Option<Arc<Forked>>,
    /// Files that are followed, as they were before any was read.
    pub read: FileMarks,
    /// Agents whose runs make one call at a time, for as long as this gate runs.
    pub ordered: BTreeSet<String>,
}

impl Checked {
    /// Host and process, for people.
    pub fn writer(&self) -> String {
        format!("{}/{}", host(), std::process::id())
    }

    /// What is in force now, to be looked at as one.
    pub fn live(&self) -> Arc<Live> {
        self.live.load_full()
    }
}

impl Live {
    /// Keeps every manifest, and its templates, for the verifiers of evidence.
    pub fn keep_manifests(&self, artifacts: &Artifacts) -> Result<(), evidence::Error> {
        for one in self.callers.manifests() {
            // First: after a crash, a manifest that is stored has its templates.
            for (digest, template) in &one.templates {
                artifacts.put_template(digest, template.text().as_bytes())?;
            }
            artifacts.put_manifest(&one.digest, &one.yaml, &one.envelope)?;
        }
        Ok(())
    }
}

/// Loads and checks everything that may change while the gate runs, with these tools. It reports
/// all errors at once.
pub(super) fn live(
    config: Config,
    tools: Result<BoundTools, Vec<String>>,
    tokens: &Arc<RunTokens>,
    now: Timestamp,
) -> Result<(Live, BoundTools), Vec<NamedLine>> {
    let mut of_keys = Vec::new();
    let manifest_keys = keys(&config.trust.manifest_keys, &mut of_keys);
    let policy_keys = keys(&config.trust.policy_keys, &mut of_keys);
    let approver_keys = keys(&config.trust.approver_keys, &mut of_keys);
    let mut problems = Area::Trust.lines(of_keys);
    let callers = callers(&config, &manifest_keys, tokens, now);
    let operators = Operators::load(&config.operators);
    let (callers, tools, operators) = match (callers, tools, operators) {
        (Ok(callers), Ok(tools), Ok(operators)) if problems.is_empty() => {
            (callers, tools, operators)
        }
        (callers, tools, operators) => {
            problems.extend(Area::Agents.lines(callers.err().unwrap_or_default()));
            problems.extend(Area::Tools.lines(tools.err().unwrap_or_default()));
            let of_operators = operators.err().unwrap_or_default();
            problems.extend(Area::Operators.lines(of_operators.iter().map(ToString::to_string)));
            return Err(problems);
        }
    };
    let unpriced = bounds::unpriced(callers.manifests(), &tools.toolbox);
    if !unpriced.is_empty() {
        return Err(Area::Tools.lines(unpriced));
    }
    let policy_trust =
        activation::Trust { keys: policy_keys, threshold: config.trust.policy_threshold };
    let live = Live { config, callers: Arc::new(callers), policy_trust, approver_keys, operators };
    Ok((live, tools))
}

/// The manifests that the agents name, and the callers of each agent. Every problem is one line,
/// with its code and the remedy.
pub(super) fn callers(
    config: &Config,
    keys: &[PublicKey],
    tokens: &Arc<RunTokens>,
    now: Timestamp,
) -> Result<Callers, Vec<String>> {
    let socket = config.listen.socket.as_deref();
    let kubernetes = config.trust.kubernetes.as_deref();
    let trust = Trust { keys, threshold: config.trust.manifest_threshold, socket, kubernetes };
    Callers::load(&config.agents, &trust, tokens, now).map_err(|errors| {
        let lines = errors.iter().flat_map(|error| {
            let (code, next) = (error.code(), error.next());
            let next = next.map(|next| format!("; {next}")).unwrap_or_default();
            error.to_string().lines().map(|l| format!("{l} ({code}){next}")).collect::<Vec<_>>()
        });
        lines.collect()
    })
}

/// The name of this machine.
pub(super) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Loads and checks everything the configuration names; reports all that is wrong.
pub(super) fn check(
    config: Config,
    extent: Option<ReplayExtent>,
) -> Result<(Checked, BoundTools), Error> {
    let (stage, forked) = match extent {
        None => (None, None),
        Some(ReplayExtent::Whole(stage)) => (Some(stage), None),
        Some(ReplayExtent::Fork(forked)) => (None, Some(forked)),
    };
    let clock: Arc<dyn Clock> = match &stage {
        Some(stage) => Arc::<RecordedClock>::clone(&stage.clock),
        None => Arc::new(LedgerTime::of(SystemClock::new())),
    };
    let entropy: Arc<dyn Entropy> = Arc::new(SystemEntropy);
    let read = reload::files(&config);
    private_dir(&config.state)?;
    let tokens = RunTokens::open(&config.state, &*entropy).map(Arc::new);
    let tokens = tokens.map_err(System::from)?;
    let opened = match &stage {
        Some(stage) => tools::recorded(stage),
        None => tools::open(&config),
    };
    recordings(&config)?;
    let (live, tools) = live(config.clone(), opened, &tokens, clock.now())
        .map_err(|lines| Error::Config(texts(lines)))?;
    live.callers.strangers().iter().for_each(|warning| tracing::warn!("{warning}"));
    let artifacts = Artifacts::open(&config.state.join("artifacts")).map_err(System::from)?;
    live.keep_manifests(&artifacts).map_err(System::from)?;
    if let Some(rules) = firewall::document_in_force() {
        artifacts.put_firewall(&firewall::rules_digest(), rules).map_err(System::from)?;
    }
    let names = tools.toolbox.iter().map(|tool| tool.facts.name.to_string());
    let names = names.collect::<Vec<_>>();
    let metrics = Arc::new(Metrics::new(names, env!("CARGO_PKG_VERSION"), "source"));
    let checked = Checked {
        enrolment: certifier(&config, &clock, &*entropy)?,
        ordered: ordered(&live),
        live: ArcSwap::from_pointee(live),
        bundle: ArcSwapOption::empty(),
        config,
        clock,
        entropy,
        tokens,
        artifacts,
        versions: Arc::default(),
        stops: Arc::default(),
        metrics,
        replay: stage,
        forked,
        read,
    };
    Ok((checked, tools))
}

/// What lines say, without their areas.
pub(super) fn texts(lines: Vec<NamedLine>) -> Vec<String> {
    lines.into_iter().map(|line| line.text).collect()
}

/// The agents whose runs make one call at a time.
fn ordered(live: &Live) -> BTreeSet<String> {
    let agents = live.config.agents.iter().zip(live.callers.manifests());
    let ordered = agents.filter(|(agent, _)| agent.ordered);
    ordered.map(|(_, manifest)| manifest.name.clone()).collect()
}

/// Where the recordings lie that runs may go on from has to be there.
fn recordings(config: &Config) -> Result<(), Error> {
    let dir = config.replay.recordings.as_deref();
    let missing = dir.filter(|dir| !dir.is_dir());
    missing.map_or(Ok(()), |dir| {
        Err(Error::wrong(format!("`replay.recordings`: `{}` is not a directory", dir.display())))
    })
}

pub(super) fn keys(files: &[PathBuf], problems: &mut Vec<String>) -> Vec<PublicKey> {
    let mut keys = Vec::new();
    for file in files {
        match PublicKey::load_all(file) {
            Ok(more) => keys.extend(more),
            Err(error) => problems.push(error.to_string()),
        }
    }
    keys
}

pub(super) fn private_dir(dir: &Path) -> Result<(), System> {
    private_dir_for("state directory", dir)
}

/// The same, for what an error calls it.
pub(super) fn private_dir_for(what: &'static str, dir: &Path) -> Result<(), System> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|source| {
        let path = dir.display().to_string();
        System::Directory { what, path, source }
    })
}

/// The key that certifies this machine's epoch keys; made the first time, with its public half beside
/// it for verifiers to pin.
pub(super) fn enrolment_key(
    config: &Config,
    entropy: &dyn Entropy,
) -> Result<Arc<dyn Signer>, Error> {
    let state = &config.state;
    let (path, own) = match &config.fleet.enrolment_key {
        Some(path) => (path.clone(), false),
        None => (state.join("enrolment.key"), true),
    };
    if own && !path.exists() {
        let key = SecretKey::generate(entropy);
        key.store(&path).map_err(System::from)?;
    }
    let key = signer::open(&path, &crate::config::environment);
    let key = key.map_err(System::Enrolment)?;
    pin(state, &key.public())?;
    Ok(key)
}

/// Who certifies this machine's epoch keys: its own enrolment key, or the hub.
fn certifier(
    config: &Config,
    clock: &Arc<dyn Clock>,
    entropy: &dyn Entropy,
) -> Result<Arc<dyn Certifier>, Error> {
    let Some(enrolment) = &config.enrolment else {
        return Ok(Arc::new(Local(enrolment_key(config, entropy)?)));
    };
    let enrolled = Enrolled::of(enrolment, super::fleet::tenant(config), clock);
    let enrolled = enrolled.map_err(Error::wrong)?;
    pin(&config.state, &enrolled.public())?;
    Ok(Arc::new(enrolled))
}

/// The public half of the key that certifies writers, below the state directory.
pub(super) const ENROLMENT_PUBLIC: &str = "enrolment.key.pub";

/// Puts the public half where verifiers find it.
fn pin(state: &Path, key: &PublicKey) -> Result<(), System> {
    // Each time: a process killed between the two files must not leave verifiers without theirs.
    let (public, pem) = (state.join(ENROLMENT_PUBLIC), key.to_pem());
    if std::fs::read_to_string(&public).ok().as_deref() != Some(pem.as_str()) {
        std::fs::write(public, pem).map_err(System::Pin)?;
    }
    Ok(())
}
