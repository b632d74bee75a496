//! The `file.read` kind: one regular file.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::fd::OwnedFd;

use async_trait::async_trait;
use base64::Engine as _;
use serde::Deserialize;

use super::{
    Error, FileIdentity, READ, RootDirectory, Use, failed, is_regular, reason, refused, two_names,
};
use crate::catalog::binding::Root;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::decision::LayerReason;
use crate::domain::effect::Effect;
use crate::domain::json::Json;
use crate::domain::outcome::{AnswerContent, FailureClass, Opaque, Unmasked};
use crate::judge::prepared::{Prepared, PreparedResource};
use crate::ledger::permit::Permit;
use crate::tool::ToolExecutor;
use crate::tool::shape::lenient;

/// Bytes of the largest file that may be read in parts.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads files beneath one root.
#[derive(Debug)]
pub struct FileRead {
    beneath: RootDirectory,
    bytes_max: u64,
}

#[derive(Deserialize)]
struct Args {
    #[serde(default, deserialize_with = "lenient")]
    path: Option<String>,
    offset: Option<u64>,
    length: Option<u64>,
}

/// An open file as it was judged.
pub(super) struct OpenFile {
    pub(super) file: OwnedFd,
    path: String,
    pub(super) seen: FileIdentity,
    offset: u64,
    pub(super) length: u64,
    whole: bool,
}

impl FileRead {
    /// Opens the root. From here on the open directory counts, not its name.
    ///
    /// # Errors
    /// A root that cannot be opened, or a kernel without `openat2`.
    pub fn new(root: &Root, bytes_max: u64) -> Result<Self, Error> {
        Ok(Self { beneath: RootDirectory::open(root)?, bytes_max })
    }

    pub(super) fn look(
        &self,
        path: &str,
        span: (u64, Option<u64>),
    ) -> Result<(Effect, OpenFile), LayerReason> {
        self.beneath.check(path, Use::Look)?;
        let file = self.beneath.walk(path, READ).map_err(|error| refused(error, path))?;
        let stat = rustix::fs::fstat(&file).map_err(|error| refused(error, path))?;
        if !is_regular(&stat) {
            return Err(reason("file.not_regular", "the path is not a regular file"));
        }
        let seen = FileIdentity::from(&stat);
        self.beneath.check_own(&seen)?;
        if stat.st_nlink != 1 {
            return Err(two_names());
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
            root: self.beneath.name.clone(),
            path: path.to_owned(),
            kind: "regular".into(),
            size,
            mode: stat.st_mode & 0o7777,
            change: None,
        };
        let whole = offset == 0 && length.is_none();
        let path = path.to_owned();
        let opened = OpenFile { file, path, seen, offset, length: wanted, whole };
        Ok((effect, opened))
    }
}

#[async_trait]
impl ToolExecutor for FileRead {
    fn prepare(&self, call: &ToolCall) -> Result<(Effect, PreparedResource), Vec<LayerReason>> {
        let Args { path, offset, length } = call.args().read().map_err(|why| {
            vec![reason("file.span", format!("`offset` and `length` are numbers of bytes: {why}"))]
        })?;
        let path = path.ok_or_else(|| vec![reason("file.path", "`path` is missing")])?;
        let span = (offset.unwrap_or(0), length);
        let (effect, opened) = self.look(&path, span).map_err(|reason| vec![reason])?;
        Ok((effect, Box::new(opened)))
    }

    async fn execute(&self, permit: &Permit) -> Unmasked {
        read(permit.prepared()).await
    }
}

/// Reads the judged file on a blocking thread. Only `execute` calls this, with a permitted call.
pub(super) async fn read(prepared: &Prepared) -> Unmasked {
    let Some(opened) = prepared.hold::<OpenFile>() else {
        return failed(FailureClass::Changed, "the call was prepared by another tool");
    };
    let Ok(file) = opened.file.try_clone() else {
        return failed(FailureClass::ToolError, "the file cannot be read");
    };
    let (seen, offset, length) = (opened.seen, opened.offset, opened.length);
    let reading =
        tokio::task::spawn_blocking(move || bytes(File::from(file), seen, offset, length));
    match reading.await {
        Ok(Ok(bytes)) => {
            Unmasked::Completed { result: result(opened, &bytes), status: "ok".into() }
        }
        Ok(Err(outcome)) => outcome,
        Err(_) => failed(FailureClass::ToolError, "the file cannot be read"),
    }
}

/// The bytes, if the file is the judged one both before and after the read.
pub(super) fn bytes(
    mut file: File,
    seen: FileIdentity,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>, Unmasked> {
    let unchanged = |file: &File| match rustix::fs::fstat(file) {
        Ok(stat) if FileIdentity::from(&stat) == seen => Ok(()),
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

/// A part of a file is opaque whatever it holds: data that a policy masks may be cut at its edges.
fn result(opened: &OpenFile, bytes: &[u8]) -> AnswerContent {
    let size = u64::try_from(opened.seen.size).unwrap_or_default();
    let mut members = vec![("path", Json::from(opened.path.as_str())), ("size", Json::from(size))];
    if !opened.whole {
        members.push(("offset", Json::from(opened.offset)));
        members.push(("length", Json::from(opened.length)));
    }
    let whole = opened.offset == 0 && opened.length == size;
    let (member, opaque) = match std::str::from_utf8(bytes) {
        Ok(text) => (("text", Json::from(text)), (!whole).then_some(Opaque::Span)),
        Err(_) => {
            let coded = base64::engine::general_purpose::STANDARD.encode(bytes);
            (("base64", coded.into()), Some(Opaque::Binary))
        }
    };
    members.push(member);
    AnswerContent::of(canonical::bytes(&Json::object(members)), opaque)
}
