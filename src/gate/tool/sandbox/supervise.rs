//! The supervisor: gives up root, creates the namespaces, and outlives the command.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Gid, Pid, PidfdFlags, Signal, Uid, WaitOptions, kill_process,
    kill_process_group, pidfd_open,
};
use rustix::thread::{CapabilitySet, ThreadNameSpaceType, UnshareFlags};

use super::{CONFINE, Error, NOBODY, Network, SELF, SandboxPlan, SandboxReport, loopback, wire};
use crate::catalog::command::Level;

/// Every kind of namespace that isolates something.
const ALL: UnshareFlags = UnshareFlags::NEWUSER
    .union(UnshareFlags::NEWNS)
    .union(UnshareFlags::NEWPID)
    .union(UnshareFlags::NEWNET)
    .union(UnshareFlags::NEWIPC)
    .union(UnshareFlags::NEWUTS)
    .union(UnshareFlags::NEWCGROUP);
/// Bytes of the longest error message.
const COMPLAINT_MAX: usize = 4096;

pub(super) fn run() -> ExitCode {
    close_inherited();
    let Ok(mut control) = wire::control() else { return ExitCode::FAILURE };
    let report = match wire::receive(&control, true) {
        Ok((plan, files)) => supervise(&control, &plan, files).unwrap_or_else(|why| {
            SandboxReport { refused: Some(why.to_string()), ..SandboxReport::default() }
        }),
        Err(error) => {
            SandboxReport { refused: Some(format!("no plan: {error}")), ..SandboxReport::default() }
        }
    };
    // The reader may be gone, so errors are ignored.
    let _ = serde_json::to_writer(&mut control, &report);
    let _ = control.flush();
    ExitCode::SUCCESS
}

/// Closes the descriptors that the sidecar inherited. The gate has none open yet.
pub(super) fn close_inherited() {
    let Ok(listed) = fs::read_dir("/proc/self/fd") else { return };
    let numbers = listed.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let numbers: Vec<i32> = numbers.filter(|number| *number > 2).collect();
    for number in numbers {
        // The listing's own descriptor is closed already.
        let _ = nix::unistd::close(number);
    }
}

fn supervise(
    control: &UnixStream,
    plan: &SandboxPlan,
    files: wire::Files,
) -> Result<SandboxReport, Error> {
    unprivileged(plan.uid).map_err(Error::step("cannot give up root"))?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(Error::step("no subreaper"))?;
    if let Some(holder) = &files.workspace {
        // The holder's mounts include the workspace.
        let kinds = ThreadNameSpaceType::USER | ThreadNameSpaceType::MOUNT;
        rustix::thread::move_into_thread_name_spaces(holder.as_fd(), kinds)
            .map_err(Error::step("no workspace of the run"))?;
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
            .map_err(Error::step("no workspace of the run"))?;
    }
    match (plan.level >= Level::S2, plan.network) {
        (true, Network::Host) => namespaces(ALL - UnshareFlags::NEWNET)?,
        (true, Network::None) => namespaces(ALL)?,
        (true, Network::Proxy) => {
            namespaces(ALL)?;
            loopback::offer(control)?;
        }
        (false, Network::None | Network::Host) => {}
        (false, Network::Proxy) => return Err(Error::NetworkLevel),
    }
    let (ours, theirs) = UnixStream::pair()?;
    let child = Command::new(SELF)
        .arg(CONFINE)
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .map_err(Error::step("the helper cannot be started"))?;
    // Before the plan is sent, so that no process of the command runs outside the groups.
    let number = child.id().to_string();
    for proc_file in &files.cgroup_files {
        if let Err(error) = rustix::io::write(proc_file, number.as_bytes()) {
            let _ = kill_process(Pid::from_child(&child), Signal::KILL);
            return Err(Error::step("cgroup")(error));
        }
    }
    // The program must be the last process that holds these, so that its closing them is visible.
    silence().map_err(Error::step("cannot close its output"))?;
    let sent = wire::send(&ours, plan, &[files.program.as_fd(), files.input.as_fd()]);
    drop(files);
    let report = watch(control, ours, child)?;
    // The report of the confined process explains more than the failed write.
    match sent {
        Err(error) if report.refused.is_none() => Err(Error::step("no plan was taken")(error)),
        Err(_) | Ok(()) => Ok(report),
    }
}

