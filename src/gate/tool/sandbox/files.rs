//! The files that a command may access, enforced by Landlock: only these.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetStatus,
};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use super::{Error, NOBODY, SandboxPlan, Scratch, WORKSPACE};
use crate::catalog::command::Level;

/// The oldest sufficient version: the first that also controls `truncate`.
const LEAST: ABI = ABI::V3;
/// Paths of libraries, locales and program data.
pub(super) const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"];
/// Files that the loader and the C library also read, and OpenSSL's configuration: some programs
/// end if OpenSSL may not read it.
pub(super) const SYSTEM_FILES: [&str; 5] = [
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/localtime",
    "/etc/ssl/openssl.cnf",
];
/// Devices without a state.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/full", "/dev/random", "/dev/urandom", "/dev/zero"];

/// The devices that this program gets. A shared mapping of `/dev/zero` is memory that is charged to
/// no process, so a limit on a server's own memory would miss it.
pub(super) fn devices(plan: &SandboxPlan) -> impl Iterator<Item = &'static str> {
    let serves = plan.serves;
    DEVICES.into_iter().filter(move |device| !(serves && *device == "/dev/zero"))
}

/// Whether this canonical path belongs to the system, which is read-only in every sandbox.
#[must_use]
pub fn is_system(path: &Path) -> bool {
    let all = SYSTEM.iter().chain(&SYSTEM_FILES);
    all.filter_map(|dir| Path::new(dir).canonicalize().ok()).any(|dir| path.starts_with(dir))
}

/// Whether a process in a sandbox of this gate could change this path. Under a root gate that holds
/// for a path that every user may write, or that belongs to uid 65534.
#[must_use]
pub fn is_nobodys(path: &Path) -> bool {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    let open = |is: std::fs::Metadata| is.permissions().mode() & 0o002 != 0 || is.uid() == NOBODY;
    path.metadata().is_ok_and(open)
}

/// Removes access to every other file, for good.
///
/// # Errors
/// The kernel cannot enforce all of it.
pub(super) fn restrict(plan: &SandboxPlan, program: &OwnedFd) -> Result<(), Error> {
    let all = AccessFs::from_all(LEAST);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(all)
        .and_then(Ruleset::create)?;
    let look = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = AccessFs::ReadFile | AccessFs::Execute;
    for path in SYSTEM.iter().chain(&SYSTEM_FILES) {
        rules = below(rules, Path::new(path), look, false)?;
    }
    for path in devices(plan) {
        rules = below(rules, Path::new(path), AccessFs::ReadFile | AccessFs::WriteFile, false)?;
    }
    // Without devices and programs: only data may be written.
    let write = all & !(AccessFs::Execute | AccessFs::MakeBlock | AccessFs::MakeChar);
    for (paths, access) in [(&plan.read, look), (&plan.write, write)] {
        for path in paths {
            rules = exactly(rules, path, access)?;
        }
    }
    for path in plan.interpreter.iter().chain(&plan.children) {
        rules = below(rules, path, run, true)?;
    }
    if plan.level >= Level::S2 {
        rules = below(rules, Path::new("/proc"), look, false)?;
    }
    let scratch: &[&str] = match plan.scratch {
        Scratch::None => &[],
        Scratch::Tmp => &["/tmp"],
        Scratch::Call | Scratch::Run => &[WORKSPACE, "/tmp"],
    };
    for path in scratch {
        rules = below(rules, Path::new(path), write, true)?;
    }
    rules = rules.add_rule(PathBeneath::new(program, run))?;
    let status = rules.restrict_self()?;
    if status.ruleset != RulesetStatus::FullyEnforced || !status.no_new_privs {
        return Err(Error::LandlockPart);
    }
    Ok(())
}

/// Adds one rule. An optional path that does not exist gets none.
fn below(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
    needed: bool,
) -> Result<RulesetCreated, Error> {
    let file = match PathFd::new(path) {
        Ok(file) => file,
        Err(_) if !needed => return Ok(rules),
        Err(source) => return Err(Error::Beneath { path: path.to_owned(), source }),
    };
    rule(rules, file, path, access)
}

/// Adds one rule for a path that had no symbolic link when it was checked. A process that may write
/// there could have added a link since, which would lead to a path that was never allowed.
fn exactly(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Error> {
    rule(rules, straight(CWD, path)?, path, access)
}

/// Opens this path, without a symbolic link on the way.
pub(super) fn straight(from: impl AsFd, path: &Path) -> Result<OwnedFd, Error> {
    let (flags, links) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::NO_SYMLINKS);
    rustix::fs::openat2(from, path, flags, Mode::empty(), links).map_err(Error::open(path))
}

fn rule(
    rules: RulesetCreated,
    file: impl AsFd,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Error> {
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(LEAST) };
    Ok(rules.add_rule(PathBeneath::new(file, access))?)
}
