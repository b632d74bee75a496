//! Isolation of child processes: a small program of the gate's own that confines itself and then
//! becomes the command.
//!
//! ```text
//! sidecar ─spawn→ supervisor ─spawn→ confined ─execveat→ the command
//!          socket              socket
//! ```
//!
//! The sidecar has threads and much memory, so it does nothing between fork and exec: it starts
//! this very program again, which has one thread and little memory. The *supervisor* gives up root,
//! creates the namespaces and outlives the command: when the sidecar asks, is killed or closes the
//! socket, the supervisor kills everything. The *confined* process drops the rights that the level
//! removes, and executes the descriptor that it received. If a right cannot be dropped, the run
//! ends before the command starts: there is no lesser level to fall back to. MCP servers on
//! standard streams run in the sandbox too.

mod cgroup;
mod confine;
mod cpu;
mod error;
mod files;
mod filter;
mod hierarchy;
pub(super) mod host;
pub(super) mod loopback;
mod modes;
mod places;
mod probe;
mod root;
mod supervise;
mod uid;
mod wire;
mod workspace;

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
pub use self::places::{DEFAULT_MAX as PLACES, SandboxSlot, SandboxSlots};
pub use self::uid::next as next_uid;
pub use self::workspace::{Workspace, Workspaces};
use crate::catalog::command::{CommandLimits, Demand, Level};

/// This program, whatever the name of its file is by now.
const SELF: &str = "/proc/self/exe";
/// The argument that starts the supervisor.
const SUPERVISE: &str = "sandbox-supervise";
/// The argument that starts the confined process.
const CONFINE: &str = "sandbox-confine";
/// The argument that starts the probe.
const PROBE: &str = "sandbox-probe";
/// The argument that starts the holder, which keeps a shared workspace.
const HOLDER: &str = "sandbox-holder";
/// The working directory of a command with a workspace.
pub const WORKSPACE: &str = "/workspace";
/// The resources that control groups limit for a run, as entries and the command line name them.
pub const TOGETHER: &str = "memory,pids";
/// The uid and gid of servers with writable paths under a root gate, and of commands if no uid of
/// their own is available.
pub const NOBODY: u32 = 65_534;

/// All data about one run except the program's descriptor and its input.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxPlan {
    /// The level of the sandbox.
    pub level: Level,
    /// The arguments, beginning with the program's name.
    pub argv: Vec<String>,
    /// The complete environment.
    pub env: Vec<(String, String)>,
    /// The loader of the program.
    pub interpreter: Option<PathBuf>,
    /// Readable paths besides the system's programs and libraries.
    pub read: Vec<PathBuf>,
    /// Directories and files that it may change.
    pub write: Vec<PathBuf>,
    /// Programs that it may start, and their loaders.
    pub children: Vec<PathBuf>,
    /// Writable directories in memory.
    pub scratch: Scratch,
    /// The working directory.
    pub cwd: PathBuf,
    /// The reachable network.
    pub network: Network,
    /// Whether it runs until it is ended: a server, which reserves more memory than it uses.
    pub serves: bool,
    /// The uid and gid that it runs as, if the gate is root.
    pub uid: u32,
    /// The one processor for it and its children.
    pub cpu: usize,
    /// Its resource limits.
    pub limits: CommandLimits,
}

/// The network that a program can reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum Network {
    /// No network.
    #[default]
    None,
    /// Only the gate's proxy at `loopback::PROXY`, in a network namespace of its own. Needs `S2`.
    Proxy,
    /// Everything that the gate's host can reach.
    Host,
}

/// Directories in memory, 64 MiB each; freed when the program ends, unless stated otherwise.
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

/// The end of a run, as the supervisor observed it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SandboxReport {
    /// Why the command did not start.
    pub refused: Option<String>,
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl SandboxReport {
    /// Reads a report from the socket; an incomplete one means that the supervisor is gone.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice(bytes).ok()
    }
}

/// The supervisor's command: its standard input is one end of a socket, its standard output is the
/// command's.
///
/// # Errors
/// No socket can be created.
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

