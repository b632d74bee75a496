//! Tries to break out from inside a sandbox. Every attempt that works is a hole.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use rustix::mount::MountFlags;
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit};
use rustix::thread::UnshareFlags;

use super::cpu;

/// A file that every user may read, and that no command may.
pub(super) const CANARY: &str = "/etc/passwd";
/// Descriptors that the probe tries.
const DESCRIPTORS: i32 = 1024;

/// Prints every attempt that worked. `args`: the sidecar's process id and the level.
pub(super) fn run(args: &[OsString]) -> ExitCode {
    // Done before the probe itself opens anything.
    let inherited = (3..DESCRIPTORS).filter(|fd| nix::unistd::close(*fd).is_ok()).count();
    let text = |i: usize| args.get(i).and_then(|arg| arg.to_str()).unwrap_or_default();
    let (sidecar, level) = (text(0), text(1));
    let mut found = Vec::new();
    let mut worked = |what: &str, did: bool| {
        if did {
            found.push(what.to_owned());
        }
    };
    worked("use inherited descriptors", inherited > 0);
    for (what, family, kind) in [
        ("make TCP sockets", AddressFamily::INET, SocketType::STREAM),
        ("make UDP sockets", AddressFamily::INET, SocketType::DGRAM),
        ("make IPv6 sockets", AddressFamily::INET6, SocketType::STREAM),
        ("make Unix sockets", AddressFamily::UNIX, SocketType::STREAM),
        ("make netlink sockets", AddressFamily::NETLINK, SocketType::RAW),
    ] {
        worked(what, rustix::net::socket(family, kind, None).is_ok());
    }
    worked("read other files", File::open(CANARY).is_ok());
    worked("write files", writes());
    // WHY a missing file: nothing is changed if the attempt works.
    let mode = fs::set_permissions("/nowhere", Permissions::from_mode(0o600));
    let tried = mode.is_err_and(|why| why.kind() == ErrorKind::NotFound);
    worked("change the modes of files", level == "S1" && tried);
    // In a pid namespace of its own this process is number 1, and the sidecar may be number 1 in
    // its own.
    if sidecar != std::process::id().to_string() {
        worked("read the state of other processes", reads_others(sidecar));
        others(sidecar, &mut worked);
    }
    worked("start programs", starts());
    worked("use several processors", cpu::is_wide());
    #[expect(deprecated, reason = "if it works, there is no sandbox and nothing to keep sound")]
    let unshared = rustix::thread::unshare(UnshareFlags::NEWUSER);
    worked("make namespaces", unshared.is_ok());
    let privileged = privileged();
    // With privileges any process could mount; the privileges themselves are reported below.
    let mount = || rustix::mount::mount("tmpfs", "/", "tmpfs", MountFlags::NOSUID, None);
    worked("mount", !privileged && mount().is_ok());
    worked("change its root", rustix::process::chroot("/usr").is_ok());
    worked("begin a session", rustix::process::setsid().is_ok());
    worked("keep privileges", privileged);
    worked("see other processes", level == "S2" && std::process::id() != 1);
    let json = serde_json::to_string(&found).unwrap_or_default();
    match std::io::stdout().write_all(json.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn reads_others(sidecar: &str) -> bool {
    let names = ["status", "environ", "mem", "root/etc/passwd"];
    names.iter().any(|name| File::open(format!("/proc/{sidecar}/{name}")).is_ok())
}

/// Directories that every user may write, and some that only root may.
fn writes() -> bool {
    let name = format!(".wicketgate-probe-{}", std::process::id());
    ["/tmp", "/var/tmp", "/dev/shm", "/usr", "/", "."].iter().any(|dir| {
        let path = Path::new(dir).join(&name);
        let made = File::create(&path).is_ok();
        let _ = fs::remove_file(&path);
        made
    })
}

/// Attempts against another process of the same user.
fn others(sidecar: &str, worked: &mut impl FnMut(&str, bool)) {
    let Some(other) = sidecar.parse().ok().and_then(Pid::from_raw) else {
        worked("not read its orders", true);
        return;
    };
    worked("signal other processes", rustix::process::test_kill_process(other).is_ok());
    let opened = rustix::process::pidfd_open(other, PidfdFlags::empty());
    worked("open other processes", opened.is_ok());
    let same = Rlimit { current: Some(0), maximum: None };
    let limited = rustix::process::prlimit(Some(other), Resource::Core, same);
    worked("limit other processes", limited.is_ok());
}

fn starts() -> bool {
    Command::new("/usr/bin/env").stdout(Stdio::null()).status().is_ok()
}

fn privileged() -> bool {
    let none = |sets: rustix::thread::CapabilitySets| {
        sets.permitted.is_empty() && sets.effective.is_empty() && sets.inheritable.is_empty()
    };
    !rustix::thread::capabilities(None).is_ok_and(none)
        || rustix::process::getuid().is_root()
        || rustix::process::geteuid().is_root()
}