/// Turns root into this user. Other users stay themselves: the namespaces and rules remove their
/// rights.
pub(super) fn unprivileged(uid: u32) -> Result<(), Errno> {
    if !rustix::process::geteuid().is_root() && !rustix::process::getuid().is_root() {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(gid, gid, gid)?;
    rustix::thread::set_thread_res_uid(uid, uid, uid)?;
    // The maps of the user namespace are written through files that would otherwise belong to root.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
}

/// Redirects both outputs to `/dev/null`.
fn silence() -> Result<(), Errno> {
    let null = rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)
}

/// Creates namespaces of these kinds; the next child is the first process in them.
pub(super) fn namespaces(flags: UnshareFlags) -> Result<(), Error> {
    let (uid, gid) = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    #[expect(deprecated, reason = "sound here: one thread, and its descriptors stay its own")]
    let unshared = rustix::thread::unshare(flags);
    unshared.map_err(Error::step("no namespaces"))?;
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{NOBODY} {uid} 1\n")),
        ("/proc/self/gid_map", format!("{NOBODY} {gid} 1\n")),
    ] {
        fs::write(file, text).map_err(|source| Error::Map { file, source })?;
    }
    // Kept across the coming exec: the capabilities for the mounts, and for dropping the rest.
    let failed = Error::step("capabilities");
    let mut sets = rustix::thread::capabilities(None).map_err(&failed)?;
    sets.inheritable = sets.permitted;
    rustix::thread::set_capabilities(None, sets).map_err(&failed)?;
    for capability in [CapabilitySet::SYS_ADMIN, CapabilitySet::SETPCAP] {
        rustix::thread::configure_capability_in_ambient_set(capability, true).map_err(&failed)?;
    }
    Ok(())
}

/// Waits until the command has ended or the sidecar has closed the socket; then kills what remains.
fn watch(
    control: &UnixStream,
    mut ours: UnixStream,
    mut child: Child,
) -> Result<SandboxReport, Error> {
    let leader = Pid::from_child(&child);
    let exit = pidfd_open(leader, PidfdFlags::empty());
    let reason = exit.map_err(Error::step("no pidfd")).and_then(|exit| {
        let mut reason = Vec::new();
        let mut silent = false;
        loop {
            let (gone, ended, writes) = wait(control, &exit, (!silent).then_some(&ours))?;
            if writes {
                let mut piece = [0; COMPLAINT_MAX];
                let read = ours.read(&mut piece).unwrap_or_default();
                silent = read == 0 || reason.len() >= COMPLAINT_MAX;
                reason.extend_from_slice(piece.get(..read).unwrap_or_default());
            } else if gone || ended {
                return Ok(reason);
            }
        }
    });
    // Before the child is reaped: until then its process id cannot be reused.
    let _ = kill_process_group(leader, Signal::KILL);
    let _ = kill_process(leader, Signal::KILL);
    let status = child.wait().map_err(Error::step("no exit status"))?;
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::empty()) {}
    let reason = reason?;
    if !reason.is_empty() {
        let refused = Some(String::from_utf8_lossy(&reason).into_owned());
        return Ok(SandboxReport { refused, ..SandboxReport::default() });
    }
    Ok(SandboxReport { refused: None, code: status.code(), signal: status.signal() })
}

/// Waits for the first of these: the sidecar closes the socket, the command ends, or the confined
/// process writes.
fn wait(
    control: &UnixStream,
    exit: &OwnedFd,
    ours: Option<&UnixStream>,
) -> Result<(bool, bool, bool), Error> {
    let mut fds = vec![PollFd::new(control, PollFlags::IN), PollFd::new(exit, PollFlags::IN)];
    fds.extend(ours.map(|ours| PollFd::new(ours, PollFlags::IN)));
    loop {
        match poll(&mut fds, None) {
            Ok(_) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(Error::step("cannot wait")(error)),
        }
    }
    let ready = |i: usize| fds.get(i).is_some_and(|fd| !fd.revents().is_empty());
    Ok((ready(0), ready(1), ready(2)))
}
