//! Attempts that need no network: files, processes, sockets and privileges of this machine.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::ExitStatus;

use rustix::fs::{Access, AtFlags, CWD};
use rustix::net::{AddressFamily, SocketType, ipproto};
use rustix::thread::UnshareFlags;

use super::gate::IsolationTargets;
use super::targets::TOKENS;

use crate::domain::plural::many;
use crate::enforce::posture::Probe;
use crate::record::chain::Attempt;
use crate::record::decided::clip;

/// Bytes of a target or detail, as the gate takes them.
const TEXT_BYTES_MAX: usize = 128;
/// Changeable files that the report names; more of them would add nothing.
const FILES_NAMED_MAX: usize = 16;
/// Mode bit of a directory in which users can remove only their own files.
const STICKY: u32 = 0o1000;

/// One attempt and its outcome.
pub fn probe(name: &str, target: &str, (outcome, detail): (Attempt, String)) -> Probe {
    let (target, detail) = (clip(target, TEXT_BYTES_MAX), clip(&detail, TEXT_BYTES_MAX));
    Probe { probe: name.to_owned(), target, outcome, detail }
}

/// The finding for what only a gate could tell.
pub fn no_gate(name: &str) -> Probe {
    probe(name, "gate", (Attempt::Unknown, "no gate was asked".to_owned()))
}

/// Runs every local attempt; `namespaces`: whether a user namespace could be made.
pub fn all(
    isolation: Option<&IsolationTargets>,
    namespaces: Result<bool, NamespaceError>,
) -> Vec<Probe> {
    let mut probes = raw();
    probes.extend(TOKENS.map(|path| probe("credentials.token", path, opened(Path::new(path)))));
    probes.push(probe("privileges.capabilities", "this process", capabilities()));
    probes.push(probe("privileges.escalation", "set-uid programs", escalation()));
    probes.push(probe("privileges.namespaces", "user namespace", made(namespaces)));
    probes.push(probe("kernel.keys", "/proc/keys", keys()));
    match isolation {
        None => probes.extend(["gate.process", "gate.files"].map(no_gate)),
        Some(isolation) => {
            probes.extend(process(isolation.process));
            probes.extend(files(isolation));
        }
    }
    probes
}

fn open_if(open: bool, open_detail: &str, no: &str) -> (Attempt, String) {
    let (outcome, detail) =
        if open { (Attempt::Open, open_detail) } else { (Attempt::Blocked, no) };
    (outcome, detail.to_owned())
}

/// Sockets that see or send whatever they like.
fn raw() -> Vec<Probe> {
    let kinds = [
        ("raw IPv4", AddressFamily::INET, Some(ipproto::ICMP)),
        ("raw IPv6", AddressFamily::INET6, Some(ipproto::ICMPV6)),
        ("packet", AddressFamily::PACKET, None),
    ];
    let one = |(target, family, protocol)| {
        let made = rustix::net::socket(family, SocketType::RAW, protocol);
        let found = match made {
            Ok(_) => (Attempt::Open, "made".to_owned()),
            Err(error) => (Attempt::Blocked, io::Error::from(error).to_string()),
        };
        probe("socket.raw", target, found)
    };
    kinds.map(one).into()
}

/// Whether a file or directory can be opened.
fn opened(path: &Path) -> (Attempt, String) {
    let opened =
        if path.is_dir() { fs::read_dir(path).map(drop) } else { File::open(path).map(drop) };
    reached(opened, "can be read")
}

fn reached(tried: io::Result<()>, open_detail: &str) -> (Attempt, String) {
    match tried {
        Ok(()) => (Attempt::Open, open_detail.to_owned()),
        Err(error) => shut(&error),
    }
}

/// What an error of a path means: the path is missing, no process listens there, or it may not be
/// used.
pub(super) fn shut(error: &io::Error) -> (Attempt, String) {
    let blocked = matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::ReadOnlyFilesystem
    );
    (if blocked { Attempt::Blocked } else { Attempt::Unknown }, error.to_string())
}

