//! The `file.write` kind: creates, replaces or deletes one regular file as a whole.
//!
//! The existing file is opened, checked and read before the call is judged; the directory it lies
//! in stays open. `change` acts on these descriptors, and only if they are still what was judged.

use std::any::Any;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::edit::Edit;
use super::{
    DIRECTORY, Error, FileIdentity, READ, RootDirectory, Use, change, failed, is_regular, reason,
    refused,
};
use super::{two_names, walk};
use crate::catalog::binding::Writing;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::digest::Digest;
use crate::domain::effect::{Change, Effect};
use crate::domain::json::Json;
use crate::domain::outcome::{FailureClass, Unmasked};
use crate::judge::prepared::PreparedResource;
use crate::ledger::permit::Permit;
use crate::tool::ToolExecutor;

/// Version of the payload that undoes a write.
pub const PRE_IMAGE: &str = "wicketgate/pre-image/1";
/// Bytes of the largest file that a reversible write may change: its pre-image is stored as a
/// payload.
const PRE_IMAGE_BYTES_MAX: usize = 512 << 10;
/// Bytes that such content may take as the text of a pre-image; base64 always takes fewer.
const TEXT_BYTES_MAX: usize = 768 << 10;
/// Bytes of the largest file that may be replaced or deleted: it is read and hashed before the
/// judgement.
pub(super) const TARGET_BYTES_MAX: i64 = 4 << 20;
/// Permission bits of a new file.
pub(super) const MODE_NEW: u32 = 0o644;

/// Writes files beneath one root.
#[derive(Debug)]
pub struct FileWrite {
    beneath: Arc<RootDirectory>,
    create_parents: bool,
    edits: bool,
}

/// One write, as it was judged.
pub(super) struct WritePlan {
    pub beneath: Arc<RootDirectory>,
    pub path: String,
    /// The deepest existing directory of the path; `.` is the root.
    pub folder: String,
    pub parent: OwnedFd,
    /// Directories to create below it.
    pub missing: Vec<String>,
    pub name: String,
    /// The new content; `None` for a deletion.
    pub content: Option<Vec<u8>>,
    /// The existing file, if there is one.
    pub before: Option<PreImage>,
}

/// The existing file, read through the descriptor by which it was judged.
pub(super) struct PreImage {
    pub file: OwnedFd,
    pub seen: FileIdentity,
    /// When its content or metadata last changed.
    pub touched: (i64, i64),
    pub mode: u32,
    pub group: u32,
    pub digest: Digest,
    pub bytes: Vec<u8>,
}

/// The arguments.
struct WriteArguments<'a> {
    path: &'a str,
    mode: &'a str,
    content: NewContent<'a>,
    if_match: Option<Digest>,
}

/// What a write leaves in the file.
enum NewContent<'a> {
    /// No file.
    Deleted,
    Whole(Vec<u8>),
    Edited(Edit<'a>),
}

impl NewContent<'_> {
    /// The bytes over those that are there; `None` for a deletion.
    fn over(self, before: Option<&PreImage>) -> Result<Option<Vec<u8>>, LayerReason> {
        match self {
            Self::Deleted => Ok(None),
            Self::Whole(bytes) => Ok(Some(bytes)),
            Self::Edited(edit) => {
                edit.applied(before.map_or(&[][..], |before| &before.bytes)).map(Some)
            }
        }
    }
}

impl<'a> WriteArguments<'a> {
    fn of(args: &'a Json) -> Result<Self, LayerReason> {
        let text = |name: &str| args.get(name).and_then(Json::as_str);
        let path = text("path").ok_or_else(|| reason("file.path", "`path` is missing"))?;
        let mode = text("mode").unwrap_or("write");
        if !["write", "create", "replace", "edit", "delete"].contains(&mode) {
            return Err(reason("file.mode", format!("`{mode}` is no mode of a write")));
        }
        let wrong = |why: &str| reason("file.content", why);
        let content = match (text("content"), text("content_base64"), mode) {
            (None, None, "delete") => NewContent::Deleted,
            (None, None, "edit") => NewContent::Edited(Edit::of(args)?),
            (_, _, "delete" | "edit") => {
                return Err(wrong("a deletion and an edit have no content"));
            }
            (Some(content), None, _) => NewContent::Whole(content.as_bytes().to_vec()),
            (None, Some(coded), _) => NewContent::Whole(
                STANDARD.decode(coded).map_err(|_| wrong("`content_base64` is not base64"))?,
            ),
            (_, _, _) => return Err(wrong("give one of `content` and `content_base64`")),
        };
        let digest = |text| {
            Digest::parse(text).ok_or_else(|| reason("file.if_match", "`if_match` is no SHA-256"))
        };
        let if_match = text("if_match").map(digest).transpose()?;
        Ok(Self { path, mode, content, if_match })
    }
}

