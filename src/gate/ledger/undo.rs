//! Reads a run's effects on files from its entries and pre-images, and decides about each file.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::store::{EntryRow, LedgerReader, PayloadRef, StoreError};
use super::vault::{self, Vault};
use super::{Error as LedgerError, Ledger};
use crate::domain::commitment::opens;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ChainId, RunId, Seq};
use crate::domain::json::{self, Json, Limits};
use crate::record;
use crate::record::call::CallFailed;
use crate::record::{Commitment, Entry, Kind, Role};
use serde::Deserialize;

/// The role of the payload that undoes a call.
const ROLE: Role = Role::PreImage;
/// The version of it that this build reads.
const VERSION: &str = "wicketgate/pre-image/1";

/// One file that the run changed, and everything the run did to it.
#[derive(Debug)]
pub struct Undo {
    /// Name of the root.
    pub root: String,
    /// Path below it.
    pub path: String,
    /// The tool that changed it last.
    pub tool: String,
    /// Place in the chain of the first authorisation.
    pub first: u64,
    /// Why the former content of the file is unknown.
    pub lost: Option<ImageError>,
    steps: Vec<WriteStep>,
    /// What was there before the run: the member of a write that holds it.
    content: Option<Content>,
}

/// A member of a write, and its contents.
type Content = (&'static str, String);

/// One call that changed it, or may have.
#[derive(Debug)]
struct WriteStep {
    before: Option<Digest>,
    after: Option<Digest>,
    /// Whether the ledger records that it did.
    certain: bool,
}

/// What follows for one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The file is as the run left it.
    Restore,
    /// The file is as it was before the run.
    Unchanged,
    /// It is something else, and that is not to be lost.
    Conflict(&'static str),
}

impl Undo {
    /// What follows if this is there now.
    pub fn decide(&self, now: Option<&Digest>) -> Decision {
        let Some(first) = self.steps.first() else { return Decision::Unchanged };
        if first.before.as_ref() == now {
            return Decision::Unchanged;
        }
        let left = |step: &WriteStep, found: Option<&Digest>| {
            found == step.after.as_ref() || (!step.certain && found == step.before.as_ref())
        };
        let mut pairs = self.steps.iter().zip(self.steps.iter().skip(1));
        if !pairs.all(|(step, next)| left(step, next.before.as_ref())) {
            return Decision::Conflict("it was changed between two calls of the run");
        }
        match self.steps.last() {
            Some(last) if left(last, now) => Decision::Restore,
            Some(_) | None => Decision::Conflict("it was changed after the run"),
        }
    }

    /// The arguments of the call that puts it back if the file is as the run left it, which the tool
    /// itself makes sure of; `None` if the run changed nothing of it.
    ///
    /// # Errors
    /// Something else changed it between two calls of the run, and that is not to be lost.
    pub fn restoring(&self) -> Result<Option<Value>, &'static str> {
        let Some(last) = self.steps.last() else { return Ok(None) };
        let left = last.after.as_ref();
        match self.decide(left) {
            Decision::Unchanged => Ok(None),
            Decision::Conflict(why) => Err(why),
            Decision::Restore => Ok(Some(self.arguments(left))),
        }
    }

    /// The arguments of the call that puts it back, if this is there now.
    pub fn arguments(&self, now: Option<&Digest>) -> Value {
        let mut arguments = match &self.content {
            None => json!({"path": self.path, "mode": "delete"}),
            Some((member, content)) => {
                let mode = if now.is_some() { "replace" } else { "create" };
                json!({"path": self.path, "mode": mode, *member: content})
            }
        };
        if let (Some(now), Some(members)) = (now, arguments.as_object_mut()) {
            members.insert("if_match".into(), now.hex().into());
        }
        arguments
    }
}

/// Why the former content of a file cannot be restored.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The ledger cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The payload was erased.
    #[error("its pre-image was erased")]
    Erased,
    /// The payload is encrypted, and the key is not there.
    #[error(transparent)]
    Vault(#[from] vault::Error),
    /// Another payload is in its place.
    #[error("its pre-image does not match the commitment of the entry")]
    Foreign,
    /// The payload is not JSON.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// Another build wrote it.
    #[error("its pre-image has a version that this program does not know")]
    Version,
    /// A member is missing, or of another type.
    #[error("its pre-image cannot be read")]
    Members,
}

/// Why it is not known what a run did to files.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such run.
    #[error("no run `{0}`")]
    NoRun(RunId),
    /// The ledger cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An entry cannot be read.
    #[error(transparent)]
    Entry(record::Error),
    /// The run still changes files.
    #[error("call `{0}` of the run is still in progress")]
    Unfinished(CallId),
}

