//! The files in `tests/` beside a bundle: decision tables and fixtures.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::layout;
use crate::domain::json::Json;
use crate::fault::LoadError;

/// The name of the fixtures: a folder of `tests/`, and a member of `data`.
pub(crate) const FIXTURES: &str = "fixtures";
const BYTES_MAX: u64 = 4 << 20;

/// The texts of the tables by name, and the fixtures as one object.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// `tests/refunds.yaml` and its text.
    pub tables: BTreeMap<String, Vec<u8>>,
    /// `tests/fixtures/x.json` as member `x`.
    pub fixtures: Option<Json>,
}

/// Reads `tests/` of this directory; empty without one.
pub(crate) fn read(dir: &Path) -> Result<Files, Vec<LoadError>> {
    let mut files = Files::default();
    for (name, path) in list(dir, layout::TESTS)? {
        let table = [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end));
        if table && !name.ends_with(".schema.json") {
            let shown = format!("{}/{name}", layout::TESTS);
            files.tables.insert(shown.clone(), bytes(&path, &shown)?);
        }
    }
    let folder = format!("{}/{FIXTURES}", layout::TESTS);
    let mut fixtures = BTreeMap::new();
    for (name, path) in list(dir, &folder)? {
        let shown = format!("{folder}/{name}");
        let Some(stem) = name.strip_suffix(".json") else {
            let why = "a fixture is a `.json` file";
            return Err(vec![LoadError::file("policy.layout", &shown, why)]);
        };
        let value = layout::parse(&shown, &bytes(&path, &shown)?).map_err(|e| vec![e])?;
        fixtures.insert(stem.to_owned(), value);
    }
    if !fixtures.is_empty() {
        files.fixtures = Some(Json::Object(fixtures));
    }
    Ok(files)
}

/// The regular files of a folder, by name.
fn list(dir: &Path, folder: &str) -> Result<BTreeMap<String, PathBuf>, Vec<LoadError>> {
    let error = |e: std::io::Error| vec![LoadError::file("policy.io", folder, e.to_string())];
    let entries = match std::fs::read_dir(dir.join(folder)) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(error(e)),
    };
    let mut found = BTreeMap::new();
    for entry in entries {
        let entry = entry.map_err(error)?;
        if entry.file_type().map_err(error)?.is_file() {
            found.insert(entry.file_name().to_string_lossy().into_owned(), entry.path());
        }
    }
    Ok(found)
}

fn bytes(path: &Path, shown: &str) -> Result<Vec<u8>, Vec<LoadError>> {
    let error = |e: std::io::Error| vec![LoadError::file("policy.io", shown, e.to_string())];
    if std::fs::metadata(path).map_err(error)?.len() > BYTES_MAX {
        return Err(vec![LoadError::file("policy.size", shown, "a file has at most 4 MiB")]);
    }
    std::fs::read(path).map_err(error)
}

/// A value that changes as soon as a file below this directory is written, made or removed.
pub fn changed_at(dir: &Path) -> Vec<(PathBuf, u64, Option<SystemTime>)> {
    let (mut found, mut open) = (Vec::new(), vec![(dir.to_owned(), 0_usize)]);
    while let Some((folder, depth)) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < 8 {
                open.push((entry.path(), depth.saturating_add(1)));
            } else if let Ok(facts) = entry.metadata() {
                found.push((entry.path(), facts.len(), facts.modified().ok()));
            }
        }
    }
    found.sort();
    found
}