impl FileWrite {
    /// Opens the root, and removes the staging files of killed processes.
    ///
    /// # Errors
    /// A root that cannot be opened, or a kernel without `openat2`.
    pub fn new(writing: &Writing) -> Result<Self, Error> {
        let beneath = Arc::new(RootDirectory::open(&writing.root)?);
        change::sweep(&beneath);
        Ok(Self { beneath, create_parents: writing.create_parents, edits: writing.edits })
    }

    pub(super) fn plan(&self, args: &Json) -> Result<(Effect, WritePlan), LayerReason> {
        let WriteArguments { path, mode, content, if_match } = WriteArguments::of(args)?;
        if mode == "edit" && !self.edits {
            return Err(reason(
                "file.mode",
                "this tool has no `edit`: its `file.edits` is not set",
            ));
        }
        self.beneath.check(path, Use::Change)?;
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        let makes = self.create_parents && matches!(mode, "write" | "create");
        let (parent, folder, missing) = self.folder(folder, makes)?;
        let before =
            if missing.is_empty() { PreImage::of(&self.beneath, &parent, name)? } else { None };
        match (mode, &before) {
            ("create", Some(_)) => {
                return Err(reason("file.exists", format!("`{path}` is there already")));
            }
            ("replace" | "edit" | "delete", None) => return Err(refused(Errno::NOENT, path)),
            (_, _) => {}
        }
        if if_match.is_some() && if_match != before.as_ref().map(|before| before.digest) {
            return Err(reason("file.changed", format!("`{path}` is not what `if_match` says")));
        }
        let content = content.over(before.as_ref())?;
        let (path, name) = (path.to_owned(), name.to_owned());
        let beneath = Arc::clone(&self.beneath);
        let plan = WritePlan { beneath, path, folder, parent, missing, name, content, before };
        Ok((plan.effect(), plan))
    }

    /// The deepest existing directory, and the missing names below it if they may be created.
    fn folder(
        &self,
        folder: &str,
        makes: bool,
    ) -> Result<(OwnedFd, String, Vec<String>), LayerReason> {
        let (mut there, mut missing) = (folder.to_owned(), Vec::new());
        loop {
            match self.beneath.walk(&there, DIRECTORY) {
                Ok(parent) => {
                    missing.reverse();
                    return Ok((parent, there, missing));
                }
                Err(Errno::NOENT) if makes && there != "." => {
                    let (above, name) = there.rsplit_once('/').unwrap_or((".", &there));
                    missing.push(name.to_owned());
                    there = above.to_owned();
                }
                Err(error) => return Err(refused(error, folder)),
            }
        }
    }
}

impl WritePlan {
    /// `create`, `replace` or `delete`.
    pub const fn operation(&self) -> &'static str {
        match (&self.content, &self.before) {
            (None, _) => "delete",
            (Some(_), None) => "create",
            (Some(_), Some(_)) => "replace",
        }
    }

    /// SHA-256 of the new content; empty for a deletion.
    pub fn after(&self) -> String {
        self.content.as_ref().map_or_else(String::new, |content| Digest::of(&[content]).hex())
    }

    fn effect(&self) -> Effect {
        let before = self.before.as_ref();
        let bytes = self.content.as_ref().map_or(0, Vec::len);
        Effect::File {
            access: "write".into(),
            root: self.beneath.name.clone(),
            path: self.path.clone(),
            kind: if before.is_some() { "regular" } else { "none" }.into(),
            size: before.map_or(0, |before| u64::try_from(before.seen.size).unwrap_or_default()),
            mode: before.map_or(MODE_NEW, |before| before.mode),
            change: Some(Change {
                operation: self.operation().into(),
                bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
                sha256: self.after(),
                before_sha256: before.map_or_else(String::new, |before| before.digest.hex()),
            }),
        }
    }

    /// The data to undo the write.
    fn pre_image(&self) -> Result<Json, LayerReason> {
        let before = match &self.before {
            None => Json::object([("exists", Json::from(false))]),
            Some(before) if before.bytes.len() > PRE_IMAGE_BYTES_MAX => {
                let message = format!(
                    "the file has {} bytes; a write of tier T1 changes at most {PRE_IMAGE_BYTES_MAX}",
                    before.bytes.len()
                );
                return Err(reason("file.pre_image", message));
            }
            Some(before) => Json::object([
                ("exists", Json::from(true)),
                ("sha256", Json::from(before.digest.hex())),
                ("mode", Json::from(u64::from(before.mode))),
                shown(&before.bytes),
            ]),
        };
        let after = match &self.content {
            None => Json::object([("exists", Json::from(false))]),
            Some(_) => {
                Json::object([("exists", Json::from(true)), ("sha256", Json::from(self.after()))])
            }
        };
        Ok(Json::object([
            ("v", Json::from(PRE_IMAGE)),
            ("root", Json::from(self.beneath.name.as_str())),
            ("path", Json::from(self.path.as_str())),
            ("before", before),
            ("after", after),
        ]))
    }
}