/// How a call ended, as far as its file is concerned.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteEnd {
    Done,
    Maybe,
    Never,
}

/// All of the run's effects on files, in the order of their first change.
///
/// # Errors
/// The run is unknown or not over, or the ledger cannot be read.
pub async fn of_run(
    reader: &dyn LedgerReader,
    vault: Option<&Vault>,
    run: &RunId,
) -> Result<Vec<Undo>, Error> {
    let chain = reader.find_run(run).await?.ok_or(Error::NoRun(*run))?;
    let rows = reader.run_entries(&chain, run).await?;
    let mut undo: Vec<Undo> = Vec::new();
    for (entry, commitment, certain) in changes(&rows, None)? {
        let image = image(reader, vault, &chain, (entry.seq, &commitment)).await;
        add(&mut undo, &entry, certain, image);
    }
    Ok(undo)
}

/// Authorisations with a pre-image that may have changed a file, and whether they did. `current`: a call
/// that did and is not recorded as ended; others that are not may have. Without it, none may be open.
fn changes(
    rows: &[EntryRow],
    current: Option<&CallId>,
) -> Result<Vec<(Entry, Commitment, bool)>, Error> {
    let mut kept: Vec<(Entry, Commitment)> = Vec::new();
    let mut ends: BTreeMap<CallId, WriteEnd> = BTreeMap::new();
    for row in rows {
        let entry = Entry::parse(&row.body).map_err(Error::Entry)?;
        if let Some((call, end)) = end(&entry) {
            ends.insert(call, end);
        }
        let commitment = entry.draft.committed(ROLE).cloned();
        kept.extend(commitment.map(|commitment| (entry, commitment)));
    }
    let mut changes = Vec::new();
    for (entry, commitment) in kept {
        let Some(call) = entry.draft.call.clone() else { continue };
        let certain = match (ends.get(&call), current) {
            (Some(WriteEnd::Done), _) => true,
            (Some(WriteEnd::Maybe), _) => false,
            (Some(WriteEnd::Never), _) => continue,
            (None, Some(current)) => call == *current,
            (None, None) => return Err(Error::Unfinished(call)),
        };
        changes.push((entry, commitment, certain));
    }
    Ok(changes)
}

impl Ledger {
    /// All of the open run's effects on files. `current`: the call that changed one and whose outcome is
    /// not recorded yet.
    ///
    /// # Errors
    /// The ledger cannot be read.
    pub(crate) async fn undo_of(
        &self,
        run: &RunId,
        current: &CallId,
    ) -> Result<Vec<Undo>, LedgerError> {
        let unread = |why: String| LedgerError::Unavailable(why);
        let rows = self.shared.store.run_entries(self.key()?, run).await;
        let rows = rows.map_err(|e| unread(e.to_string()))?;
        let changes = changes(&rows, Some(current)).map_err(|e| unread(e.to_string()))?;
        let mut undo: Vec<Undo> = Vec::new();
        for (entry, commitment, certain) in changes {
            let row = self.payload_row(entry.seq, &commitment.c.0).await?;
            let image = row.ok_or(ImageError::Erased).and_then(|row| read(&row.body));
            add(&mut undo, &entry, certain, image);
        }
        Ok(undo)
    }
}

/// How this entry ends its call, if it does.
fn end(entry: &Entry) -> Option<(CallId, WriteEnd)> {
    let (call, kind) = (entry.draft.call.clone()?, entry.draft.kind());
    let started = entry.draft.get::<CallFailed>().is_some_and(|failed| failed.started);
    // What is done may still be followed by a result that could not be released.
    let maybe = kind == Kind::CallUnknown || (kind == Kind::CallFailed && started);
    let end = if kind == Kind::CallCompleted {
        WriteEnd::Done
    } else if maybe {
        WriteEnd::Maybe
    } else if kind.ends_call() {
        WriteEnd::Never
    } else {
        return None;
    };
    Some((call, end))
}

/// The pre-image, if it is stored and matches the entry's commitment.
async fn image(
    reader: &dyn LedgerReader,
    vault: Option<&Vault>,
    chain: &ChainId,
    (entry, commitment): (Seq, &Commitment),
) -> Result<StoredPreImage, ImageError> {
    let at = PayloadRef::of(entry, &commitment.c);
    let row = reader.payload(chain, &at).await?.ok_or(ImageError::Erased)?;
    let row = vault::open(vault, chain, row)?;
    if opens(&commitment.c, &row.salt, &row.body).is_none() {
        return Err(ImageError::Foreign);
    }
    read(&row.body)
}

