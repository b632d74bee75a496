//! The `command` kind: one pinned program, run by descriptor inside a sandbox.
//!
//! `prepare` fills the template, opens the program and hashes it; the permitted run executes that
//! very descriptor. Arguments are list items and never pass a shell; standard input comes from the
//! arguments; both outputs are read up to a bound. Every process that the command started ends with
//! it.

mod output;
mod probe;

use crate::domain::outcome::{Cgroup, Sandbox};
use crate::domain::plural::many;
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{MemfdFlags, Mode, OFlags};

use self::output::{Output, read};
pub(super) use self::probe::probe;
use super::ToolExecutor;
use super::sandbox::{
    self, Cgroups, Leaf, LevelError, Levels, SandboxPlan, SandboxReport, SandboxSlots, Scratch,
    WORKSPACE, Workspaces,
};
use crate::catalog::command::{Command as Binding, Program, WorkDirectory, Workspace};
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::effect::Effect;
use crate::domain::json::Json;
use crate::domain::outcome::{AnswerContent, FailureClass, Unmasked};
use crate::judge::prepared::PreparedResource;
use crate::ledger::fuse::Fuse;
use crate::ledger::permit::Permit;

/// Bytes of standard error kept in a result.
const ERRORS_MAX: u64 = 64 << 10;
/// A command that writes more than this to standard error is ended.
const ERRORS_END: u64 = 8 << 20;
/// SIGXCPU: the signal for a process that used up its processor time.
const OUT_OF_TIME: i32 = 24;
/// The detail of a refusal because the program's hash differs from the pinned one.
const MISMATCH: &str = "command.binary_hash_mismatch";

/// Runs one program.
#[derive(Debug)]
pub struct Command {
    binding: Arc<Binding>,
    name: String,
    read_only: bool,
    bytes_max: u64,
    workspaces: Arc<Workspaces>,
    places: Arc<SandboxSlots>,
    cgroups: Option<Arc<Cgroups>>,
}

/// A program as it was judged, with its arguments and input.
struct PreparedProgram {
    program: OwnedFd,
    seen: ProgramIdentity,
    argv: Vec<String>,
    input: Option<String>,
}

/// The identity that must not change between judging and running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ProgramIdentity {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ProgramIdentity {
    fn of(file: &File) -> std::io::Result<Self> {
        let facts = file.metadata()?;
        Ok(Self {
            device: facts.dev(),
            inode: facts.ino(),
            size: facts.size(),
            modified: (facts.mtime(), facts.mtime_nsec()),
            changed: (facts.ctime(), facts.ctime_nsec()),
        })
    }
}

impl Command {
    /// A command with the isolation that its binding demands.
    ///
    /// # Errors
    /// The demanded isolation level is not available; with the reason.
    pub fn new(
        binding: Binding,
        read_only: bool,
        bytes_max: u64,
        levels: &Levels,
        (workspaces, places): (&Arc<Workspaces>, &Arc<SandboxSlots>),
    ) -> Result<Self, LevelError> {
        levels.meet(binding.demand())?;
        let cgroups = levels.cgroups().ok();
        let name = binding.program.path.to_string_lossy().into_owned();
        let (workspaces, places) = (Arc::clone(workspaces), Arc::clone(places));
        let binding = Arc::new(binding);
        Ok(Self { binding, name, read_only, bytes_max, workspaces, places, cgroups })
    }

    fn plan(&self, held: &PreparedProgram) -> SandboxPlan {
        let binding = &self.binding;
        let secrets = binding.secrets.iter();
        let secrets =
            secrets.map(|(name, secret, _)| (name.clone(), str::to_owned(&secret.latest())));
        let children = binding.children.iter();
        let children = children.flat_map(|c| c.interpreter.iter().chain([&c.path])).cloned();
        let (scratch, write) = match &binding.workspace {
            WorkDirectory::Memory(Workspace::None) => (Scratch::None, None),
            WorkDirectory::Memory(Workspace::Call) => (Scratch::Call, None),
            WorkDirectory::Memory(Workspace::Run) => (Scratch::Run, None),
            WorkDirectory::Disk(path) => (Scratch::Tmp, Some(path.clone())),
        };
        let cwd = match (&write, binding.read.first()) {
            (Some(path), _) => path.clone(),
            (None, _) if scratch != Scratch::None => PathBuf::from(WORKSPACE),
            (None, Some(first)) if first.is_dir() => first.clone(),
            (None, Some(_) | None) => PathBuf::from("/"),
        };
        // What an operator made writable for sandboxes is writable for one fixed user.
        let uid = if write.is_some() { sandbox::NOBODY } else { sandbox::next_uid() };
        SandboxPlan {
            level: binding.level,
            argv: std::iter::once(self.name.clone()).chain(held.argv.iter().cloned()).collect(),
            env: binding.env.iter().cloned().chain(secrets).collect(),
            interpreter: binding.program.interpreter.clone(),
            read: binding.read.clone(),
            write: write.into_iter().collect(),
            children: children.collect(),
            scratch,
            cwd,
            network: sandbox::Network::None,
            serves: false,
            uid,
            cpu: sandbox::next_cpu(),
            limits: binding.limits,
        }
    }