/// The bytes as text if they are text and not much longer that way; otherwise as base64.
fn shown(bytes: &[u8]) -> (&'static str, Json) {
    let text = std::str::from_utf8(bytes).ok().map(Json::from);
    match text.filter(|text| canonical::bytes(text).len() <= TEXT_BYTES_MAX) {
        Some(text) => ("text", text),
        None => ("base64", Json::from(STANDARD.encode(bytes))),
    }
}

impl PreImage {
    /// The file of this name in this directory; `None` if it does not exist.
    pub fn of(
        beneath: &RootDirectory,
        dir: &OwnedFd,
        name: &str,
    ) -> Result<Option<Self>, LayerReason> {
        let refuse = |error| refused(error, name);
        // Checked before it is opened: opening a device may be an effect.
        let look = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = match walk(dir, name, look) {
            Err(Errno::NOENT) => return Ok(None),
            found => found.map_err(refuse)?,
        };
        let stat = rustix::fs::fstat(&found).map_err(refuse)?;
        let seen = FileIdentity::from(&stat);
        fit(&stat)?;
        beneath.check_own(&seen)?;
        let file = walk(dir, name, READ).map_err(refuse)?;
        let changed = || reason("file.changed", "the file changes while it is looked at");
        let now = |file: &OwnedFd| {
            let stat = rustix::fs::fstat(file).map_err(refuse)?;
            Ok::<_, LayerReason>((FileIdentity::from(&stat), touched(&stat)))
        };
        let judged = (seen, touched(&stat));
        if now(&file)? != judged {
            return Err(changed());
        }
        let bytes = contents(&file).map_err(|_| reason("file.path", "the file cannot be read"))?;
        if now(&file)? != judged || i64::try_from(bytes.len()).ok() != Some(seen.size) {
            return Err(changed());
        }
        let (mode, group) = (stat.st_mode & 0o7777, stat.st_gid);
        let digest = Digest::of(&[&bytes]);
        Ok(Some(Self { file, seen, touched: judged.1, mode, group, digest, bytes }))
    }
}

/// The whole file from its first byte, and one byte more than it may have.
pub(super) fn contents(file: &OwnedFd) -> std::io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let file = File::from(file.try_clone()?);
    let most = usize::try_from(TARGET_BYTES_MAX).unwrap_or(usize::MAX).saturating_add(1);
    let mut bytes = Vec::new();
    let mut part = vec![0_u8; 64 << 10];
    while bytes.len() < most {
        let at = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        match file.read_at(&mut part, at) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(part.get(..read).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

/// Whether this file may be overwritten: a plain file of the gate's user with a single name.
fn fit(stat: &Stat) -> Result<(), LayerReason> {
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Err(reason("file.symlink", "the path is a symbolic link"));
    }
    if !is_regular(stat) {
        return Err(reason("file.not_regular", "the path is not a regular file"));
    }
    if stat.st_nlink != 1 {
        return Err(two_names());
    }
    if stat.st_mode & 0o7000 != 0 {
        return Err(reason("file.special_mode", "the file has set-id or sticky bits"));
    }
    if stat.st_uid != rustix::process::geteuid().as_raw() {
        return Err(reason("file.foreign_owner", "the file belongs to another user"));
    }
    if stat.st_size > TARGET_BYTES_MAX {
        let message =
            format!("the file has {} bytes, at most {TARGET_BYTES_MAX} are changed", stat.st_size);
        return Err(reason("file.too_large", message));
    }
    Ok(())
}

#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_fallible_conversions,
    reason = "the fields' widths differ between platforms"
)]
pub(super) fn touched(stat: &Stat) -> (i64, i64) {
    (stat.st_ctime.into(), i64::try_from(stat.st_ctime_nsec).unwrap_or_default())
}

#[async_trait]
impl ToolExecutor for FileWrite {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let (effect, plan) = self.plan(call.args()).map_err(|reason| vec![reason])?;
        Ok((effect, Box::new(Arc::new(plan))))
    }

    fn pre_image(&self, hold: &(dyn Any + Send + Sync)) -> Result<Option<Json>, LayerReason> {
        let plan = hold.downcast_ref::<Arc<WritePlan>>();
        let plan = plan.ok_or_else(|| reason("file.pre_image", "another tool's call"))?;
        plan.pre_image().map(Some)
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        let Some(plan) = permit.prepared().hold::<Arc<WritePlan>>().map(Arc::clone) else {
            return failed(FailureClass::Changed, "the call was prepared by another tool");
        };
        let fuse = permit.fuse().clone();
        let writing = tokio::task::spawn_blocking(move || change::apply(&plan, &fuse));
        // A panic half way: whether the write took effect is unknown.
        writing.await.unwrap_or_else(|_| Unmasked::Unknown { cause: "panic".into() })
    }
}
