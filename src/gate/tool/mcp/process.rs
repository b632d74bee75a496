//! A server as a child process: started in a process group of its own or in a sandbox, and ended
//! with all its children.

use std::os::fd::OwnedFd;
use std::process::Stdio as Pipe;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWrite};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::task::JoinSet;

use super::Error;
use super::confined::{self, ServerSupervisor};
use crate::catalog::server::{Sandbox, Stdio};
use crate::tool::sandbox::{Cgroups, Leaf, SandboxReport};

/// How long a server may take to exit after its input is closed.
const LEAVE: Duration = Duration::from_secs(2);
/// How long it may take after SIGTERM.
const TERMINATE: Duration = Duration::from_secs(1);
/// Bytes of standard error that are kept.
const TAIL_BYTES: usize = 4 * 1024;

/// A running server. Dropping it kills the server and all its processes.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    group: Option<Pid>,
    exit: Exit,
    /// For a server in a sandbox: dropping it makes the supervisor end everything.
    control: Option<OwnedWriteHalf>,
    /// Dropping it kills the processes that remain in the group.
    _leaf: Option<Leaf>,
    /// Dropping it closes the server's network connections.
    _tunnel: Option<JoinSet<()>>,
}

/// Reports that a server has ended, without reaping it: until it is reaped, its group number cannot
/// be reused. Never completes on a system without pidfds.
#[derive(Clone, Debug)]
pub(super) struct Exit(Option<Arc<AsyncFd<OwnedFd>>>);

impl Exit {
    #[expect(deprecated, reason = "sound for an `OwnedFd`; what replaces it is unsafe to call")]
    fn of(leader: Option<Pid>) -> Self {
        let file = leader.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self(file.and_then(|file| AsyncFd::new(file).ok()).map(Arc::new))
    }

    /// Waits until the server has ended.
    pub async fn wait(&self) {
        match &self.0 {
            Some(file) => drop(file.readable().await),
            None => std::future::pending().await,
        }
    }
}

/// The standard streams of the server.
pub(super) struct Streams {
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    pub output: ChildStdout,
    pub errors: ChildStderr,
    /// The stream on which the supervisor of a sandbox reports the end.
    pub report: Option<OwnedReadHalf>,
}

/// Starts the program with exactly the given environment, in the sandbox that is demanded or not at
/// all. Blocks for a moment; needs a runtime.
///
/// # Errors
/// The error of the operating system.
pub(super) fn start(
    stdio: &Stdio,
    cgroups: Option<Arc<Cgroups>>,
) -> Result<(Process, Streams), Error> {
    match stdio.isolation.sandbox() {
        Some(sandbox) => inside(stdio, sandbox, cgroups),
        None => plain(stdio),
    }
}

fn inside(
    stdio: &Stdio,
    sandbox: &Sandbox,
    cgroups: Option<Arc<Cgroups>>,
) -> Result<(Process, Streams), Error> {
    let started = confined::start(stdio, sandbox, cgroups)?;
    let ServerSupervisor { mut child, control, input, leaf, tunnel } = started;
    let (report, control) = control.into_split();
    let streams = (child.stdout.take(), child.stderr.take());
    let mut process = Process::of(child, Some(control), leaf);
    process._tunnel = tunnel;
    let (Some(output), Some(errors)) = streams else {
        return Err(Error::NoStreams);
    };
    Ok((process, Streams { input: Box::new(input), output, errors, report: Some(report) }))
}

fn plain(stdio: &Stdio) -> Result<(Process, Streams), Error> {
    let mut command = Command::new(&stdio.program);
    command
        .args(&stdio.args)
        .env_clear()
        .envs(stdio.env.iter().map(|(name, value)| (name, value)))
        .envs(stdio.secrets.iter().map(|(name, secret, _)| (name, secret.latest().to_string())))
        .current_dir(&stdio.cwd)
        .stdin(Pipe::piped())
        .stdout(Pipe::piped())
        .stderr(Pipe::piped())
        .process_group(0)
        .kill_on_drop(true);
    let failed = |source| Error::Start { program: stdio.program.clone(), source };
    let mut child = command.spawn().map_err(failed)?;
    let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let process = Process::of(child, None, None);
    let (Some(input), Some(output), Some(errors)) = streams else {
        return Err(Error::NoStreams);
    };
    Ok((process, Streams { input: Box::new(input), output, errors, report: None }))
}

impl Process {
    fn of(child: Child, control: Option<OwnedWriteHalf>, leaf: Option<Leaf>) -> Self {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Self { child, group, exit: Exit::of(group), control, _leaf: leaf, _tunnel: None }
    }

    /// A handle that reports the server's end.
    pub fn exit(&self) -> Exit {
        self.exit.clone()
    }

    /// Ends the server, whose input is closed already. The group leader is reaped last.
    pub async fn end(mut self) {
        if tokio::time::timeout(LEAVE, self.exit.wait()).await.is_err() {
            // A supervisor does not forward a signal: it ends everything at once.
            if self.control.take().is_none() {
                self.signal(Signal::TERM);
            }
            let _ = tokio::time::timeout(TERMINATE, self.exit.wait()).await;
        }
        self.signal(Signal::KILL);
        let _ = self.child.wait().await;
        self.group = None;
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A supervisor whose socket closes ends the server, then itself.
        if self.control.take().is_none() {
            self.signal(Signal::KILL);
        }
    }
}

/// The last part of a server's standard error, for the operator and never for an agent.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail(Arc<Mutex<Vec<u8>>>);

impl Tail {
    /// Reads to the end, and keeps the last part.
    pub async fn drain(self, mut errors: ChildStderr) {
        let mut chunk = vec![0; TAIL_BYTES];
        while let Ok(read @ 1..) = errors.read(&mut chunk).await {
            let mut kept = self.0.lock();
            kept.extend_from_slice(chunk.get(..read).unwrap_or_default());
            let over = kept.len().saturating_sub(TAIL_BYTES);
            kept.drain(..over);
        }
    }

    /// Keeps the reason a server in a sandbox did not start.
    pub async fn hear(self, mut report: OwnedReadHalf) {
        let mut bytes = Vec::new();
        let limit = u64::try_from(TAIL_BYTES).unwrap_or(u64::MAX);
        if (&mut report).take(limit).read_to_end(&mut bytes).await.is_err() {
            return;
        }
        if let Some(SandboxReport { refused: Some(why), .. }) = SandboxReport::read(&bytes) {
            self.0.lock().extend_from_slice(format!("sandbox: {why}").as_bytes());
        }
    }

    /// The text so far, without control characters.
    pub fn text(&self) -> String {
        let text = String::from_utf8_lossy(&self.0.lock()).into_owned();
        let plain = |c: char| if c.is_control() { ' ' } else { c };
        text.trim().chars().map(plain).collect()
    }
}