fn read(body: &[u8]) -> Result<StoredPreImage, ImageError> {
    let image = Json::parse(body, &Limits::FILE)?;
    match image.read::<Versioned>() {
        Ok(Versioned { v }) if v == VERSION => image.read().map_err(|_| ImageError::Members),
        Ok(_) | Err(_) => Err(ImageError::Version),
    }
}

/// The version of a pre-image.
#[derive(Deserialize)]
struct Versioned {
    v: String,
}

/// The old and the new content of a file's write: the payload that undoes it.
#[derive(Deserialize)]
struct StoredPreImage {
    root: String,
    path: String,
    before: State,
    after: State,
}

/// A missing file, or a file with this content.
#[derive(Deserialize)]
struct State {
    exists: bool,
    sha256: Option<String>,
    text: Option<String>,
    base64: Option<String>,
}

impl State {
    /// The digest of the file, if there is one.
    fn digest(&self) -> Result<Option<Digest>, ImageError> {
        if !self.exists {
            return Ok(None);
        }
        let digest = self.sha256.as_deref().and_then(Digest::parse);
        digest.map(Some).ok_or(ImageError::Members)
    }
}

impl StoredPreImage {
    /// The call as a step, and the member of a write that restores the old content.
    fn step(&self, certain: bool) -> Result<(WriteStep, Option<Content>), ImageError> {
        let step =
            WriteStep { before: self.before.digest()?, after: self.after.digest()?, certain };
        let text = self.before.text.clone().map(|text| ("content", text));
        let base64 = || self.before.base64.clone().map(|text| ("content_base64", text));
        Ok((step, text.or_else(base64)))
    }
}

/// Adds one call to the run's effects on its file.
fn add(
    undo: &mut Vec<Undo>,
    entry: &Entry,
    certain: bool,
    image: Result<StoredPreImage, ImageError>,
) {
    let tool = entry.draft.tool.as_ref().map(ToString::to_string).unwrap_or_default();
    let lost = |why: ImageError| Undo {
        root: tool.clone(),
        path: format!("(call {})", entry.draft.call.as_ref().map_or("", CallId::as_str)),
        tool: tool.clone(),
        first: entry.seq,
        lost: Some(why),
        steps: Vec::new(),
        content: None,
    };
    let step = image.and_then(|image| Ok((image.step(certain)?, image)));
    let ((step, content), StoredPreImage { root, path, .. }) = match step {
        Ok(step) => step,
        Err(why) => return undo.push(lost(why)),
    };
    if let Some(file) = undo.iter_mut().find(|file| file.root == root && file.path == path) {
        file.tool = tool;
        return file.steps.push(step);
    }
    let first = entry.seq;
    undo.push(Undo { root, path, tool, first, lost: None, steps: vec![step], content });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(steps: &[(&str, &str, bool)]) -> Undo {
        let state = |text: &str| (!text.is_empty()).then(|| Digest::of(&[text.as_bytes()]));
        let step = |(before, after, certain): &(&str, &str, bool)| WriteStep {
            before: state(before),
            after: state(after),
            certain: *certain,
        };
        Undo {
            root: "r".into(),
            path: "p".into(),
            tool: "t".into(),
            first: 0,
            lost: None,
            steps: steps.iter().map(step).collect(),
            content: None,
        }
    }

    #[test]
    fn only_what_the_run_left_is_put_back() {
        let state = |text: &str| (!text.is_empty()).then(|| Digest::of(&[text.as_bytes()]));
        let conflict = Decision::Conflict;
        let (foreign, between) = (
            conflict("it was changed after the run"),
            conflict("it was changed between two calls of the run"),
        );
        let certain = &[("a", "b", true), ("b", "c", true)][..];
        let lost_last = &[("a", "b", true), ("b", "c", false)][..];
        for (steps, now, wanted) in [
            (certain, "c", Decision::Restore),
            (certain, "a", Decision::Unchanged),
            (certain, "b", foreign),
            (certain, "", foreign),
            (lost_last, "c", Decision::Restore),
            (lost_last, "b", Decision::Restore),
            (lost_last, "x", foreign),
            (&[("a", "b", true), ("x", "c", true)][..], "c", between),
            (&[("a", "b", false), ("a", "c", true)][..], "c", Decision::Restore),
            (&[("", "b", true)][..], "b", Decision::Restore),
            (&[("", "b", true)][..], "", Decision::Unchanged),
            (&[("a", "", true)][..], "", Decision::Restore),
            (&[("a", "b", true), ("b", "a", true)][..], "a", Decision::Unchanged),
        ] {
            assert_eq!(undo(steps).decide(state(now).as_ref()), wanted, "{steps:?} {now}");
        }
    }
}
