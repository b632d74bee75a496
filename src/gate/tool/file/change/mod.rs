//! A permitted write, applied completely or not at all.
//!
//! The new content is written to a staging file in the root, synced, and moved into place in one
//! step. To replace a file, the two are exchanged, so that the old file can be checked: if it is
//! not the one that was judged, it is put back and the call fails. A killed process leaves a
//! staging file under a name that no tool may access; the next start removes it.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, Dir, Gid, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::write::{MODE_NEW, PreImage, WritePlan, contents, touched};
use super::{DIRECTORY, FileIdentity, RESOLVE, RootDirectory, failed, is_regular, walk};
use crate::clock::{SystemEntropy, random16};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::Json;
use crate::domain::outcome::{AnswerContent, FailureClass, Unmasked};
use crate::ledger::fuse::{Fuse, Late};

const STAGED_PREFIX: &str = ".wicketgate-";
const STAGED_SUFFIX: &str = ".tmp";
/// Permission bits of a new directory, before the process's umask.
const MODE_FOLDER: u32 = 0o755;

/// Applies the plan, if nothing has changed since it was judged.
pub(super) fn apply(plan: &WritePlan, fuse: &Fuse) -> Unmasked {
    match attempt(plan, fuse) {
        Ok(result) => {
            let result = AnswerContent::Text(canonical::bytes(&result));
            Unmasked::Completed { result, status: "ok".into() }
        }
        Err(outcome) => outcome,
    }
}

fn attempt(plan: &WritePlan, fuse: &Fuse) -> Result<Json, Unmasked> {
    fuse.redeem().map_err(Late::outcome)?;
    let mut made = Vec::new();
    let done = folders(plan, &mut made).and_then(|parent| match &plan.content {
        Some(content) => put(plan, &parent, (content, fuse)),
        None => delete(plan, &parent, fuse),
    });
    if matches!(done, Err(Unmasked::Failed { .. })) {
        for (parent, name) in made.iter().rev() {
            // A directory into which another process has put something stays.
            let _ = rustix::fs::unlinkat(parent, name.as_str(), AtFlags::REMOVEDIR);
        }
    }
    done?;
    let mut members =
        vec![("path", Json::from(plan.path.as_str())), ("operation", Json::from(plan.operation()))];
    if let Some(content) = &plan.content {
        members.push(("size", Json::from(u64::try_from(content.len()).unwrap_or(u64::MAX))));
        members.push(("sha256", Json::from(plan.after())));
    }
    if let Some(before) = &plan.before {
        members.push(("before_sha256", Json::from(before.digest.hex())));
    }
    Ok(Json::object(members))
}

/// The directory to write in, which must still be where it was judged; creates missing ones.
fn folders(plan: &WritePlan, made: &mut Vec<(OwnedFd, String)>) -> Result<OwnedFd, Unmasked> {
    let identity =
        |dir: &OwnedFd| rustix::fs::fstat(dir).map(|stat| FileIdentity::from(&stat).identity());
    let there = plan.beneath.walk(&plan.folder, DIRECTORY).map_err(|_| changed())?;
    match (identity(&there), identity(&plan.parent)) {
        (Ok(now), Ok(judged)) if now == judged => {}
        (_, _) => return Err(changed()),
    }
    let mut at = there;
    for name in &plan.missing {
        match rustix::fs::mkdirat(&at, name.as_str(), Mode::from_raw_mode(MODE_FOLDER)) {
            Ok(()) => {
                rustix::fs::fsync(&at).map_err(unwritten)?;
                let parent = at.try_clone().map_err(|e| unwritten(errno(&e)))?;
                made.push((parent, name.clone()));
            }
            // Another call created it first; its content is checked as anywhere else.
            Err(Errno::EXIST) => {}
            Err(error) => return Err(unwritten(error)),
        }
        at = walk(&at, name, DIRECTORY).map_err(|_| changed())?;
    }
    Ok(at)
}

/// Creates or replaces the file.
fn put(
    plan: &WritePlan,
    parent: &OwnedFd,
    (content, fuse): (&[u8], &Fuse),
) -> Result<(), Unmasked> {
    let root = &plan.beneath.root;
    let mut staged = Staged::write(root, content, plan.before.as_ref()).map_err(unwritten)?;
    match &plan.before {
        None => {
            let flags = RenameFlags::NOREPLACE;
            fuse.redeem().map_err(Late::outcome)?;
            rename((root, &staged.name), (parent, &plan.name), flags).map_err(in_the_way)?;
        }
        Some(before) => {
            still(parent, &plan.name, before)?;
            let here = (root, staged.name.clone());
            let swap = || rename((here.0, &here.1), (parent, &plan.name), RenameFlags::EXCHANGE);
            fuse.redeem().map_err(Late::outcome)?;
            swap().map_err(in_the_way)?;
            if !came_out(root, &staged.name, before) {
                return Err(match swap() {
                    Ok(()) => changed(),
                    Err(_) => {
                        // The file that is there now does not belong to this call and must not be
                        // removed.
                        staged.ours = false;
                        lost("exchange")
                    }
                });
            }
        }
    }
    drop(staged);
    rustix::fs::fsync(parent).map_err(|_| lost("sync"))
}