fn capabilities() -> (Attempt, String) {
    if rustix::process::geteuid().is_root() || rustix::process::getuid().is_root() {
        return (Attempt::Open, "this is root".to_owned());
    }
    match rustix::thread::capabilities(None) {
        Ok(sets) => {
            let all = sets.permitted | sets.effective | sets.inheritable;
            open_if(!all.is_empty(), &format!("{all:?}"), "none")
        }
        Err(error) => (Attempt::Unknown, error.to_string()),
    }
}

fn escalation() -> (Attempt, String) {
    match rustix::thread::no_new_privs() {
        Ok(none) => open_if(!none, "no_new_privs is not set", "no_new_privs is set"),
        Err(error) => (Attempt::Unknown, error.to_string()),
    }
}

fn made(namespaces: Result<bool, NamespaceError>) -> (Attempt, String) {
    match namespaces {
        Ok(made) => open_if(made, "made", "not permitted"),
        Err(error) => (Attempt::Unknown, error.to_string()),
    }
}

/// An attempt to make a user namespace without a clear result.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The process that would try cannot be started.
    #[error(transparent)]
    Start(#[from] io::Error),
    /// It ended otherwise than by its own decision.
    #[error("the attempt ended with {0}")]
    Ended(ExitStatus),
}

/// Makes a user namespace, in which this process has every capability. The process must end after
/// that.
pub fn makes_namespaces() -> bool {
    #[expect(
        deprecated,
        reason = "nothing else is done in this process, so nothing can be unsound"
    )]
    let unshared = rustix::thread::unshare(UnshareFlags::NEWUSER);
    unshared.is_ok()
}

/// Looks for other users' keys that the kernel shows.
fn keys() -> (Attempt, String) {
    let text = match fs::read_to_string("/proc/keys") {
        Ok(text) => text,
        Err(error) => return reached(Err(error), ""),
    };
    let own = rustix::process::geteuid().as_raw().to_string();
    let others = text.lines().filter(|line| {
        let mut words = line.split_whitespace().skip(5);
        let (uid, kind) = (words.next(), words.nth(1));
        uid != Some(own.as_str()) && matches!(kind, Some("user" | "logon" | "encrypted"))
    });
    let count = others.count();
    open_if(count > 0, &format!("{count} of other users"), "none of other users")
}

/// Looks at the gate's process: reading its memory needs the same right as tracing it.
fn process(pid: Option<i32>) -> Vec<Probe> {
    let Some(pid) = pid.filter(|pid| Path::new(&format!("/proc/{pid}")).exists()) else {
        let hidden = (Attempt::Blocked, "the gate's process is not seen from here".to_owned());
        return vec![probe("gate.process", "/proc", hidden)];
    };
    let names = ["environ", "mem", "maps", "fd", "root", "ns/net"];
    let one = |name| {
        let path = format!("/proc/{pid}/{name}");
        probe("gate.process", &path, opened(Path::new(&path)))
    };
    names.map(one).into()
}

/// What of the gate's own can be changed or put in its place.
fn files(isolation: &IsolationTargets) -> Vec<Probe> {
    let open = isolation.paths.iter().filter_map(|path| {
        let parent = path.parent().is_some_and(replaceable);
        let why = if writable(path) { "can be changed" } else { "can be replaced" };
        (writable(path) || parent)
            .then(|| probe("gate.files", &path.display().to_string(), (Attempt::Open, why.into())))
    });
    let open: Vec<Probe> = open.take(FILES_NAMED_MAX).collect();
    if open.is_empty() {
        let count = many(isolation.paths.len(), "path");
        return vec![probe("gate.files", &count, (Attempt::Blocked, "cannot be changed".into()))];
    }
    open
}

fn writable(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
}

/// Whether other users' files in this directory can be removed.
fn replaceable(directory: &Path) -> bool {
    let sticky =
        fs::metadata(directory).is_ok_and(|found| found.permissions().mode() & STICKY != 0);
    writable(directory) && !sticky
}
