//! Tools that work on files beneath a root: which root, and which of its files no agent gets.

use std::path::PathBuf;

use super::{Listing, Root, Writing, config};
use crate::check::{Draft, Error, Surroundings, bounded};
use crate::domain::effect::ToolKind;
use crate::domain::id::ToolName;
use crate::file_name::{fold, is_secret};
use crate::schema::Schema;
use crate::{Kind, Problems, Section};

/// Entries of a listing.
pub(crate) const ENTRIES: u64 = 1000;
pub(crate) const ENTRIES_MAX: u64 = 10_000;
/// Directories deep.
pub(crate) const DEPTH: u64 = 1;
pub(crate) const DEPTH_MAX: u64 = 16;
/// Names a root may protect, and paths it may allow.
pub(crate) const NAMES_MAX: usize = 256;
const PATH_BYTES_MAX: usize = 4096;

const READ: &str = r#"{"type":"object","required":["path"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"path below the root, with `/` between names"},
"offset":{"type":"integer","minimum":0,"description":"first byte to read"},
"length":{"type":"integer","minimum":1,"description":"bytes to read"}}}"#;

const LIST: &str = r#"{"type":"object","properties":{
"path":{"type":"string","maxLength":4096,"description":"directory below the root, with `/` between names; the root if absent"},
"depth":{"type":"integer","minimum":1,"maximum":16,"description":"directories deep; 1 is the directory's own entries"}}}"#;

const WRITE: &str = r#"{"type":"object","required":["path"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"path below the root, with `/` between names"},
"content":{"type":"string","description":"the whole new content, as text"},
"content_base64":{"type":"string","description":"the whole new content, in base64"},
"mode":{"enum":["write","create","replace","delete"],"description":"`create` if it is not there, `replace` if it is, `write` (default) either; `delete` takes no content"},
"if_match":{"type":"string","pattern":"^[0-9a-f]{64}$","description":"SHA-256 of what has to be there now"}}}"#;

const WRITE_AND_EDIT: &str = r#"{"type":"object","required":["path"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"path below the root, with `/` between names"},
"content":{"type":"string","description":"the whole new content, as text"},
"content_base64":{"type":"string","description":"the whole new content, in base64"},
"old":{"type":"string","minLength":1,"description":"with `edit`: the text to replace, exactly as the file has it; it has to be there once"},
"new":{"type":"string","description":"with `edit`: the text that takes its place"},
"all":{"type":"boolean","description":"with `edit`: replace `old` wherever it is"},
"mode":{"enum":["write","create","replace","edit","delete"],"description":"`create` if it is not there, `replace` if it is, `write` (default) either; `edit` takes `old` and `new` and no content; `delete` takes no content"},
"if_match":{"type":"string","pattern":"^[0-9a-f]{64}$","description":"SHA-256 of what has to be there now"}}}"#;

impl Section for config::File {
    fn takes_credentials(&self) -> bool {
        false
    }

    fn check(&self, draft: &Draft<'_>, problems: &mut Problems) -> Option<(Schema, Kind)> {
        let own = if draft.kind == ToolKind::FileList {
            LIST
        } else if draft.kind == ToolKind::FileWrite {
            if self.edits { WRITE_AND_EDIT } else { WRITE }
        } else {
            READ
        };
        let schema = draft.schema(Some(own.as_bytes()), problems);
        let kind = beneath(self, draft, problems);
        Some((schema?, kind?))
    }
}

