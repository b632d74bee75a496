//! One world per seed: a store that outlives its processes, the processes ("lives"), and what each
//! caller was told.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::ToolName;
use wicketgate::enforce::{
    self, Agents, Backlog, Bounds, Commands, Policy, Replaying, Road, Signers, Thread,
};
use wicketgate::identity::manifest::{Grant, Manifest, RunLimits};
use wicketgate::identity::token::RunTokens;
use wicketgate::ledger::sequencer::Ending;
use wicketgate::ledger::spool::{LeaseFile, NoJournal};
use wicketgate::ledger::{self, Ledger};
use wicketgate::telemetry::metrics::Metrics;
use wicketgate_support::memory::MemoryStore;

use crate::approvals::Words;
use crate::checks::Shadow;
use crate::faults::{Dice, Disk, ManualClock, Seeded, Sky, Weather};
use crate::inside;
use crate::script::{self, Rules};
use crate::streams;

pub const QUEUE_WAIT: Duration = Duration::from_millis(200);
pub const COMMIT_WAIT: Duration = Duration::from_millis(800);
pub const SETTLE_WAIT: Duration = Duration::from_millis(600);
pub const TOOL_TIMEOUT: Duration = Duration::from_millis(400);
pub const LEASE_TERM: Duration = Duration::from_secs(2);
pub const HOLD: Duration = Duration::from_secs(1);
pub const IDLE: Duration = Duration::from_secs(2);
pub const RUN_IDLE: Duration = Duration::from_secs(6);

/// What is known of one call from outside: what was asked, what ran, what was told.
#[derive(Default)]
pub struct Track {
    pub asked: BTreeSet<Vec<u8>>,
    pub executions: u32,
    pub result: Option<Vec<u8>>,
    /// What a model said piece by piece, whether it left or not.
    pub stream: Option<Vec<u8>>,
    /// Callers who wait, or hung up, by life.
    pub waiting: BTreeMap<u64, i64>,
    /// Somebody asked it to stop.
    pub cancelled: bool,
    /// The final answer that was given.
    pub told: Option<String>,
}

#[derive(Default)]
pub struct Book {
    pub shadow: Shadow,
    pub tracks: BTreeMap<(String, String), Track>,
    pub flaws: Vec<String>,
    /// Runs somebody knows, or hung up on while opening.
    pub opened: BTreeSet<String>,
    /// Every thread somebody asked for.
    pub threads: BTreeSet<Thread>,
    pub answers: BTreeMap<String, u64>,
}

pub struct World {
    pub seed: u64,
    pub memory: MemoryStore,
    pub sky: Arc<Sky>,
    pub clock: Arc<ManualClock>,
    pub book: Mutex<Book>,
    pub dice: Mutex<Dice>,
    pub manifest: Arc<Manifest>,
    /// The agent it delegates to.
    pub helper: Arc<Manifest>,
    pub current: watch::Sender<Option<Arc<Life>>>,
    pub version: AtomicU64,
    signer: Arc<SecretKey>,
    dir: tempfile::TempDir,
    lives: AtomicU64,
    /// Every process that was ever started.
    processes: Mutex<Vec<CancellationToken>>,
    pub in_flight_max: AtomicUsize,
    pub open_runs_max: AtomicUsize,
    /// What lives that are born from now on have beyond their manifests.
    pub bounds: Mutex<Bounds>,
}

/// One process life.
pub struct Life {
    pub number: u64,
    pub road: Arc<Road>,
    pub ledger: Ledger,
    /// The process is gone: it sees nothing and does nothing any more.
    pub dead: CancellationToken,
    /// Asks the writer to end in order.
    pub stop: CancellationToken,
    pub ended: watch::Receiver<Option<Ending>>,
}

impl Life {
    pub fn is_over(&self) -> bool {
        self.dead.is_cancelled() || self.ended.borrow().is_some()
    }

    pub async fn over(&self) {
        let mut ended = self.ended.clone();
        tokio::select! {
            biased;
            () = self.dead.cancelled() => {}
            _ = ended.wait_for(Option::is_some) => {}
        }
    }
}

