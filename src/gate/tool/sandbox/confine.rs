//! The confined one: takes everything away from itself and becomes the command.

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

/// Descriptors a command may have open.
const DESCRIPTORS: u64 = 256;
/// And a server.
const DESCRIPTORS_SERVING: u64 = 1024;
/// Address space of a server for each byte of memory it may use, beside what every program reserves: what is
/// reserved and not written costs nothing, and some runtimes reserve without measure.
const RESERVED: u64 = 64 << 30;
/// The most the kernel takes where it has no limit.
const RLIM_ANY: u64 = 1 << 20;
/// Bytes of the largest file it may write.
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

/// Does not come back, unless something cannot be taken away.
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
    // The supervisor has one thread, so its end is meant and not that of some thread of it.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(Error::step("no death signal"))?;
    // It may have ended before it was meant.
    is_there(control).map_err(Error::step("no supervisor"))?;
    files::restrict(plan, &program)?;
    rustix::stdio::dup2_stdin(&files.input).map_err(Error::step("no input"))?;
    drop(files.input);
    filter::apply(plan, program.as_raw_fd())?;
    // Last, for they count what this helper itself has mapped until it is another program.
    if plan.serves {
        // What is written; the filter takes the other kinds of memory away.
        limit(Resource::Data, plan.limits.memory_bytes)?;
        limit(Resource::As, plan.limits.memory_bytes.saturating_add(RESERVED))?;
    } else {
        limit(Resource::As, plan.limits.memory_bytes)?;
    }
    // By descriptor: what was hashed is what runs, whatever the path names by now.
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

/// The program under a number that no descriptor of the command can have, and that number: the most it may have open.
///
/// The filter lets this number be executed. It is closed when the command begins, and a command that could put
/// another file in its place, such as the loader, would start a second program.
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
    // A server lives as long as the gate.
    if !plan.serves {
        limits.push((Resource::Cpu, plan.limits.cpu_seconds));
    }
    if plan.level >= Level::S2 {
        // Counted per user, and only here the user is nobody else's.
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

/// No capability, none to come back, and no program that brings any.
fn privileges() -> Result<(), Error> {
    for bit in 0..64_u32 {
        let one = CapabilitySet::from_bits_retain(1_u64 << bit);
        if rustix::thread::capability_is_in_bounding_set(one) != Ok(true) {
            continue;
        }
        // Without the right to, there is no capability that could be raised either.
        let _ = rustix::thread::remove_capability_from_bounding_set(one);
    }
    rustix::thread::clear_ambient_capability_set().map_err(Error::step("ambient capabilities"))?;
    let none = CapabilitySet::empty();
    let empty = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, empty).map_err(Error::step("capabilities"))?;
    rustix::thread::set_no_new_privs(true).map_err(Error::step("no_new_privs"))
}
