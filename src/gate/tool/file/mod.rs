//! The kinds that work on files: `file.read`, `file.list` and `file.write`, each beneath a root
//! that was opened at start.
//!
//! The kernel walks every path (`openat2`: beneath the root, no symbolic links, no other mounts).
//! The judged facts come from open descriptors, and the permitted call uses the very same
//! descriptors. No second walk decides anything, and there is no fallback.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::path::{ExcludedNames, PathRefusal, Use};
use super::probe::{Point, ProbeState};
use crate::catalog::binding::Root;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::outcome::{FailureClass, Unmasked};

mod change;
mod edit;
mod list;
mod read;
mod write;

pub use list::FileList;
pub use read::FileRead;
pub use write::FileWrite;

/// Retries of a walk when the kernel saw a concurrent rename.
const WALKS_MAX: u32 = 8;
const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);
// NONBLOCK: opening a FIFO must not wait for a writer. NOCTTY: a terminal must not become the
// gate's.
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOFOLLOW);
// Without NOFOLLOW, which would report a link as "no directory": NO_SYMLINKS refuses it as a link.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Why a root cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The root cannot be opened, or the kernel has no `openat2`.
    #[error("cannot open root `{}`: {source}", path.display())]
    Root {
        /// The directory.
        path: PathBuf,
        /// The error of the operating system.
        source: Errno,
    },
    /// The path is not allowed for any tool, or is not a plain file.
    #[error("{}", .0.message)]
    Refused(LayerReason),
}

/// A directory that was opened at start, and the names beneath it that no tool may access.
#[derive(Debug)]
struct RootDirectory {
    name: String,
    root: OwnedFd,
    guard: ExcludedNames,
    /// The gate's own files by device and inode, so that a second name of one is refused too.
    own: Vec<(u64, u64)>,
}

/// The identity that must not change between judging and acting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct FileIdentity {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, i64),
}

impl From<&Stat> for FileIdentity {
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "the fields' widths differ between platforms"
    )]
    fn from(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev.into(),
            inode: stat.st_ino.into(),
            size: stat.st_size.into(),
            modified: (stat.st_mtime.into(), i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
        }
    }
}

impl FileIdentity {
    const fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }
}

impl RootDirectory {
    /// Opens the root. From here on the open directory counts, not its name.
    ///
    /// # Errors
    /// A root that cannot be opened, or a kernel without `openat2`.
    fn open(root: &Root) -> Result<Self, Error> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let failed = |source| Error::Root { path: root.path.clone(), source };
        let fd = rustix::fs::open(&root.path, flags, Mode::empty()).map_err(failed)?;
        // A refusal at start is better than a refusal of every call.
        rustix::fs::openat2(&fd, ".", flags, Mode::empty(), RESOLVE).map_err(failed)?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let files: Vec<_> = root.own.iter().map(|path| real(path)).collect();
        let below = files.iter().filter_map(|path| path.strip_prefix(&root.path).ok()?.to_str());
        let below: Vec<&str> = below.filter(|path| !path.is_empty()).collect();
        let seen = files.iter().filter_map(|path| rustix::fs::stat(path).ok());
        let own = seen.map(|stat| FileIdentity::from(&stat).identity()).collect();
        let guard = ExcludedNames::new(root, &below);
        Ok(Self { name: root.name.clone(), root: fd, guard, own })
    }

    /// Whether the text of this path allows it to be used for this purpose.
    fn check(&self, path: &str, purpose: Use) -> Result<(), LayerReason> {
        self.guard.check(path, purpose).map_err(|refusal| match refusal {
            PathRefusal::Path(why) => reason("file.path", format!("a path {why}")),
            PathRefusal::Traversal(why) => reason("file.traversal", format!("a path {why}")),
            PathRefusal::Protected => protected(),
        })
    }

    /// Refuses an opened file that is one of the gate's own.
    fn check_own(&self, seen: &FileIdentity) -> Result<(), LayerReason> {
        if self.own.contains(&seen.identity()) { Err(protected()) } else { Ok(()) }
    }

    /// Walks to `path` and opens it.
    fn walk(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        walk(&self.root, path, flags)
    }
}

/// Walks from an open directory to something beneath it, and opens that.
fn walk(from: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut walks = 0_u32;
    loop {
        match rustix::fs::openat2(from, Path::new(path), flags, Mode::empty(), RESOLVE) {
            Err(Errno::AGAIN | Errno::INTR) if walks < WALKS_MAX => {
                walks = walks.saturating_add(1);
            }
            done => return done,
        }
    }
}

/// SHA-256 of the file at `path` beneath this root, or `None` if it does not exist; for planning a
/// rollback. Walks the path as a call would.
///
/// # Errors
/// It is not a plain file, is protected, or cannot be read.
pub fn digest(root: &Root, path: &str) -> Result<Option<Digest>, Error> {
    let beneath = RootDirectory::open(root)?;
    beneath.check(path, Use::Look).map_err(Error::Refused)?;
    let before = write::PreImage::of(&beneath, &beneath.root, path).map_err(Error::Refused)?;
    Ok(before.map(|before| before.digest))
}

/// The operator's probe: whether the root opens, and whether this process has the rights that the
/// tool needs. Writes nothing.
pub(super) fn probe(root: &Root, writes: bool) -> Vec<Point> {
    let what = format!("{} {}", root.name, root.path.display());
    let beneath = match RootDirectory::open(root) {
        Ok(beneath) => beneath,
        Err(why) => {
            let todo = "make the directory, or name another root";
            return vec![Point::wrong(what, ProbeState::Missing, why.to_string(), todo)];
        }
    };
    let (wanted, right) = if writes {
        (Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK, "writable")
    } else {
        (Access::READ_OK | Access::EXEC_OK, "readable")
    };
    vec![match rustix::fs::accessat(&beneath.root, ".", wanted, AtFlags::empty()) {
        Ok(()) => Point::ready(what, format!("opens, and is {right}")),
        Err(error) => {
            let found = format!("opens, and is not {right}: {error}");
            Point::wrong(what, ProbeState::Unfit, found, "give the gate's user the right to it")
        }
    }]
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

fn failed(class: FailureClass, message: &str) -> Unmasked {
    Unmasked::Failed { class, started: true, message: message.to_owned() }
}

fn reason(detail: &str, message: impl Into<String>) -> LayerReason {
    LayerReason::effect_refused("tool.file", detail, message)
}

fn protected() -> LayerReason {
    let why = "the path has a protected name: one that begins with a dot, holds secrets, or steers tools or \
               agents; only the operator can give it (`allow`, `allow_names` of the tool)";
    reason("file.protected_name", why)
}

/// A second name may lie outside the root, where other users may write.
fn two_names() -> LayerReason {
    reason("file.not_regular", "the file has more than one name")
}

fn refused(error: Errno, path: &str) -> LayerReason {
    match error {
        Errno::LOOP => reason("file.symlink", format!("`{path}` leads over a symbolic link")),
        Errno::NOENT | Errno::NOTDIR => reason("file.not_found", format!("`{path}` is not there")),
        Errno::XDEV => {
            reason("file.traversal", format!("`{path}` leaves the root or its file system"))
        }
        Errno::NXIO | Errno::ISDIR | Errno::NODEV => {
            reason("file.not_regular", format!("`{path}` is not a regular file"))
        }
        Errno::AGAIN => reason("file.path", format!("`{path}` is being renamed all the time")),
        // Includes ENOSYS and EPERM: without the kernel's walk no path can be opened.
        _ => reason("file.path", format!("`{path}` cannot be opened")),
    }
}

#[cfg(test)]
mod tests;
