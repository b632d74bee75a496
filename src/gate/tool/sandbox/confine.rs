//! The confined process: drops every right that the level removes, and becomes the command.

use std::convert::Infallible;
use std::ffi::CString;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Error, SandboxPlan, cpu, files, filter, root, wire};
use crate::catalog::command::Level;

/// Open descriptors allowed for a command.
const DESCRIPTORS: u64 = 256;
/// Open descriptors allowed for a server.
const DESCRIPTORS_SERVING: u64 = 1024;
/// Address space of a server beyond its memory limit: reserved memory that is never written costs
/// nothing, and some runtimes reserve large amounts.
const RESERVED: u64 = 64 << 30;
/// The hard limit that is assumed if the process has none.
const RLIM_ANY: u64 = 1 << 20;
/// Bytes of the largest file that it may write.
const FILE_BYTES: u64 = 64 << 20;

pub(super) fn run() -> ExitCode {
    let Ok(mut control) = wire::control() else { return ExitCode::FAILURE };
    let why = match wire::receive(&control, false) {
        Ok((plan, files)) => match confined(&control, &plan, files) {
            Err(why) => why.to_string(),
            Ok(never) => match never {},
        },
        Err(error) => format!("no plan: {error}"),
    };
    let _ = control.write_all(why.as_bytes());
    ExitCode::FAILURE
}

/// Returns only if a right cannot be dropped.
fn confined(
    control: &UnixStream,
    plan: &SandboxPlan,
    files: wire::Files,
) -> Result<Infallible, Error> {
    let text = |text: &String| CString::new(text.as_str());
    let argv = plan.argv.iter().map(text).collect::<Result<Vec<_>, _>>()?;
    let env = plan.env.iter().map(|(name, value)| text(&format!("{name}={value}")));
    let env = env.collect::<Result<Vec<_>, _>>()?;
    rustix::process::setsid().map_err(Error::step("no session"))?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    if plan.level >= Level::S2 {
        root::build(plan)?;
    }
    rustix::process::chdir(&plan.cwd)
        .map_err(|e| Error::Cwd { path: plan.cwd.clone(), source: e.into() })?;
    let (program, above) = above_all(&files.program, plan)?;
    limits(plan, above)?;
    cpu::hold(plan.cpu)?;
    privileges()?;
    // The supervisor has a single thread, so the signal means its end and not that of one of its
    // threads.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(Error::step("no death signal"))?;
    // The supervisor may have ended before the signal was set.
    is_there(control).map_err(Error::step("no supervisor"))?;
    files::restrict(plan, &program)?;
    rustix::stdio::dup2_stdin(&files.input).map_err(Error::step("no input"))?;
    drop(files.input);
    filter::apply(plan, program.as_raw_fd())?;
    // Last, because until the exec these limits also count the helper's own mappings.
    if plan.serves {
        // Limits written memory; the filter removes the other kinds of memory.
        limit(Resource::Data, plan.limits.memory_bytes)?;
        limit(Resource::As, plan.limits.memory_bytes.saturating_add(RESERVED))?;
    } else {
        limit(Resource::As, plan.limits.memory_bytes)?;
    }
    // By descriptor: the hashed program runs, whatever file its path names by now.
    let flags = nix::fcntl::AtFlags::AT_EMPTY_PATH;
    nix::unistd::execveat(&program, c"", &argv, &env, flags).map_err(Error::Execute)
}

/// Whether the other end of the socket is open.
fn is_there(control: &UnixStream) -> Result<(), Errno> {
    let mut fds = [PollFd::new(control, PollFlags::IN)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut fds, Some(&now))? {
        0 => Ok(()),
        _gone => Err(Errno::PIPE),
    }
}

/// Moves the program to a descriptor number that the command cannot have, and returns it with that
/// number, the limit of open descriptors.
///
/// The filter allows this number to be executed. It is closed when the command begins; a command
/// that could put another file in its place, such as the loader, would start a second program.
fn above_all(program: &OwnedFd, plan: &SandboxPlan) -> Result<(OwnedFd, u64), Error> {
    let most = rustix::process::getrlimit(Resource::Nofile).maximum.unwrap_or(RLIM_ANY);
    let wanted = if plan.serves { DESCRIPTORS_SERVING } else { DESCRIPTORS };
    let number = wanted.min(most.saturating_sub(1));
    limit_to(Resource::Nofile, number.saturating_add(1), most)?;
    let least = i32::try_from(number).unwrap_or(i32::MAX);
    let above = rustix::io::fcntl_dupfd_cloexec(program, least)
        .map_err(Error::step("no descriptor above the limit"))?;
    Ok((above, number))
}

fn limits(plan: &SandboxPlan, descriptors: u64) -> Result<(), Error> {
    let mut limits = vec![
        (Resource::Fsize, FILE_BYTES),
        (Resource::Nofile, descriptors),
        (Resource::Core, 0),
        (Resource::Memlock, 0),
    ];
    // A server lives as long as the gate, so its processor time is not limited.
    if !plan.serves {
        limits.push((Resource::Cpu, plan.limits.cpu_seconds));
    }
    if plan.level >= Level::S2 {
        // WHY from S2 on: the limit is per user, and only there no other process has this user.
        limits.push((Resource::Nproc, plan.limits.pids));
    }
    limits.into_iter().try_for_each(|(resource, most)| limit(resource, most))
}

fn limit(resource: Resource, most: u64) -> Result<(), Error> {
    limit_to(resource, most, most)
}

fn limit_to(resource: Resource, current: u64, maximum: u64) -> Result<(), Error> {
    let both = Rlimit { current: Some(current), maximum: Some(maximum) };
    rustix::process::setrlimit(resource, both)
        .map_err(|e| Error::Limit { resource, source: e.into() })
}

/// Drops every capability for good, and prevents any program from gaining one.
fn privileges() -> Result<(), Error> {
    for bit in 0..64_u32 {
        let one = CapabilitySet::from_bits_retain(1_u64 << bit);
        if rustix::thread::capability_is_in_bounding_set(one) != Ok(true) {
            continue;
        }
        // Without the right to drop it, the process has no capability that could be raised either.
        let _ = rustix::thread::remove_capability_from_bounding_set(one);
    }
    rustix::thread::clear_ambient_capability_set().map_err(Error::step("ambient capabilities"))?;
    let none = CapabilitySet::empty();
    let empty = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, empty).map_err(Error::step("capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(Error::step("no_new_privs"))
}