    async fn ran(&self, permit: &Permit, held: &PreparedProgram) -> Unmasked {
        let _place = match self.places.take(permit.call().agent()).await {
            Ok(place) => place,
            Err(most) => return crowded(most),
        };
        let plan = self.plan(held);
        // WHY here and not where it is started: the start may come only after the run has ended.
        let shared = (self.binding.workspace == WorkDirectory::Memory(Workspace::Run))
            .then(|| self.workspaces.of(permit.call().run()));
        let started = match start(plan, held, shared, (self.cgroups.clone(), permit.fuse())).await {
            Ok(started) => started,
            Err(outcome) => return outcome,
        };
        let CommandSupervisor { mut child, control, leaf } = started;
        // Recorded before it is confirmed: no lesser level exists. If the command does not start,
        // this is corrected.
        permit.observe(|seen| {
            seen.sandbox = Sandbox::parse(self.binding.level.as_str());
            seen.cgroup = leaf.as_ref().map(|_| Cgroup::MemoryPids);
        });
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let reading = async {
            tokio::try_join!(
                read(output, self.bytes_max, self.bytes_max),
                read(errors, ERRORS_MAX, ERRORS_END),
                read(Some(control), ERRORS_MAX, ERRORS_MAX),
            )
        };
        // An early return or a cancellation drops `control`, and the supervisor then ends
        // everything.
        let (output, errors, report) = match reading.await {
            Ok(all) => all,
            Err(output::Error::TooMuch) => {
                let message = "the command wrote more than the binding allows, and was ended";
                return failed(FailureClass::TooLarge, message);
            }
            Err(output::Error::Lost) => return self.lost(),
        };
        let _ = child.wait().await;
        match SandboxReport::read(&report.bytes) {
            Some(report) => {
                if report.refused.is_some() {
                    permit.observe(|seen| (seen.sandbox, seen.cgroup) = (None, None));
                }
                let out_of_memory = leaf.as_ref().is_some_and(Leaf::ran_out_of_memory);
                self.ended(&report, (&output, &errors), out_of_memory)
            }
            None => self.lost(),
        }
    }

    fn ended(
        &self,
        report: &SandboxReport,
        (output, errors): (&Output, &Output),
        out_of_memory: bool,
    ) -> Unmasked {
        let level = self.binding.level.as_str();
        if let Some(why) = &report.refused {
            tracing::error!(%why, program = %self.name, "the sandbox of a command could not be set up");
            let message =
                format!("the command was not run: its sandbox ({level}) could not be set up");
            return Unmasked::Failed { class: FailureClass::ToolError, started: false, message };
        }
        let Some(code) = report.code else {
            let signal = report.signal.unwrap_or_default();
            let why = match signal {
                OUT_OF_TIME => " (it used up its processor time)",
                _ if out_of_memory => " (its processes together exceeded their memory limit)",
                _ => "",
            };
            let message = format!("the command was ended by signal {signal}{why} in {level}");
            return failed(FailureClass::ToolError, &message);
        };
        let answers = |codes: &Vec<u8>| codes.iter().any(|known| i32::from(*known) == code);
        if !self.binding.exit_codes.as_ref().is_none_or(answers) {
            let message = format!("the command ended with exit code {code} in {level}");
            return failed(FailureClass::ToolError, &message);
        }
        let code = u64::try_from(code).unwrap_or_default();
        let mut members = vec![("exit_code", Json::from(code)), ("sandbox", Json::from(level))];
        let (stdout, opaque_stdout) = output.member("stdout", "stdout_base64");
        let (stderr, opaque_stderr) = errors.member("stderr", "stderr_base64");
        members.extend([stdout, stderr]);
        if errors.cut {
            members.push(("stderr_cut", Json::from(true)));
        }
        let opaque = opaque_stdout.or(opaque_stderr);
        let result = AnswerContent::of(canonical::bytes(&Json::object(members)), opaque);
        Unmasked::Completed { result, status: format!("exit {code} in {level}") }
    }

    /// The supervisor is gone, so whether the command took effect is unknown.
    fn lost(&self) -> Unmasked {
        if self.read_only {
            return failed(FailureClass::ToolError, "the command's supervisor was ended");
        }
        Unmasked::Unknown { cause: "connection_lost".into() }
    }
}

