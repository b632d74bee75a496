//! The files of a bundle directory and its `bundle.json`.
//!
//! ```text
//! bundle.json       {"name", "version", "not_before"?, "not_after"?, "manifests"?, "enforcement"?}
//! bundle.sig.json   DSSE envelope; not part of the digest
//! org/ team/ agent/ *.rego of package wicketgate.<folder>; *_test.rego are carried, not evaluated
//! data/             *.json: data/a/b.json becomes data.a.b
//! tests/            decision tables and fixtures of `policy test`: never read by the gate, no part of the digest
//! ```

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::enforcement::{self, Enforcement};
use super::fault::LoadError;
use super::tar::NAME_BYTES_MAX;
use crate::domain::json::{self, Json, Limits};
use crate::domain::time::Timestamp;

/// The bundle's description of itself.
pub(super) const META: &str = "bundle.json";
/// The envelope beside it.
pub(super) const SIGNATURE: &str = "bundle.sig.json";
/// The folder that the digest of the bundle excludes.
pub(super) const TESTS: &str = "tests";
const FILES_MAX: usize = 256;
const BYTES_MAX: usize = 4 << 20;
/// Bytes of a composition library, of this version or another.
const LIBRARY_BYTES_MAX: usize = 64 << 10;
const DEPTH_MAX: usize = 8;

/// The bytes of a directory, not yet parsed.
#[derive(Debug, Default)]
pub(super) struct DirectoryBytes {
    /// Contents by name relative to the bundle, without the signature.
    pub files: BTreeMap<String, Vec<u8>>,
    /// `bundle.sig.json`, if there.
    pub signature: Option<Vec<u8>>,
    bytes: usize,
}

/// Reads the directory; reports files that do not belong in it.
pub(super) fn read(dir: &Path) -> Result<DirectoryBytes, Vec<LoadError>> {
    let mut found = DirectoryBytes::default();
    let mut errors = Vec::new();
    walk(dir, "", 0, &mut found, &mut errors);
    if errors.is_empty() { Ok(found) } else { Err(errors) }
}

fn walk(
    dir: &Path,
    prefix: &str,
    depth: usize,
    found: &mut DirectoryBytes,
    errors: &mut Vec<LoadError>,
) {
    let shown = if prefix.is_empty() { "." } else { prefix };
    let io = |e: std::io::Error| LoadError::file("policy.io", shown, e.to_string());
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) if depth <= DEPTH_MAX => entries,
        Ok(_) => return errors.push(LoadError::file("policy.layout", shown, "nested too deeply")),
        Err(e) => return errors.push(io(e)),
    };
    for entry in entries {
        if found.files.len() > FILES_MAX || found.bytes > BYTES_MAX {
            return;
        }
        let read = entry.and_then(|entry| Ok((entry.file_name(), entry.file_type()?)));
        let (name, kind) = match read {
            Ok(read) => read,
            Err(e) => {
                errors.push(io(e));
                continue;
            }
        };
        let name = format!("{prefix}{}", name.to_string_lossy());
        if kind.is_dir() && name == TESTS {
            continue;
        }
        if kind.is_dir() {
            let path = dir.join(name.rsplit('/').next().unwrap_or_default());
            walk(&path, &format!("{name}/"), depth.saturating_add(1), found, errors);
        } else if kind.is_file() {
            if let Err(error) = take(dir, &name, found) {
                errors.push(error);
            }
        } else {
            let why = "only regular files and directories belong in a bundle";
            errors.push(LoadError::file("policy.file_type", &name, why));
        }
    }
}

fn take(dir: &Path, name: &str, found: &mut DirectoryBytes) -> Result<(), LoadError> {
    let io = |e: std::io::Error| LoadError::file("policy.io", name, e.to_string());
    let path = dir.join(name.rsplit('/').next().unwrap_or_default());
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)
        .map_err(io)?;
    if !file.metadata().map_err(io)?.is_file() {
        let why = "only regular files and directories belong in a bundle";
        return Err(LoadError::file("policy.file_type", name, why));
    }
    let mut bytes = Vec::new();
    let bytes_max = u64::try_from(BYTES_MAX).unwrap_or(u64::MAX).saturating_add(1);
    file.take(bytes_max).read_to_end(&mut bytes).map_err(io)?;
    found.bytes = found.bytes.saturating_add(bytes.len());
    if found.bytes > BYTES_MAX {
        return Err(LoadError::file("policy.size", ".", "a bundle has at most 4 MiB"));
    }
    if name == SIGNATURE {
        found.signature = Some(bytes);
        return Ok(());
    }
    check_name(name)?;
    found.files.insert(name.to_owned(), bytes);
    if found.files.len() > FILES_MAX {
        return Err(LoadError::file("policy.size", ".", "a bundle has at most 256 files"));
    }
    Ok(())
}

/// Checks that these are at most as many files and bytes as a bundle may have with its library.
pub(super) fn check_size(files: &BTreeMap<String, Vec<u8>>) -> Result<(), LoadError> {
    let bytes = files.values().fold(0_usize, |sum, bytes| sum.saturating_add(bytes.len()));
    if files.len() > FILES_MAX.saturating_add(1) {
        return Err(LoadError::file("policy.size", ".", "a bundle has at most 256 files"));
    }
    if bytes > BYTES_MAX.saturating_add(LIBRARY_BYTES_MAX) {
        return Err(LoadError::file("policy.size", ".", "a bundle has at most 4 MiB"));
    }
    Ok(())
}

