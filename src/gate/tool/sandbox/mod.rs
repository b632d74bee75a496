//! Isolation of child processes: a small program of our own that locks itself in and then becomes the
//! command.
//!
//! ```text
//! sidecar ─spawn→ supervisor ─spawn→ confined ─execveat→ the command
//!          socket              socket
//! ```
//!
//! The sidecar has threads and much memory, so nothing is ever done between its fork and its exec: it
//! starts this very program again, which has one thread and hardly any memory. The *supervisor* gives up
//! root, makes the namespaces and outlives the command: when the sidecar asks, is killed or lets go of
//! the socket, it kills everything. The *confined* one takes away from itself what the level takes away
//! and executes the descriptor it was handed. Whatever cannot be taken away ends the run before the
//! command begins: there is no lesser level to fall back to. MCP servers on standard streams run in it too.

mod cgroup;
mod confine;
mod cpu;
mod error;
mod files;
mod filter;
mod hierarchy;
pub(super) mod host;
mod house;
pub(super) mod loopback;
mod modes;
mod places;
mod probe;
mod root;
mod supervise;
mod uid;
mod wire;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

pub use self::cgroup::{Cgroups, Leaf};
pub use self::cpu::next as next_cpu;
pub use self::error::{Error, LevelError};
pub use self::files::{is_nobodys, is_system};
pub use self::house::{Workspace, Workspaces};
pub use self::places::{DEFAULT_MAX as PLACES, SandboxSlot, SandboxSlots};
pub use self::uid::next as next_uid;
use crate::catalog::command::{CommandLimits, Demand, Level};

/// This program, whatever its file is called by now.
const SELF: &str = "/proc/self/exe";
/// What the supervisor is started as.
const SUPERVISE: &str = "sandbox-supervise";
/// What the confined one is started as.
const CONFINE: &str = "sandbox-confine";
/// What the probe is started as.
const PROBE: &str = "sandbox-probe";
/// What a workspace that several commands share is kept by.
const HOUSE: &str = "sandbox-house";
/// Where a command with a workspace runs.
pub const WORKSPACE: &str = "/workspace";
/// What control groups hold for all processes of a run together, as entries and the command line say it.
pub const TOGETHER: &str = "memory,pids";
/// Uid and gid that servers with something to write run as where the gate is root, and commands where there is no
/// uid of their own.
pub const NOBODY: u32 = 65_534;

/// Everything about one run but the program's descriptor and its input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxPlan {
    /// What it runs in.
    pub level: Level,
    /// Its arguments, its own name first.
    pub argv: Vec<String>,
    /// Its whole environment.
    pub env: Vec<(String, String)>,
    /// The loader of the program.
    pub interpreter: Option<PathBuf>,
    /// What it may read besides programs and libraries of the system.
    pub read: Vec<PathBuf>,
    /// Directories and files it may change.
    pub write: Vec<PathBuf>,
    /// What it may start, with the loaders of that.
    pub children: Vec<PathBuf>,
    /// What it has in memory that it may write.
    pub scratch: Scratch,
    /// Where it runs.
    pub cwd: PathBuf,
    /// What it can connect to.
    pub network: Network,
    /// Whether it goes on until it is ended: a server, which reserves more memory than it uses.
    pub serves: bool,
    /// Uid and gid it runs as, if the gate is root.
    pub uid: u32,
    /// The one processor it runs on, with all it starts.
    pub cpu: usize,
    /// What it may use up.
    pub limits: CommandLimits,
}

/// What a program can connect to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Network {
    /// Nothing.
    #[default]
    None,
    /// The gate's proxy at [`loopback::PROXY`], in a network namespace where there is nothing else. Needs `S2`.
    Proxy,
    /// Whatever the gate's host reaches.
    Host,
}

/// Directories in memory, 64 MiB each: gone with the run of the program, or with what is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Scratch {
    /// None.
    #[default]
    None,
    /// `/tmp`.
    Tmp,
    /// `/tmp` and [`WORKSPACE`].
    Call,
    /// `/tmp`, and a [`WORKSPACE`] that all commands of one run of an agent share.
    Run,
}

