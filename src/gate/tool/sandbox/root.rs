//! The file system of `S2`: a root of its own, with the command's readable paths mounted read-only.

use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_bind_recursive,
    mount_change, mount_remount, unmount,
};

use super::files::{SYSTEM, SYSTEM_FILES, devices, straight};
use super::{Error, Network, SandboxPlan, Scratch, WORKSPACE, host};

/// Directories on which the new root can be mounted while the old one exists.
const BASES: [&str; 4] = ["/tmp", "/mnt", "/run", "/var"];
/// The mount point of the old root until it is detached.
const OLD: &str = "/.old";
/// The mount point of a holder's directory: the original content of this path is never given to a
/// tool.
pub(super) const WORKSPACE_MOUNT: &str = "/sys";
/// A workspace and `/tmp`: 64 MiB and 4,096 files each.
const SCRATCH: &std::ffi::CStr = c"size=64m,nr_inodes=4096,mode=0700";

/// Builds the new root and moves into it.
///
/// # Errors
/// The error of the operating system.
pub(super) fn build(plan: &SandboxPlan) -> Result<(), Error> {
    private()?;
    let base = BASES.iter().find(|base| Path::new(base).is_dir()).ok_or(Error::NoBase)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", *base, "tmpfs", flags, c"size=1m,mode=0755").map_err(Error::step("a root"))?;
    let old = format!("{base}{OLD}");
    fs::create_dir(&old).map_err(Error::path(Path::new(&old)))?;
    rustix::process::pivot_root(*base, &*old).map_err(Error::step("pivot_root"))?;
    rustix::process::chdir("/").map_err(Error::step("the root"))?;
    for path in SYSTEM.iter().chain(&SYSTEM_FILES) {
        system(Path::new(path))?;
    }
    if plan.scratch != Scratch::None {
        // WHY first: it would hide readable or writable paths below `/tmp`.
        place(Path::new("/tmp"), true)?;
        memory("/tmp")?;
    }
    if plan.network != Network::None {
        for path in host::FILES {
            system(Path::new(path))?;
        }
    }
    let mut read = plan.read.clone();
    read.sort();
    for path in &read {
        bind(path)?;
    }
    let mut write = plan.write.clone();
    write.sort();
    for path in &write {
        show(path, false)?;
    }
    for path in devices(plan) {
        let path = Path::new(path);
        place(path, false)?;
        mount_bind(old_path(path), path).map_err(Error::mount(path))?;
    }
    place(Path::new("/proc"), true)?;
    // If the system hides parts of its own `/proc`, the mount fails; the sandbox then has none,
    // which is no weaker.
    let _ = mount("proc", "/proc", "proc", flags | MountFlags::NOEXEC, None);
    workspace(plan.scratch)?;
    unmount(OLD, UnmountFlags::DETACH).map_err(Error::step("the old root"))?;
    fs::remove_dir(OLD).map_err(Error::step("the old root"))?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | flags;
    mount_remount("/", flags, c"").map_err(Error::step("a read-only root"))
}

/// Makes mounts private: from here on no other namespace sees this one's mounts, nor the reverse.
pub(super) fn private() -> Result<(), Error> {
    let quiet = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", quiet).map_err(Error::step("private mounts"))
}

/// Mounts a directory in memory.
pub(super) fn memory(path: &str) -> Result<(), Error> {
    let quiet = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", path, "tmpfs", quiet, SCRATCH).map_err(Error::mount(Path::new(path)))
}

fn workspace(scratch: Scratch) -> Result<(), Error> {
    match scratch {
        Scratch::None | Scratch::Tmp => return Ok(()),
        Scratch::Call | Scratch::Run => place(Path::new(WORKSPACE), true)?,
    }
    if scratch == Scratch::Call {
        return memory(WORKSPACE);
    }
    mount_bind(old_path(Path::new(WORKSPACE_MOUNT)), WORKSPACE)
        .map_err(Error::mount(Path::new(WORKSPACE)))
}

fn old_path(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

/// Adds a path of the system; a link stays a link.
fn system(path: &Path) -> Result<(), Error> {
    let old = old_path(path);
    let Ok(facts) = fs::symlink_metadata(&old) else { return Ok(()) };
    if !facts.is_symlink() {
        return bind(path);
    }
    let target = fs::read_link(&old).map_err(Error::path(path))?;
    if let Some(above) = path.parent() {
        place(above, true)?;
    }
    symlink(target, path).map_err(Error::path(path))
}

/// Mounts this path read-only at its own place, unless an existing mount includes it.
fn bind(path: &Path) -> Result<(), Error> {
    if path.exists() { Ok(()) } else { show(path, true) }
}

/// Mounts this path at its own place.
fn show(path: &Path, read_only: bool) -> Result<(), Error> {
    let failed = Error::open(path);
    let root = fs::File::open(OLD).map_err(&failed)?;
    let file = straight(&root, path.strip_prefix("/").unwrap_or(path))?;
    // By descriptor: a process that may write there could replace the name by a link meanwhile.
    let old = format!("{OLD}/proc/self/fd/{}", file.as_raw_fd());
    let is_dir = fs::metadata(&old).map_err(&failed)?.is_dir();
    if !path.exists() {
        place(path, is_dir)?;
    }
    mount_bind_recursive(&old, path).map_err(Error::mount(path))?;
    // Flags that the system set on the mount must be kept, or the kernel refuses the remount.
    let kept = rustix::fs::statvfs(path).map_err(|e| Error::path(path)(e.into()))?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    if read_only || kept.contains(StatVfsMountFlags::RDONLY) {
        flags |= MountFlags::RDONLY;
    }
    if kept.contains(StatVfsMountFlags::NOEXEC) {
        flags |= MountFlags::NOEXEC;
    }
    mount_remount(path, flags, c"").map_err(Error::mount(path))
}

/// Creates a mount point.
fn place(path: &Path, dir: bool) -> Result<(), Error> {
    let failed = Error::path(path);
    if dir {
        return fs::create_dir_all(path).map_err(&failed);
    }
    if let Some(above) = path.parent() {
        fs::create_dir_all(above).map_err(&failed)?;
    }
    fs::File::create(path).map(drop).map_err(failed)
}