/// Whether a file of this name belongs in a bundle.
pub(super) fn check_name(name: &str) -> Result<(), LoadError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-/".contains(&b);
    let hidden = name.split('/').any(|part| part.is_empty() || part.starts_with('.'));
    if !name.bytes().all(plain) || hidden || name.len() > NAME_BYTES_MAX {
        let why = "a name is made of [A-Za-z0-9_.-], starts with no dot, and has at most 100 bytes";
        return Err(LoadError::file("policy.file_name", name, why));
    }
    let fits = match name.split_once('/') {
        Some(("org" | "team" | "agent", rest)) => rest.ends_with(".rego"),
        Some(("data", rest)) => rest.ends_with(".json"),
        Some(_) => false,
        None => name == META,
    };
    if fits {
        return Ok(());
    }
    let why = "a bundle holds `bundle.json`, `org/`, `team/` and `agent/` with `.rego` files, and \
               `data/` with `.json` files";
    Err(LoadError::file("policy.layout", name, why))
}

/// `bundle.json`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Meta {
    /// `name`: `[a-z0-9.-]{1,64}`.
    pub name: String,
    /// `version`.
    pub version: semver::Version,
    /// `not_before`, if given: the bundle does not come into force earlier.
    pub not_before: Option<Timestamp>,
    /// `not_after`, if given: from then on the bundle does not come into force, and one in force
    /// decides nothing.
    pub not_after: Option<Timestamp>,
    /// `manifests`: the agents it is for; empty means any.
    pub manifests: Vec<String>,
    /// `enforcement`: which layers observe, and until when.
    pub enforcement: Enforcement,
}

/// Reads `bundle.json` strictly.
pub(super) fn meta(files: &BTreeMap<String, Vec<u8>>) -> Result<Meta, LoadError> {
    let malformed = |why: &str| LoadError::file("policy.meta", META, why);
    let text = files.get(META).ok_or_else(|| malformed("there is no `bundle.json`"))?;
    let json = parse(META, text)?;
    let members = json.as_object().ok_or_else(|| malformed("not an object"))?;
    let known = ["name", "version", "not_before", "not_after", "manifests", "enforcement"];
    if let Some(unknown) = members.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(malformed(&format!("unknown member `{unknown}`")));
    }
    let name = json.get("name").and_then(Json::as_str).unwrap_or_default();
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b);
    if !(1..=64).contains(&name.len()) || !name.bytes().all(plain) {
        return Err(malformed("`name` is [a-z0-9.-]{1,64}"));
    }
    let version = json.get("version").and_then(Json::as_str).unwrap_or_default();
    let version =
        version.parse().map_err(|_| malformed("`version` is a semantic version (`1.0.0`)"))?;
    let instant = |key: &str| match json.get(key) {
        None => Ok(None),
        Some(value) => enforcement::instant(value)
            .map(Some)
            .ok_or_else(|| malformed(&format!("`{key}` is a UTC time (`2026-11-01T00:00:00Z`)"))),
    };
    let manifests = match json.get("manifests") {
        None => Vec::new(),
        Some(list) => list
            .as_array()
            .filter(|list| !list.is_empty())
            .and_then(|list| list.iter().map(|m| m.as_str().map(str::to_owned)).collect())
            .ok_or_else(|| malformed("`manifests` is a list of manifest names"))?,
    };
    let (not_before, not_after) = (instant("not_before")?, instant("not_after")?);
    if not_before.zip(not_after).is_some_and(|(from, until)| from >= until) {
        return Err(malformed("`not_after` is not after `not_before`"));
    }
    let enforcement = Enforcement::read(json.get("enforcement"), not_before)
        .map_err(|e| malformed(&e.to_string()))?;
    let name = name.to_owned();
    Ok(Meta { name, version, not_before, not_after, manifests, enforcement })
}

/// Reads one strict JSON file; the error names line and column.
pub(super) fn parse(file: &str, text: &[u8]) -> Result<Json, LoadError> {
    let limits =
        Limits { bytes_max: BYTES_MAX, depth_max: 32, values_max: 1 << 19, key_bytes_max: 1024 };
    Json::parse(text, &limits).map_err(|e: json::Error| {
        let before = text.get(..e.offset).unwrap_or(text);
        let line = before.split(|b| *b == b'\n');
        let column = line.clone().next_back().map_or(0, <[u8]>::len).saturating_add(1);
        LoadError {
            file: file.to_owned(),
            line: u32::try_from(line.count()).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
            code: "policy.json",
            message: format!("{}: {}", e.code, e.message),
        }
    })
}

/// Nested brackets and braces of one rule.
const NESTING_MAX: usize = 10;

/// Where brackets are nested too deeply, as line and column, if they are.
///
/// The engine's parser tries every `[` and `{` as a comprehension first and then again as a literal:
/// each level doubles its time, and twenty-four take minutes.
pub(super) fn too_nested(text: &str) -> Option<(u32, u32)> {
    let (mut line, mut column, mut depth) = (1_u32, 0_u32, 0_usize);
    let mut chars = text.chars();
    let mut quote = None;
    while let Some(c) = chars.next() {
        column = column.saturating_add(1);
        match (c, quote) {
            ('\n', _) => {
                (line, column) = (line.saturating_add(1), 0);
                quote = quote.filter(|q| *q == '`');
            }
            ('\\', Some('"')) => _ = chars.next(),
            (_, Some(q)) if c == q && q != '#' => quote = None,
            (_, Some(_)) => {}
            ('"' | '`' | '#', None) => quote = Some(c),
            ('[' | '{', None) => {
                depth = depth.saturating_add(1);
                if depth > NESTING_MAX {
                    return Some((line, column));
                }
            }
            (']' | '}', None) => depth = depth.saturating_sub(1),
            (_, None) => {}
        }
    }
    None
}
