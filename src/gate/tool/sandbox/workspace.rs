//! One workspace in memory for all commands of a run: which process keeps it, and for how long.
//!
//! A small process of the gate, the *holder*, owns a user and a mount namespace that contain a
//! directory in memory. The supervisors of the run's commands enter these namespaces before they
//! create their own. Nothing is on disk, so nothing needs cleaning up: the memory is freed when the
//! holder ends, and the holder ends when the gate closes its socket, for any reason.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, pidfd_open};
use rustix::thread::UnshareFlags;

use super::{Error, HOLDER, NOBODY, SELF, root, supervise, uid, wire};
use crate::domain::id::RunId;

/// Concurrent workspaces: each may hold 64 MiB.
const WORKSPACES_MAX: usize = 64;
/// The message of a holder that is ready.
const READY: &[u8] = b"ready";
/// Bytes of the longest error message.
const COMPLAINT_MAX: u64 = 4096;

/// The main function of the holder process.
pub(super) fn run(args: &[OsString]) -> ExitCode {
    supervise::close_inherited();
    let Ok(mut control) = wire::control() else { return ExitCode::FAILURE };
    let uid = args.first().and_then(|uid| uid.to_str()?.parse().ok()).unwrap_or(NOBODY);
    let report = match build(uid) {
        Ok(()) => READY.to_vec(),
        Err(why) => why.to_string().into_bytes(),
    };
    if control.write_all(&report).is_err() || control.shutdown(std::net::Shutdown::Write).is_err() {
        return ExitCode::FAILURE;
    }
    // Waits until the gate closes the socket.
    let _ = control.read(&mut [0]);
    ExitCode::SUCCESS
}

fn build(uid: u32) -> Result<(), Error> {
    let failed = Error::step("no workspace");
    supervise::unprivileged(uid).map_err(&failed)?;
    supervise::namespaces(UnshareFlags::NEWUSER | UnshareFlags::NEWNS)?;
    // WHY: otherwise the kernel refuses the supervisors that enter the namespaces.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).map_err(&failed)?;
    root::private()?;
    root::memory(root::WORKSPACE_MOUNT)
}

/// A running holder, for as long as it is held.
#[derive(Debug)]
pub struct UserNamespace {
    pid: OwnedFd,
    /// Dropping it ends the holder.
    control: Option<UnixStream>,
    /// The user of the holder, if the gate is root: only the same user may enter.
    uid: u32,
    child: Child,
}

impl UserNamespace {
    /// Starts a holder. Blocks until it is ready.
    ///
    /// # Errors
    /// The error of the operating system.
    fn new() -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let mut command = Command::new(SELF);
        let uid = uid::next();
        command
            .arg(HOLDER)
            .arg(uid.to_string())
            .env_clear()
            .process_group(0)
            .stdin(Stdio::from(OwnedFd::from(theirs)));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        // The command holds the other end of the socket.
        drop(command);
        let pid = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let holder = Self { pid, control: Some(ours), uid, child };
        let mut report = Vec::new();
        if let Some(control) = &holder.control {
            control.take(COMPLAINT_MAX).read_to_end(&mut report)?;
        }
        if report == READY {
            return Ok(holder);
        }
        Err(io::Error::other(String::from_utf8_lossy(&report).into_owned()))
    }
}

impl UserNamespace {
    /// The uid and gid that may enter, if the gate is root.
    pub const fn uid(&self) -> u32 {
        self.uid
    }
}

impl AsFd for UserNamespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pid.as_fd()
    }
}

impl Drop for UserNamespace {
    fn drop(&mut self) {
        drop(self.control.take());
        // The holder ends by itself, but a stopped process would block the wait, so it is killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The workspace of one run; its holder is started on first use.
///
/// Holding it keeps the holder. A command that is still waiting for the holder when the run ends
/// starts one that ends with that command.
#[derive(Clone, Debug, Default)]
pub struct Workspace(Arc<Mutex<Option<Arc<UserNamespace>>>>);

impl Workspace {
    /// The holder of the run. Blocks until it is ready.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn namespace(&self) -> io::Result<Arc<UserNamespace>> {
        // Calls of one run wait for each other here; calls of other runs do not.
        let mut place = self.0.lock();
        if let Some(holder) = &*place {
            return Ok(Arc::clone(holder));
        }
        let holder = Arc::new(UserNamespace::new()?);
        *place = Some(Arc::clone(&holder));
        Ok(holder)
    }
}

/// The workspaces of all runs of this gate.
#[derive(Debug, Default)]
pub struct Workspaces {
    all: Mutex<BTreeMap<RunId, Workspace>>,
}

impl Workspaces {
    /// The workspace of this run, for one of its calls in progress: a run that has ended has none.
    ///
    /// # Errors
    /// Too many workspaces exist.
    pub fn of(&self, run: &RunId) -> io::Result<Workspace> {
        let mut all = self.all.lock();
        if !all.contains_key(run) && all.len() >= WORKSPACES_MAX {
            return Err(io::Error::other(format!("{WORKSPACES_MAX} runs have workspaces already")));
        }
        Ok(all.entry(*run).or_default().clone())
    }

    /// Releases the workspace of a run. Its memory is freed once no command of the run remains.
    pub fn end(&self, run: &RunId) {
        self.all.lock().remove(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_outlives_its_run_takes_no_room_of_other_runs() {
        let (workspaces, run) = (Workspaces::default(), RunId::from_random([7; 16]));
        let late = workspaces.of(&run).unwrap();
        workspaces.end(&run);
        assert!(workspaces.all.lock().is_empty());
        assert_eq!(Arc::strong_count(&late.0), 1, "what it builds ends with it");
    }

    #[test]
    fn there_is_room_for_so_many_runs_and_for_others_once_some_have_ended() {
        let workspaces = Workspaces::default();
        let run = |n: usize| RunId::from_random([u8::try_from(n).unwrap(); 16]);
        for n in 0..WORKSPACES_MAX {
            workspaces.of(&run(n)).unwrap();
        }
        assert!(workspaces.of(&run(WORKSPACES_MAX)).is_err());
        assert!(workspaces.of(&run(0)).is_ok(), "one that is there");
        workspaces.end(&run(0));
        assert!(workspaces.of(&run(WORKSPACES_MAX)).is_ok());
    }
}