/// Sends a plan to a started supervisor. Blocks until the supervisor has received it. From then on
/// the run ends when `control` is dropped. `holder` keeps the workspace of a plan that shares one;
/// the command is put into `leaf`, the supervisor is not.
///
/// # Errors
/// The supervisor is gone.
pub fn hand_over(
    control: &UnixStream,
    plan: &SandboxPlan,
    program: BorrowedFd<'_>,
    input: BorrowedFd<'_>,
    (holder, leaf): (Option<BorrowedFd<'_>>, Option<&Leaf>),
) -> io::Result<()> {
    let proc_files = leaf.map(Leaf::proc_files).transpose()?.unwrap_or_default();
    let files = [Some(program), Some(input), holder].into_iter().flatten();
    let files: Vec<_> = files.chain(proc_files.iter().map(|file| file.as_fd())).collect();
    wire::send(control, plan, &files)
}

/// Runs the part of this program that these arguments select; `None` if they select another.
#[must_use]
pub fn role(args: &[std::ffi::OsString]) -> Option<ExitCode> {
    match args.get(1)?.to_str()? {
        SUPERVISE => Some(supervise::run()),
        CONFINE => Some(confine::run()),
        HOLDER => Some(workspace::run(args.get(2..).unwrap_or_default())),
        PROBE => Some(probe::run(args.get(2..).unwrap_or_default())),
        _other => None,
    }
}

/// The levels that this system really offers, each determined once by trying to break out.
#[derive(Debug, Default)]
pub struct Levels {
    s1: OnceLock<Result<(), LevelError>>,
    s2: OnceLock<Result<(), LevelError>>,
    cgroups: OnceLock<Result<Arc<Cgroups>, LevelError>>,
}

impl Levels {
    /// Checks that every demand is met. Blocks for some milliseconds the first time.
    ///
    /// # Errors
    /// The demand that is not met.
    pub fn meet(&self, demand: Demand) -> Result<(), LevelError> {
        self.check(demand.level)?;
        if demand.together { self.cgroups().map(drop) } else { Ok(()) }
    }

    /// The control groups of this gate, created and tested once by putting a sandboxed process into
    /// them.
    ///
    /// # Errors
    /// There are none, with the reason.
    pub fn cgroups(&self) -> Result<Arc<Cgroups>, LevelError> {
        let missing = |why: Error| LevelError::Cgroups(Arc::new(why));
        let tried = || {
            let cgroups = Cgroups::find()?;
            probe_in(Level::S1, Some(&cgroups))?;
            Ok(cgroups)
        };
        self.cgroups.get_or_init(|| tried().map_err(missing)).clone()
    }

    /// Checks that commands can run at this level. Blocks for some milliseconds the first time.
    ///
    /// # Errors
    /// What is missing, or what a probe could do inside and must not.
    pub fn check(&self, level: Level) -> Result<(), LevelError> {
        let known = match level {
            Level::S1 => &self.s1,
            Level::S2 => &self.s2,
        };
        let missing = |why: Error| LevelError::Level { level, why: Arc::new(why) };
        known.get_or_init(|| try_out(level).map_err(missing)).clone()
    }
}

/// Runs the probe at this level.
fn try_out(level: Level) -> Result<(), Error> {
    let found = probe_in(level, None)?;
    if found.is_empty() { Ok(()) } else { Err(Error::Holes(found)) }
}

/// The forbidden actions that the probe could perform at this level.
fn probe_in(level: Level, cgroups: Option<&Arc<Cgroups>>) -> Result<Vec<String>, Error> {
    use std::io::Read as _;
    // The forbidden targets must exist outside, or the probe would prove nothing.
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
    // The command holds the other end of the socket.
    drop(command);
    let input = File::open("/dev/null")?;
    let handles = (None, leaf.as_ref());
    let handover = hand_over(&control, &plan, program.as_fd(), input.as_fd(), handles);
    let mut found = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        output.read_to_end(&mut found)?;
    }
    let mut report = Vec::new();
    let read = control.read_to_end(&mut report);
    drop(control);
    child.wait()?;
    handover.and(read)?;
    let report = SandboxReport::read(&report).ok_or(Error::NoReport)?;
    match report {
        SandboxReport { refused: Some(why), .. } => Err(Error::Helper(why)),
        SandboxReport { code: Some(0), .. } => serde_json::from_slice(&found).map_err(Error::Probe),
        SandboxReport { code, signal, .. } => Err(Error::ProbeEnd { code, signal }),
    }
}
