//! The `file.read` kind: one regular file beneath a root that was opened at start.
//!
//! The kernel walks the path (`openat2`: beneath the root, no symbolic links, no other mounts); the
//! facts that are judged come from the open descriptor, and the permitted read goes through the
//! very same descriptor. There is no second walk and no fallback.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;
use std::path::Path;

use async_trait::async_trait;
use base64::Engine as _;
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::ToolExecutor;
use super::path::{self, Refusal};
use crate::catalog::binding::Root;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::code::Code;
use crate::domain::decision::Reason;
use crate::domain::effect::Effect;
use crate::domain::json::Json;
use crate::domain::outcome::{FailureClass, Outcome};
use crate::domain::prepared::{Hold, Prepared};
use crate::ledger::permit::Permit;

/// Bytes of the largest file of which a part may be read.
const FILE_BYTES_MAX: u64 = 64 << 20;
/// Times a walk is tried again when the kernel saw a rename on its way.
const WALKS_MAX: u32 = 8;

/// Reads files beneath one root.
#[derive(Debug)]
pub struct FileRead {
    name: String,
    root: OwnedFd,
    bytes_max: u64,
}

/// An open file as it was judged.
struct Opened {
    file: OwnedFd,
    path: String,
    seen: Seen,
    offset: u64,
    length: u64,
    whole: bool,
}

/// What must not change between judging and reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Seen {
    device: u64,
    inode: u64,
    size: i64,
    modified: (i64, i64),
}

impl From<&Stat> for Seen {
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

impl FileRead {
    /// Opens the root. From here on the directory itself counts and not its name.
    ///
    /// # Errors
    /// A root that cannot be opened, or a kernel without `openat2`.
    pub fn new(root: &Root, bytes_max: u64) -> Result<Self, String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let failed = |error: Errno| format!("cannot open root `{}`: {error}", root.path.display());
        let fd = rustix::fs::open(&root.path, flags, Mode::empty()).map_err(failed)?;
        // Better to refuse to start than to refuse every call.
        rustix::fs::openat2(&fd, ".", flags, Mode::empty(), RESOLVE).map_err(failed)?;
        Ok(Self { name: root.name.clone(), root: fd, bytes_max })
    }

    fn open(&self, path: &str) -> Result<OwnedFd, Reason> {
        // NONBLOCK: opening a FIFO must not wait for a writer; NOCTTY: nor a terminal become ours.
        let flags =
            OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut walks = 0_u32;
        loop {
            match rustix::fs::openat2(&self.root, Path::new(path), flags, Mode::empty(), RESOLVE) {
                Ok(file) => return Ok(file),
                Err(Errno::AGAIN | Errno::INTR) if walks < WALKS_MAX => {
                    walks = walks.saturating_add(1);
                }
                Err(error) => return Err(refused(error, path)),
            }
        }
    }

    fn look(&self, path: &str, span: (u64, Option<u64>)) -> Result<(Effect, Opened), Reason> {
        path::check(path).map_err(|refusal| match refusal {
            Refusal::Path(why) => reason("file.path", format!("a path {why}")),
            Refusal::Protected => reason("file.protected_name", "the path has a protected name"),
        })?;
        let file = self.open(path)?;
        let stat = rustix::fs::fstat(&file).map_err(|error| refused(error, path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(reason("file.not_regular", "the path is not a regular file"));
        }
        if stat.st_nlink != 1 {
            // A second name may lie outside the root, where others may write.
            return Err(reason("file.not_regular", "the file has more than one name"));
        }
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        let (offset, length) = span;
        let rest = size.saturating_sub(offset);
        let wanted = length.map_or(rest, |length| length.min(rest));
        if size > FILE_BYTES_MAX || wanted > self.bytes_max {
            let message = format!("the file has {size} bytes, at most {} are read", self.bytes_max);
            return Err(reason("file.too_large", message));
        }
        let effect = Effect::File {
            access: "read".into(),
            root: self.name.clone(),
            path: path.to_owned(),
            kind: "regular".into(),
            size,
            mode: stat.st_mode & 0o7777,
        };
        let whole = offset == 0 && length.is_none();
        let path = path.to_owned();
        let opened = Opened { file, path, seen: Seen::from(&stat), offset, length: wanted, whole };
        Ok((effect, opened))
    }
}

const RESOLVE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);