/// How a run ended, as the supervisor saw it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxReport {
    /// Why the command never began.
    pub refused: Option<String>,
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl SandboxReport {
    /// Reads what came over the socket; nothing that is whole means that the supervisor is gone.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// The supervisor's command line: its input is one end of a socket, its output is the command's.
///
/// # Errors
/// No socket can be made.
pub fn supervisor() -> io::Result<(Command, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = Command::new(SELF);
    command
        .arg(SUPERVISE)
        .env_clear()
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Ok((command, ours))
}

/// Tells a started supervisor what to run. Blocks until it took it. From here on the run ends when
/// `control` is dropped. `house` keeps the workspace of a plan that shares one; into `leaf` goes what is run, and
/// not the supervisor.
///
/// # Errors
/// It is gone.
pub fn hand_over(
    control: &UnixStream,
    plan: &SandboxPlan,
    program: BorrowedFd<'_>,
    input: BorrowedFd<'_>,
    (house, leaf): (Option<BorrowedFd<'_>>, Option<&Leaf>),
) -> io::Result<()> {
    let doors = leaf.map(Leaf::doors).transpose()?.unwrap_or_default();
    let files = [Some(program), Some(input), house].into_iter().flatten();
    let files: Vec<_> = files.chain(doors.iter().map(|door| door.as_fd())).collect();
    wire::send(control, plan, &files)
}

/// The part of this program that a command line of these arguments asks for; `None`: another one.
#[must_use]
pub fn role(args: &[std::ffi::OsString]) -> Option<ExitCode> {
    match args.get(1)?.to_str()? {
        SUPERVISE => Some(supervise::run()),
        CONFINE => Some(confine::run()),
        HOUSE => Some(house::run(args.get(2..).unwrap_or_default())),
        PROBE => Some(probe::run(args.get(2..).unwrap_or_default())),
        _other => None,
    }
}

/// Which levels this system really gives, found out once each by trying to break out.
#[derive(Debug, Default)]
pub struct Levels {
    s1: OnceLock<Result<(), LevelError>>,
    s2: OnceLock<Result<(), LevelError>>,
    cgroups: OnceLock<Result<Arc<Cgroups>, LevelError>>,
}

impl Levels {
    /// Whether all of this is there. Blocks some milliseconds the first time.
    ///
    /// # Errors
    /// What is missing.
    pub fn meet(&self, demand: Demand) -> Result<(), LevelError> {
        self.check(demand.level)?;
        if demand.together { self.cgroups().map(drop) } else { Ok(()) }
    }

    /// The control groups of this gate, made and tried out once: a process of the sandbox was put into them.
    ///
    /// # Errors
    /// There are none, and why.
    pub fn cgroups(&self) -> Result<Arc<Cgroups>, LevelError> {
        let missing = |why: Error| LevelError::Cgroups(Arc::new(why));
        let tried = || {
            let cgroups = Cgroups::find()?;
            probe_in(Level::S1, Some(&cgroups))?;
            Ok(cgroups)
        };
        self.cgroups.get_or_init(|| tried().map_err(missing)).clone()
    }

    /// Whether commands can be run in this level. Blocks some milliseconds the first time.
    ///
    /// # Errors
    /// What is missing, or what a probe could do in there and must not.
    pub fn check(&self, level: Level) -> Result<(), LevelError> {
        let known = match level {
            Level::S1 => &self.s1,
            Level::S2 => &self.s2,
        };
        let missing = |why: Error| LevelError::Level { level, why: Arc::new(why) };
        known.get_or_init(|| try_out(level).map_err(missing)).clone()
    }
}

/// Runs the probe in this level.
fn try_out(level: Level) -> Result<(), Error> {
    let found = probe_in(level, None)?;
    if found.is_empty() { Ok(()) } else { Err(Error::Holes(found)) }
}

/// What the probe could do in this level.
fn probe_in(level: Level, cgroups: Option<&Arc<Cgroups>>) -> Result<Vec<String>, Error> {
    use std::io::Read as _;
    // What the probe must not reach is there to be reached, or it would prove nothing.
    let own = format!("/proc/{}/status", std::process::id());
    for path in [probe::CANARY, own.as_str()] {
        File::open(path).map_err(Error::path(Path::new(path)))?;
    }
    let program = File::open(SELF)?;
    let mut head = Vec::new();
    program.try_clone()?.take(64 << 10).read_to_end(&mut head)?;
    let plan = SandboxPlan {
        level,
        argv: vec![
            "wicketgate".into(),
            PROBE.into(),
            std::process::id().to_string(),
            level.as_str().into(),
        ],
        env: Vec::new(),
        interpreter: crate::catalog::command::inspect(&head)?.interpreter,
        read: Vec::new(),
        write: Vec::new(),
        children: Vec::new(),
        scratch: Scratch::None,
        cwd: PathBuf::from("/"),
        network: Network::None,
        serves: false,
        uid: next_uid(),
        cpu: next_cpu(),
        limits: CommandLimits { memory_bytes: 2 << 30, cpu_seconds: 10, pids: 8, together: false },
    };
    let leaf = cgroups.map(|cgroups| cgroups.leaf(&plan)).transpose()?;
    let (mut command, mut control) = supervisor()?;
    let mut child = command.stderr(Stdio::null()).spawn()?;
    // The command line holds the other end of the socket.
    drop(command);
    let input = File::open("/dev/null")?;
    let beside = (None, leaf.as_ref());
    let handed = hand_over(&control, &plan, program.as_fd(), input.as_fd(), beside);
    let mut found = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_end(&mut found)?;
    }
    let mut report = Vec::new();
    let read = control.read_to_end(&mut report);
    drop(control);
    child.wait()?;
    handed.and(read)?;
    let report = SandboxReport::read(&report).ok_or(Error::NoReport)?;
    match report {
        SandboxReport { refused: Some(why), .. } => Err(Error::Helper(why)),
        SandboxReport { code: Some(0), .. } => serde_json::from_slice(&found).map_err(Error::Probe),
        SandboxReport { code, signal, .. } => Err(Error::ProbeEnd { code, signal }),
    }
}