impl World {
    pub fn new(seed: u64) -> Arc<Self> {
        let mut dice = Dice::new(seed);
        let sky = Sky {
            weather: Mutex::new(Weather::default()),
            dice: Mutex::new(Dice::new(dice.next())),
            faults: AtomicU64::new(0),
            broke: false.into(),
            flaws: Mutex::default(),
        };
        let signer = SecretKey::generate(&Seeded(Mutex::new(Dice::new(dice.next()))));
        let wall = dice.chance(250).then(|| 3 + dice.below(4));
        let in_flight_max = if dice.chance(150) { 3 } else { 64 };
        let shm = std::path::Path::new("/dev/shm");
        let dir = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
        Arc::new(Self {
            seed,
            memory: MemoryStore::new(),
            sky: Arc::new(sky),
            clock: Arc::new(ManualClock::new()),
            book: Mutex::default(),
            manifest: Arc::new(manifest(wall)),
            helper: Arc::new(helper()),
            current: watch::Sender::new(None),
            version: AtomicU64::new(0),
            signer: Arc::new(signer),
            dir: dir.unwrap(),
            lives: AtomicU64::new(0),
            processes: Mutex::default(),
            in_flight_max: AtomicUsize::new(in_flight_max),
            open_runs_max: AtomicUsize::new(20_000),
            bounds: Mutex::default(),
            dice: Mutex::new(dice),
        })
    }

    pub fn flaw(&self, what: impl Into<String>) {
        self.book.lock().flaws.push(what.into());
    }

    /// Somebody waits for this call in this life.
    pub fn waiting(&self, run: &str, call: &str, life: &Life) {
        let mut book = self.book.lock();
        let track = book.tracks.entry((run.to_owned(), call.to_owned())).or_default();
        *track.waiting.entry(life.number).or_default() += 1;
    }

    pub fn forget_lease(&self) {
        drop(std::fs::remove_file(self.dir.path().join("lease")));
    }

    /// A new process on the same store. It takes calls once `current` names it.
    pub fn born(self: &Arc<Self>, remembers: bool) -> (Arc<Life>, Recovered) {
        let number = self.lives.fetch_add(1, Ordering::Relaxed);
        let entropy = Arc::new(Seeded(Mutex::new(Dice::new(self.dice.lock().next()))));
        let dead = CancellationToken::new();
        self.processes.lock().push(dead.clone());
        let disk = Disk {
            memory: self.memory.clone(),
            sky: Arc::clone(&self.sky),
            dead: dead.clone(),
            granted: Mutex::new(None),
        };
        let metrics = Arc::new(Metrics::new(Vec::new(), "0", "simulation"));
        let parts = ledger::LedgerParts {
            store: Arc::new(disk),
            clock: Arc::clone(&self.clock) as _,
            entropy: Arc::clone(&entropy) as _,
            signer: Arc::clone(&self.signer) as _,
            log_key: None,
            journal: Box::new(NoJournal),
            lease_file: remembers.then(|| LeaseFile::at(self.dir.path().join("lease"))),
            metrics: Arc::clone(&metrics),
        };
        let settings = ledger::LedgerSettings {
            writer: format!("life {number}"),
            lease_term: LEASE_TERM,
            heartbeat: Duration::from_millis(700),
            queue_wait: QUEUE_WAIT,
            commit_wait: COMMIT_WAIT,
            queue_max: 256,
            marks: Some(tokens()),
            ..ledger::LedgerSettings::default()
        };
        let (ledger, writer) = Ledger::new(settings, parts);
        let (recovered_out, recovered) = oneshot::channel();
        let (ended_out, ended) = watch::channel(None);
        let stop = CancellationToken::new();
        let (dying, stopping) = (dead.clone(), stop.clone());
        tokio::spawn(async move {
            tokio::select! {
                biased;
                () = dying.cancelled() => {}
                ending = writer.run(stopping, recovered_out) => {
                    ended_out.send_replace(Some(ending));
                }
            }
        });
        let settings = enforce::Settings {
            in_flight_max: self.in_flight_max.load(Ordering::Relaxed),
            open_runs_max: self.open_runs_max.load(Ordering::Relaxed),
            bounds: self.bounds.lock().clone(),
            hold: HOLD,
            idle: IDLE,
            run_idle: RUN_IDLE,
            settle_wait: SETTLE_WAIT,
            reject_period: Duration::from_millis(900),
            judge_apart: false,
            ..enforce::Settings::default()
        };
        let road = Road::new(enforce::Parts {
            settings,
            ledger: ledger.clone(),
            toolbox: script::toolbox(self, number, &dead),
            agents: Agents::fixed([Arc::clone(&self.manifest), Arc::clone(&self.helper)]),
            tokens: tokens(),
            clock: Arc::clone(&self.clock) as _,
            entropy,
            metrics,
            signers: Signers { approvals: Some(Arc::new(Words)), orders: None },
            commands: Commands::default(),
            replaying: Replaying::default(),
        });
        (Arc::new(Life { number, road, ledger, dead, stop, ended }), recovered)
    }