#[async_trait]
impl ToolExecutor for Command {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let refused = |why: String| vec![reason("command.arg_not_allowed", why)];
        let argv = self.binding.argv.list(call.args()).map_err(|why| refused(why.to_string()))?;
        let input = match self.binding.stdin.as_ref().and_then(|name| call.args().get(name)) {
            None | Some(Json::Null) => None,
            Some(Json::String(text)) => Some(text.clone()),
            Some(_) => return Err(refused("standard input is a text".to_owned())),
        };
        let (program, seen) = open(&self.binding.program).map_err(|reason| vec![reason])?;
        let effect = Effect::Command {
            program: self.name.clone(),
            digest: self.binding.program.digest.prefixed(),
            argv: argv.clone(),
            sandbox: self.binding.level.as_str().to_owned(),
            workspace: self.binding.workspace.as_str().to_owned(),
        };
        Ok((effect, Box::new(PreparedProgram { program, seen, argv, input })))
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        match permit.prepared().hold::<PreparedProgram>() {
            Some(held) => self.ran(permit, held).await,
            None => failed(FailureClass::Changed, "the call was prepared by another tool"),
        }
    }
}

/// Opens a program, if it is still the pinned one.
fn open(program: &Program) -> Result<(OwnedFd, ProgramIdentity), LayerReason> {
    let unreadable = |why: String| reason("command.program", format!("the program {why}"));
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::open(&program.path, flags, Mode::empty())
        .map_err(|e| unreadable(format!("cannot be opened: {e}")))?;
    let file = File::from(file);
    let broken = |e: std::io::Error| unreadable(format!("cannot be read: {e}"));
    let before = ProgramIdentity::of(&file).map_err(broken)?;
    let digest = Digest::of_reader(&file).map_err(broken)?;
    if digest != program.digest || ProgramIdentity::of(&file).map_err(broken)? != before {
        let why = "the program is not the one that was pinned at start";
        return Err(reason(MISMATCH, why));
    }
    Ok((file.into(), before))
}

/// A supervisor that has received its plan.
struct CommandSupervisor {
    child: tokio::process::Child,
    /// Dropping it ends the run.
    control: tokio::net::UnixStream,
    leaf: Option<Leaf>,
}

/// Starts a supervisor on a blocking thread: the handover waits for the other side.
async fn start(
    plan: SandboxPlan,
    held: &PreparedProgram,
    shared: Option<std::io::Result<sandbox::Workspace>>,
    (cgroups, fuse): (Option<Arc<Cgroups>>, &Fuse),
) -> Result<CommandSupervisor, Unmasked> {
    let not_started = |why: String| {
        tracing::error!(%why, "a command could not be started");
        let message =
            "the command was not run: its supervisor or its workspace could not be started";
        let message = message.to_owned();
        Unmasked::Failed { class: FailureClass::ToolError, started: false, message }
    };
    let program = held.program.try_clone().map_err(|e| not_started(e.to_string()))?;
    let (seen, input) = (held.seen, held.input.clone());
    let (mut plan, fuse) = (plan, fuse.clone());
    let starting = tokio::task::spawn_blocking(move || {
        let program = File::from(program);
        if ProgramIdentity::of(&program)? != seen {
            let message = "the program changed after it was judged".to_owned();
            let class = FailureClass::Changed;
            return Ok(Err(Unmasked::Failed { class, started: false, message }));
        }
        let input = standard_input(input.as_deref())?;
        let holder = shared.transpose()?.map(|shared| shared.namespace()).transpose()?;
        if let Some(holder) = &holder {
            plan.uid = holder.uid();
        }
        let leaf = cgroups.map(|cgroups| cgroups.leaf(&plan)).transpose()?;
        let (command, control) = sandbox::supervisor()?;
        let child = tokio::process::Command::from(command).spawn()?;
        let holder = holder.as_ref().map(|holder| holder.as_fd());
        let handles = (holder, leaf.as_ref());
        if let Err(late) = fuse.redeem() {
            return Ok(Err(late.outcome()));
        }
        sandbox::hand_over(&control, &plan, program.as_fd(), input.as_fd(), handles)?;
        control.set_nonblocking(true)?;
        let control = tokio::net::UnixStream::from_std(control)?;
        Ok::<_, std::io::Error>(Ok(CommandSupervisor { child, control, leaf }))
    });
    match starting.await {
        Ok(Ok(started)) => started,
        Ok(Err(error)) => Err(not_started(error.to_string())),
        Err(error) => Err(not_started(error.to_string())),
    }
}

/// An empty input, or this text in memory.
fn standard_input(text: Option<&str>) -> std::io::Result<OwnedFd> {
    let Some(text) = text else { return Ok(File::open("/dev/null")?.into()) };
    let mut file = File::from(rustix::fs::memfd_create("stdin", MemfdFlags::CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.seek(SeekFrom::Start(0))?;
    Ok(file.into())
}

/// The failure for a call that got no sandbox slot in time.
fn crowded(most: usize) -> Unmasked {
    let message = format!(
        "the command was not run: the gate runs at most {} at once (`limits.sandboxes_max`), and \
         this agent's share of them is in use; ask again with a new id",
        many(most, "command")
    );
    Unmasked::Failed { class: FailureClass::ToolError, started: false, message }
}

fn failed(class: FailureClass, message: &str) -> Unmasked {
    Unmasked::Failed { class, started: true, message: message.to_owned() }
}

fn reason(detail: &str, message: impl Into<String>) -> LayerReason {
    LayerReason::effect_refused("tool.command", detail, message)
}
