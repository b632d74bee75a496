//! The `file.list` kind: the entries of one directory and, if configured, of those below it.
//!
//! Links are listed as links and never followed; entries below a protected name are not listed.

use std::ffi::{CStr, CString};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_trait::async_trait;
use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;
use serde::Deserialize;

use super::{DIRECTORY, Error, FileIdentity, RootDirectory, Use, failed, reason, refused, walk};
use crate::catalog::binding::Listing;
use crate::catalog::hidden::is_hidden;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::effect::Effect;
use crate::domain::json::Json;
use crate::domain::outcome::{AnswerContent, FailureClass, Unmasked};
use crate::judge::prepared::PreparedResource;
use crate::ledger::permit::Permit;
use crate::tool::ToolExecutor;
use crate::tool::shape::lenient;

/// Names examined for one answer, whatever its size.
const SCANNED_MAX: usize = 65_536;
/// Bytes reserved for the parts of an answer around its entries.
const FRAME_BYTES: usize = 8192;

/// Lists directories beneath one root.
#[derive(Debug)]
pub struct FileList {
    beneath: Arc<RootDirectory>,
    entries_max: usize,
    depth_max: u64,
    bytes_max: usize,
}

/// An open directory as it was judged.
struct OpenDirectory {
    beneath: Arc<RootDirectory>,
    dir: OwnedFd,
    path: String,
    depth: u64,
    entries_max: usize,
    bytes_max: usize,
}

/// The entries found so far.
#[derive(Default)]
struct ListedNames {
    entries: Vec<Json>,
    bytes: usize,
    scanned: usize,
    truncated: bool,
}

/// Why a listing stops early.
enum ListingStop {
    /// The answer is full.
    Full,
    /// The directory has more names than one answer examines.
    TooMany,
    /// The directory cannot be read.
    Unreadable,
}

#[derive(Deserialize)]
struct Args {
    #[serde(default, deserialize_with = "lenient")]
    path: Option<String>,
    #[serde(default = "one_level", deserialize_with = "lenient")]
    depth: Option<u64>,
}

const fn one_level() -> Option<u64> {
    Some(1)
}

impl FileList {
    /// Opens the root. `bytes_max` limits the answer.
    ///
    /// # Errors
    /// A root that cannot be opened, or a kernel without `openat2`.
    pub fn new(listing: &Listing, bytes_max: u64) -> Result<Self, Error> {
        let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        Ok(Self {
            beneath: Arc::new(RootDirectory::open(&listing.root)?),
            entries_max: number(listing.entries_max),
            depth_max: listing.depth_max,
            bytes_max: number(bytes_max).saturating_sub(FRAME_BYTES),
        })
    }

    fn look(&self, args: &Json) -> Result<(Effect, OpenDirectory), LayerReason> {
        let Args { path, depth } =
            args.read().map_err(|why| reason("file.depth", format!("the arguments: {why}")))?;
        let path = path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
        if path != "." {
            self.beneath.check(path, Use::Look)?;
        }
        let depth = depth
            .filter(|depth| (1..=self.depth_max).contains(depth))
            .ok_or_else(|| reason("file.depth", format!("`depth` is 1 to {}", self.depth_max)))?;
        let dir = self.beneath.walk(path, DIRECTORY).map_err(|error| match error {
            Errno::NOTDIR => reason("file.not_directory", format!("`{path}` is no directory")),
            other => refused(other, path),
        })?;
        let stat = rustix::fs::fstat(&dir).map_err(|error| refused(error, path))?;
        self.beneath.check_own(&FileIdentity::from(&stat))?;
        let effect = Effect::File {
            access: "list".into(),
            root: self.beneath.name.clone(),
            path: path.to_owned(),
            kind: "directory".into(),
            size: 0,
            mode: stat.st_mode & 0o7777,
            change: None,
        };
        let (beneath, path) = (Arc::clone(&self.beneath), path.to_owned());
        let (entries_max, bytes_max) = (self.entries_max, self.bytes_max);
        Ok((effect, OpenDirectory { beneath, dir, path, depth, entries_max, bytes_max }))
    }
}

#[async_trait]
impl ToolExecutor for FileList {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let (effect, opened) = self.look(call.args()).map_err(|reason| vec![reason])?;
        Ok((effect, Box::new(Arc::new(opened))))
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        let Some(opened) = permit.prepared().hold::<Arc<OpenDirectory>>().map(Arc::clone) else {
            return failed(FailureClass::Changed, "the call was prepared by another tool");
        };
        let listing = tokio::task::spawn_blocking(move || opened.list());
        let unreadable = || failed(FailureClass::ToolError, "the directory cannot be read");
        listing.await.unwrap_or_else(|_| unreadable())
    }
}