#[async_trait]
impl ToolExecutor for FileRead {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, Hold), Vec<Reason>> {
        let args = call.args();
        let path = args.get("path").and_then(Json::as_str);
        let path = path.ok_or_else(|| vec![reason("file.path", "`path` is missing")])?;
        let number = |name: &str| match args.get(name) {
            None | Some(Json::Null) => Ok(None),
            Some(value) => value
                .as_u64()
                .map(Some)
                .ok_or_else(|| vec![reason("file.span", format!("`{name}` is a number of bytes"))]),
        };
        let span = (number("offset")?.unwrap_or(0), number("length")?);
        let (effect, opened) = self.look(path, span).map_err(|reason| vec![reason])?;
        Ok((effect, Box::new(opened)))
    }

    async fn execute(&self, permit: &Permit) -> Outcome {
        read(permit.prepared()).await
    }
}

/// Reads what was judged, off the async threads. Only `execute` calls this, with a permitted call.
async fn read(prepared: &Prepared) -> Outcome {
    let Some(opened) = prepared.hold::<Opened>() else {
        return failed(FailureClass::Changed, "the call was prepared by another tool");
    };
    let Ok(file) = opened.file.try_clone() else {
        return failed(FailureClass::ToolError, "the file cannot be read");
    };
    let (seen, offset, length) = (opened.seen, opened.offset, opened.length);
    let reading =
        tokio::task::spawn_blocking(move || bytes(File::from(file), seen, offset, length));
    match reading.await {
        Ok(Ok(bytes)) => Outcome::Completed {
            result: canonical::bytes(&result(opened, &bytes)),
            status: "ok".into(),
        },
        Ok(Err(outcome)) => outcome,
        Err(_) => failed(FailureClass::ToolError, "the file cannot be read"),
    }
}

/// The bytes, if the file is before and after the reading what was judged.
fn bytes(mut file: File, seen: Seen, offset: u64, length: u64) -> Result<Vec<u8>, Outcome> {
    let unchanged = |file: &File| match rustix::fs::fstat(file) {
        Ok(stat) if Seen::from(&stat) == seen => Ok(()),
        Ok(_) | Err(_) => {
            Err(failed(FailureClass::Changed, "the file changed after it was judged"))
        }
    };
    let unreadable = |_: std::io::Error| failed(FailureClass::ToolError, "the file cannot be read");
    unchanged(&file)?;
    file.seek(SeekFrom::Start(offset)).map_err(unreadable)?;
    let mut bytes = Vec::new();
    (&mut file).take(length).read_to_end(&mut bytes).map_err(unreadable)?;
    unchanged(&file)?;
    if u64::try_from(bytes.len()).ok() != Some(length) {
        return Err(failed(FailureClass::Changed, "the file changed after it was judged"));
    }
    Ok(bytes)
}

fn result(opened: &Opened, bytes: &[u8]) -> Json {
    let size = u64::try_from(opened.seen.size).unwrap_or_default();
    let mut members = vec![("path", Json::from(opened.path.as_str())), ("size", Json::from(size))];
    if !opened.whole {
        members.push(("offset", Json::from(opened.offset)));
        members.push(("length", Json::from(opened.length)));
    }
    members.push(match std::str::from_utf8(bytes) {
        Ok(text) => ("text", Json::from(text)),
        Err(_) => ("base64", base64::engine::general_purpose::STANDARD.encode(bytes).into()),
    });
    Json::object(members)
}

fn failed(class: FailureClass, message: &str) -> Outcome {
    Outcome::Failed { class, started: true, message: message.to_owned() }
}

fn reason(detail: &str, message: impl Into<String>) -> Reason {
    Reason {
        code: Code::EffectRefused,
        detail: detail.into(),
        message: message.into(),
        rule: "tool.file".into(),
    }
}

fn refused(error: Errno, path: &str) -> Reason {
    match error {
        Errno::LOOP => reason("file.symlink", format!("`{path}` leads over a symbolic link")),
        Errno::NOENT | Errno::NOTDIR => reason("file.not_found", format!("`{path}` is not there")),
        Errno::XDEV => reason("file.path", format!("`{path}` leaves the root or its file system")),
        Errno::NXIO | Errno::ISDIR | Errno::NODEV => {
            reason("file.not_regular", format!("`{path}` is not a regular file"))
        }
        Errno::AGAIN => reason("file.path", format!("`{path}` is being renamed all the time")),
        // Also ENOSYS and EPERM: without the kernel's own walk there is none.
        _ => reason("file.path", format!("`{path}` cannot be opened")),
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