fn beneath(file: &config::File, draft: &Draft<'_>, problems: &mut Problems) -> Option<Kind> {
    let Draft { tool, at, surroundings, secrets, kind } = *draft;
    let place = format!("{at}.file");
    foreign(kind, file, &place, problems);
    let root = root(file, &place, surroundings, secrets, problems);
    if kind == ToolKind::FileList {
        let entries = bounded(file.entries_max, ENTRIES, ENTRIES_MAX);
        let entries = problems.take(&format!("{place}.entries_max"), entries);
        let depth = bounded(file.depth_max, DEPTH, DEPTH_MAX);
        let depth = problems.take(&format!("{place}.depth_max"), depth);
        let (root, entries_max, depth_max) = (root?, entries?, depth?);
        return Some(Kind::FileList(Listing { root, entries_max, depth_max }));
    }
    if kind != ToolKind::FileWrite {
        return root.map(Kind::FileRead);
    }
    if tool.read_only {
        problems.add(format!("{at}.read_only"), "a tool that writes is not read only");
    }
    if tool.tier.as_deref() == Some("T0") {
        problems.add(format!("{at}.tier"), "a tool that writes is at least `T1`");
    }
    let (create_parents, edits) = (file.create_parents, file.edits);
    Some(Kind::FileWrite(Writing { root: root?, create_parents, edits }))
}

/// What belongs to another kind.
fn foreign(kind: ToolKind, file: &config::File, at: &str, problems: &mut Problems) {
    let given = [
        ("create_parents", file.create_parents, ToolKind::FileWrite),
        ("edits", file.edits, ToolKind::FileWrite),
        ("entries_max", file.entries_max.is_some(), ToolKind::FileList),
        ("depth_max", file.depth_max.is_some(), ToolKind::FileList),
    ];
    for (member, there, of) in given {
        if there && of != kind {
            problems.add(format!("{at}.{member}"), format!("means nothing for kind `{kind}`"));
        }
    }
}

fn root(
    file: &config::File,
    at: &str,
    surroundings: &Surroundings<'_>,
    secrets: &[PathBuf],
    problems: &mut Problems,
) -> Option<Root> {
    if ToolName::parse(&file.name).is_none() {
        problems
            .add(format!("{at}.name"), format!("`{}` is not [A-Za-z0-9_.-]{{1,128}}", file.name));
    }
    names(file, at, problems);
    let at = format!("{at}.root");
    let joined = surroundings.base_dir.join(&file.root);
    let path = joined.canonicalize().map_err(|e| Error::Open(joined, e));
    let path = problems.take(&at, path)?;
    if !path.is_dir() {
        problems.add(at, Error::NotDirectory(path).to_string());
        return None;
    }
    problems.take(&at, surroundings.apart(&path, secrets))?;
    let (protect, allow) = (file.protect.clone(), file.allow.clone());
    let (name, allow_names) = (file.name.clone(), file.allow_names.clone());
    Some(Root { name, path, protect, allow, allow_names, own: Vec::new() })
}

/// Names to protect are single names; paths to allow are exact, plain and below the root.
fn names(file: &config::File, at: &str, problems: &mut Problems) {
    if [&file.protect, &file.allow, &file.allow_names].iter().any(|list| list.len() > NAMES_MAX) {
        let message =
            format!("`protect`, `allow` and `allow_names` have at most {NAMES_MAX} entries each");
        problems.add(at, message);
    }
    let plain = |name: &str| !name.trim().is_empty() && !matches!(name, "." | "..");
    for (member, list) in [("protect", &file.protect), ("allow_names", &file.allow_names)] {
        for (i, name) in list.iter().enumerate() {
            if !plain(name) || name.contains('/') || name.len() > PATH_BYTES_MAX {
                let message = format!("`{name}` is not one name of a file or directory");
                problems.add(format!("{at}.{member}[{i}]"), message);
            } else if member == "allow_names" && is_secret(&fold(name)) {
                let message = format!(
                    "`{name}` is a name of secrets: give the exact path below the root under `allow`"
                );
                problems.add(format!("{at}.{member}[{i}]"), message);
            }
        }
    }
    for (i, path) in file.allow.iter().enumerate() {
        if !path.split('/').all(plain) || path.len() > PATH_BYTES_MAX {
            let message = format!("`{path}` is not an exact path below the root");
            problems.add(format!("{at}.allow[{i}]"), message);
        }
    }
}