fn delete(plan: &WritePlan, parent: &OwnedFd, fuse: &Fuse) -> Result<(), Unmasked> {
    let Some(before) = &plan.before else { return Err(changed()) };
    let (root, name) = (&plan.beneath.root, staged_name());
    still(parent, &plan.name, before)?;
    let flags = RenameFlags::NOREPLACE;
    fuse.redeem().map_err(Late::outcome)?;
    rename((parent, &plan.name), (root, &name), flags).map_err(in_the_way)?;
    if !came_out(root, &name, before) {
        let back = rename((root, &name), (parent, &plan.name), flags);
        return Err(back.map_or_else(|_| lost("exchange"), |()| changed()));
    }
    rustix::fs::unlinkat(root, name.as_str(), AtFlags::empty()).map_err(|_| lost("unlink"))?;
    rustix::fs::fsync(parent).map_err(|_| lost("sync"))
}

fn rename(
    (from, name): (&OwnedFd, &str),
    (to, as_name): (&OwnedFd, &str),
    flags: RenameFlags,
) -> Result<(), Errno> {
    rustix::fs::renameat_with(from, name, to, as_name, flags)
}

/// Checks that the file in place is the one that was judged.
fn still(parent: &OwnedFd, name: &str, before: &PreImage) -> Result<(), Unmasked> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    let stat = stat.map_err(|_| changed())?;
    if (FileIdentity::from(&stat), touched(&stat)) == (before.seen, before.touched) {
        Ok(())
    } else {
        Err(changed())
    }
}

/// Whether the file that was exchanged out is the judged one, to the last byte.
fn came_out(root: &OwnedFd, name: &str, before: &PreImage) -> bool {
    let stat = rustix::fs::statat(root, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileIdentity::from(&stat) == before.seen && stat.st_nlink == 1)
        && contents(&before.file).is_ok_and(|bytes| Digest::of(&[&bytes]) == before.digest)
}

/// A synced staging file with the new content, which no other process uses. Removed on drop unless
/// it was moved.
struct Staged<'a> {
    root: &'a OwnedFd,
    name: String,
    ours: bool,
}

impl<'a> Staged<'a> {
    fn write(root: &'a OwnedFd, content: &[u8], before: Option<&PreImage>) -> Result<Self, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let (name, private) = (staged_name(), Mode::RUSR | Mode::WUSR);
        let file =
            rustix::fs::openat2(root, name.as_str(), flags | OFlags::CLOEXEC, private, RESOLVE)?;
        let staged = Self { root, name, ours: true };
        let mut file = File::from(file);
        file.write_all(content).map_err(|error| errno(&error))?;
        if let Some(before) = before
            && rustix::fs::fstat(&file)?.st_gid != before.group
        {
            rustix::fs::fchown(&file, None, Some(Gid::from_raw(before.group)))?;
        }
        let mode = before.map_or(MODE_NEW, |before| before.mode);
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        rustix::fs::fsync(&file)?;
        Ok(staged)
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if self.ours {
            // After a creation, no file has this name any more.
            let _ = rustix::fs::unlinkat(self.root, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// A staging name. Half of it identifies the process, so that a running write is not mistaken for a
/// leftover.
fn staged_name() -> String {
    let random = hex::encode(random16(&SystemEntropy));
    let own = random.get(16..).unwrap_or_default();
    format!("{STAGED_PREFIX}{}{own}{STAGED_SUFFIX}", process())
}

/// 16 hex digits, drawn once per process.
fn process() -> &'static str {
    static PROCESS: OnceLock<String> = OnceLock::new();
    PROCESS.get_or_init(|| hex::encode(random16(&SystemEntropy)).chars().take(16).collect())
}

/// Whether another process created a staging file with this name.
fn is_staged(name: &str) -> bool {
    let random = name.strip_prefix(STAGED_PREFIX).and_then(|rest| rest.strip_suffix(STAGED_SUFFIX));
    random.is_some_and(|hex| {
        hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()) && !hex.starts_with(process())
    })
}

/// Removes the staging files of killed processes: plain files of the gate, found by name.
pub(super) fn sweep(beneath: &RootDirectory) {
    let Ok(dir) = beneath.walk(".", DIRECTORY).and_then(Dir::new) else { return };
    for entry in dir.flatten() {
        let Ok(name) = entry.file_name().to_str() else { continue };
        let ours = || {
            let stat = rustix::fs::statat(&beneath.root, name, AtFlags::SYMLINK_NOFOLLOW);
            let uid = rustix::process::geteuid().as_raw();
            stat.is_ok_and(|stat| is_regular(&stat) && stat.st_uid == uid)
        };
        if is_staged(name) && ours() {
            let _ = rustix::fs::unlinkat(&beneath.root, name, AtFlags::empty());
        }
    }
}

fn changed() -> Unmasked {
    failed(FailureClass::Changed, "the file changed after it was judged; nothing was written")
}

fn lost(cause: &str) -> Unmasked {
    Unmasked::Unknown { cause: cause.to_owned() }
}

/// The failure for a rename that did not happen.
fn in_the_way(error: Errno) -> Unmasked {
    match error {
        Errno::EXIST | Errno::NOENT => changed(),
        other => unwritten(other),
    }
}

/// The failure for a write that changed nothing, with the reason.
fn unwritten(error: Errno) -> Unmasked {
    let why = match error {
        Errno::NOSPC | Errno::DQUOT => "there is no space left",
        Errno::FBIG => "a file may not be as large",
        Errno::ROFS | Errno::ACCESS | Errno::PERM => "the gate may not write there",
        Errno::XDEV => "it lies on another file system than the root",
        Errno::INVAL | Errno::NOSYS => "the file system cannot replace a file in one step",
        _ => "the file cannot be written",
    };
    failed(FailureClass::ToolError, &format!("{why}; nothing was changed"))
}

fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests;