impl OpenDirectory {
    fn list(&self) -> Unmasked {
        let mut found = ListedNames::default();
        match self.entries(&self.dir, "", self.depth, &mut found) {
            Ok(()) | Err(ListingStop::Full) => {}
            Err(ListingStop::TooMany) => {
                let message = format!("there are more than {SCANNED_MAX} names");
                return failed(FailureClass::TooLarge, &message);
            }
            Err(ListingStop::Unreadable) => {
                return failed(FailureClass::ToolError, "the directory cannot be read");
            }
        }
        let result = Json::object([
            ("path", Json::from(self.path.as_str())),
            ("entries", found.entries.into()),
            ("truncated", Json::from(found.truncated)),
        ]);
        // Names are complete, with bytes that are not text escaped; `truncated` omits whole names.
        let result = AnswerContent::Text(canonical::bytes(&result));
        Unmasked::Completed { result, status: "ok".into() }
    }

    /// The entries of one directory in byte order, each followed by those below it.
    fn entries(
        &self,
        dir: &OwnedFd,
        above: &str,
        depth: u64,
        found: &mut ListedNames,
    ) -> Result<(), ListingStop> {
        for name in names(dir, found)? {
            // An entry that has vanished is not listed.
            let Ok(stat) = rustix::fs::statat(dir, &*name, AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let (shown, escaped) = show(&name);
            let path = format!("{above}{shown}");
            let kind = FileType::from_raw_mode(stat.st_mode);
            let hidden = self.beneath.guard.protects(&self.below(&path), Use::Look)
                || self.beneath.check_own(&FileIdentity::from(&stat)).is_err();
            let mut members = vec![("name", Json::from(path.as_str())), ("kind", kind_name(kind))];
            if kind == FileType::RegularFile {
                let size = u64::try_from(stat.st_size).unwrap_or_default();
                members.push(("size", Json::from(size)));
            }
            members.extend(escaped.then(|| ("escaped", Json::from(true))));
            members.extend(hidden.then(|| ("protected", Json::from(true))));
            found.add(Json::object(members), self.entries_max, self.bytes_max)?;
            if kind == FileType::Directory && depth > 1 && !hidden && !escaped {
                // A directory that cannot be opened, or is another mount, is listed without its
                // entries.
                if let Ok(inner) = walk(dir, &path_of(&name), DIRECTORY) {
                    let below = self.entries(&inner, &format!("{path}/"), depth - 1, found);
                    match below {
                        Ok(()) | Err(ListingStop::Unreadable) => {}
                        Err(stop) => return Err(stop),
                    }
                }
            }
        }
        Ok(())
    }

    /// The path below the root.
    fn below(&self, path: &str) -> String {
        if self.path == "." { path.to_owned() } else { format!("{}/{path}", self.path) }
    }
}

impl ListedNames {
    fn add(
        &mut self,
        entry: Json,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<(), ListingStop> {
        let bytes = canonical::bytes(&entry).len().saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.entries.len() >= entries_max || self.bytes > bytes_max {
            self.truncated = true;
            return Err(ListingStop::Full);
        }
        self.entries.push(entry);
        Ok(())
    }
}

/// The names in a directory, sorted.
fn names(dir: &OwnedFd, found: &mut ListedNames) -> Result<Vec<CString>, ListingStop> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir).map_err(|_| ListingStop::Unreadable)? {
        let entry = entry.map_err(|_| ListingStop::Unreadable)?;
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        found.scanned = found.scanned.saturating_add(1);
        if found.scanned > SCANNED_MAX {
            return Err(ListingStop::TooMany);
        }
        names.push(entry.file_name().to_owned());
    }
    names.sort();
    Ok(names)
}

/// A name in a form that is safe to show, and whether it was changed: bytes that are not text
/// become `\xHH`, characters that hide or mislead become `\u{…}`.
fn show(name: &CStr) -> (String, bool) {
    let bytes = name.to_bytes();
    let plain = |text: &&str| !text.chars().any(|c| is_hidden(c) || c == '\\');
    if let Some(text) = std::str::from_utf8(bytes).ok().filter(plain) {
        return (text.to_owned(), false);
    }
    let mut shown = String::new();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            if is_hidden(c) {
                shown.push_str(&c.escape_unicode().to_string());
            } else if c == '\\' {
                shown.push_str("\\\\");
            } else {
                shown.push(c);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    (shown, true)
}

/// The name as a path; valid only for names that are shown unchanged.
fn path_of(name: &CStr) -> String {
    name.to_string_lossy().into_owned()
}

fn kind_name(kind: FileType) -> Json {
    Json::from(match kind {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "link",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        FileType::CharacterDevice | FileType::BlockDevice => "device",
        FileType::Unknown => "unknown",
    })
}