    /// Starts a process as the app does: take the slot, take up runs, activate the bundle, serve.
    pub async fn start(self: &Arc<Self>, remembers: bool) -> Arc<Life> {
        let (life, recovered) = self.born(remembers);
        let runs = tokio::select! {
            biased;
            () = life.over() => None,
            runs = recovered => runs.ok(),
        };
        let Some(runs) = runs else { return life };
        life.road.resume(runs, Backlog::default()).await;
        life.road.summarise();
        while !life.is_over() {
            let activating = self.activate(&life);
            tokio::select! {
                biased;
                () = life.over() => {}
                done = activating => if done {
                    self.current.send_replace(Some(Arc::clone(&life)));
                    break;
                },
            }
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
        life
    }

    /// Puts the next bundle in force; its receipt must stand on the books.
    pub async fn activate(&self, life: &Life) -> bool {
        let rules = Rules::of(self.version.fetch_add(1, Ordering::Relaxed));
        let digest = rules.digest.prefixed();
        let Ok(receipt) =
            life.road.activate(Policy::unsigned(Arc::new(rules), "sim", "1"), None).await
        else {
            return false;
        };
        let mut book = self.book.lock();
        book.shadow.refresh(&self.memory);
        let on_books = book.shadow.at(&receipt.chain, receipt.seq).is_some_and(|link| {
            link.leaf == *receipt.leaf.as_bytes()
                && link.kind() == "policy.activated"
                && link.text("policy") == digest
        });
        if !on_books {
            book.flaws.push("(6) an activation was acknowledged and is not on the books".into());
        }
        true
    }

    /// The process that serves now; waits until there is one.
    pub async fn life(&self) -> Arc<Life> {
        let mut current = self.current.subscribe();
        loop {
            let now = current.borrow_and_update().clone();
            if let Some(life) = now
                && !life.is_over()
            {
                return life;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Kills every process but this one.
    pub fn kill_all_but(&self, life: Option<&Life>) {
        for (at, dead) in self.processes.lock().iter().enumerate() {
            if life.is_none_or(|life| life.number != at as u64) {
                dead.cancel();
            }
        }
    }

    /// Ends a process in order, as the app does on SIGTERM.
    pub async fn stop(&self, life: &Life) {
        drop(tokio::time::timeout(Duration::from_secs(3), life.road.drain()).await);
        life.stop.cancel();
        drop(tokio::time::timeout(Duration::from_secs(8), life.over()).await);
        life.dead.cancel();
    }

    /// Whether the life ended for a reason that may be.
    pub fn judge_ending(&self, life: &Life) {
        if let Some(Ending::Broken(why)) = &*life.ended.borrow()
            && !self.sky.broke.load(Ordering::Relaxed)
        {
            self.flaw(format!("(9) life {} broke: {why}", life.number));
        }
    }
}

pub type Recovered = oneshot::Receiver<Vec<ledger::RecoveredRun>>;

/// Granted one tool that the agent above is not, and the other way round.
fn helper() -> Manifest {
    let grant = |name: &str| Grant::of(ToolName::parse(name).unwrap());
    Manifest {
        name: "sim-helper".into(),
        delegates: Vec::new(),
        tools: ["t.read", "t.write", "t.other"].map(grant).into(),
        digest: helper_digest(),
        ..manifest(None)
    }
}

fn helper_digest() -> Digest {
    Digest::of(&[b"helper"])
}

fn manifest(wall_seconds: Option<u64>) -> Manifest {
    let grant = |name: &str| Grant::of(ToolName::parse(name).unwrap());
    Manifest {
        name: "sim-agent".into(),
        delegates: vec![helper_digest()],
        limits: RunLimits { wall_seconds, ..RunLimits::default() },
        client_tools: vec![streams::client_tool()],
        ..inside::manifest(["t.read", "t.write", "t.ghost", streams::MODEL].map(grant).into())
    }
}

/// How long since.
pub fn since(start: Instant) -> Duration {
    Instant::now().saturating_duration_since(start)
}

/// The secret of a gate, which outlives its process.
fn tokens() -> Arc<RunTokens> {
    Arc::new(RunTokens::new([7; 32]))
}
