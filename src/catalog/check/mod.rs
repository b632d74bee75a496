//! From `tools:` as it was written to bindings, or to everything that is wrong with it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::binding::{Binding, Kind, Root};
use super::config::{self, Config};
use super::definition;
use super::schema::{SCHEMA_BYTES_MAX, Schema};
use super::{ConfigError, Problems};
use crate::domain::id::ToolName;
use crate::domain::json::Json;
use crate::domain::tier::Tier;

pub(super) const TIMEOUT_MS: u64 = 30_000;
pub(super) const TIMEOUT_MS_MAX: u64 = 600_000;
pub(super) const RESULT_BYTES: u64 = 1 << 20;
pub(super) const RESULT_BYTES_MAX: u64 = 8 << 20;
/// A billion dollars.
const COST_MICRO_USD_MAX: u64 = 1_000_000_000_000_000;
const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
/// Kinds this build knows.
const KINDS: &str = "`http`, `file.read`";
/// Never below a root, and no root below them.
const SYSTEM_DIRS: [&str; 5] = ["/proc", "/sys", "/dev", "/run/secrets", "/var/run/secrets"];

/// Arguments of a `file.read` whose binding brings no schema.
const FILE_READ_SCHEMA: &str = r#"{"type":"object","required":["path"],"properties":{
"path":{"type":"string","minLength":1,"maxLength":4096,"description":"path below the root, with `/` between names"},
"offset":{"type":"integer","minimum":0,"description":"first byte to read"},
"length":{"type":"integer","minimum":1,"description":"bytes to read"}}}"#;

/// What a configuration is checked against: the one way it reaches files and the environment.
pub struct Surroundings<'a> {
    /// Directory that relative paths start from.
    pub base_dir: &'a Path,
    /// The environment, read once per reference.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// Directories no tool may read: the sidecar's own state, its keys and manifests.
    pub forbidden: &'a [PathBuf],
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("base_dir", &self.base_dir).finish_non_exhaustive()
    }
}

impl Surroundings<'_> {
    /// The bytes of a file of the configuration.
    pub(super) fn read(&self, file: &Path, bytes_max: u64) -> Result<Vec<u8>, String> {
        let path = self.base_dir.join(file);
        let failed = |error: std::io::Error| format!("cannot read `{}`: {error}", path.display());
        let opened = File::open(&path).map_err(failed)?;
        if !opened.metadata().map_err(failed)?.is_file() {
            return Err(format!("`{}` is not a regular file", path.display()));
        }
        let mut bytes = Vec::new();
        opened.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
            return Err(format!("`{}` has more than {bytes_max} bytes", path.display()));
        }
        Ok(bytes)
    }
}

impl Config {
    /// Reads, parses and compiles everything the bindings name.
    ///
    /// # Errors
    /// Everything that is wrong, not only the first thing, in the order of the list.
    pub fn check(self, around: &Surroundings<'_>) -> Result<Vec<Binding>, Vec<ConfigError>> {
        let mut problems = Problems::default();
        let mut names = BTreeSet::new();
        let secrets = secret_files(&self, around);
        let mut bindings = Vec::new();
        for (i, tool) in self.0.iter().enumerate() {
            let at = format!("tools[{i}]");
            if !names.insert(tool.name.as_str()) {
                problems.add(format!("{at}.name"), format!("`{}` is bound twice", tool.name));
            }
            bindings.extend(binding(tool, &at, around, &secrets, &mut problems));
        }
        if problems.0.is_empty() { Ok(bindings) } else { Err(problems.0) }
    }
}

/// Files that hold secrets, so that no root lies over one.
fn secret_files(config: &Config, around: &Surroundings<'_>) -> Vec<PathBuf> {
    let files = config.0.iter().flat_map(|tool| &tool.credentials).filter_map(|c| c.file.as_ref());
    files.filter_map(|file| around.base_dir.join(file).canonicalize().ok()).collect()
}

fn binding(
    tool: &config::Tool,
    at: &str,
    around: &Surroundings<'_>,
    secrets: &[PathBuf],
    problems: &mut Problems,
) -> Option<Binding> {
    let name = ToolName::parse(&tool.name)
        .ok_or_else(|| format!("`{}` is not [A-Za-z0-9_.-]{{1,128}}", tool.name));
    let name = problems.take(&format!("{at}.name"), name);
    if tool.description.trim().is_empty() || tool.description.len() > DESCRIPTION_BYTES_MAX {
        let message = format!("a description has 1 to {DESCRIPTION_BYTES_MAX} bytes");
        problems.add(format!("{at}.description"), message);
    }
    let schema = schema(tool, at, around, problems);
    let tier = tool.tier.as_deref().map_or(Ok(Tier::T3), tier);
    let tier = problems.take(&format!("{at}.tier"), tier);
    let timeout = bounded(tool.timeout_ms, TIMEOUT_MS, TIMEOUT_MS_MAX);
    let timeout = problems.take(&format!("{at}.timeout_ms"), timeout);
    let bytes = bounded(tool.result_bytes_max, RESULT_BYTES, RESULT_BYTES_MAX);
    let bytes = problems.take(&format!("{at}.result_bytes_max"), bytes);
    let cost_micro_usd = problems.take(&format!("{at}.cost_micro_usd"), cost(tool.cost_micro_usd));
    let kind = kind(tool, schema.as_ref(), at, around, secrets, problems);
    let (name, schema, kind) = (name?, schema?, kind?);
    let (tier, timeout_ms, result_bytes_max, cost_micro_usd) =
        (tier?, timeout?, bytes?, cost_micro_usd?);
    let shown = Json::object([
        ("name", Json::from(name.as_str())),
        ("description", Json::from(tool.description.as_str())),
        ("input_schema", schema.json().clone()),
    ]);
    let effective = Json::object([
        ("kind", Json::from(kind.as_str())),
        ("binding", definition::kind(&kind)),
        ("tier", Json::from(tier.as_str())),
        ("read_only", Json::from(tool.read_only)),
        ("idempotent", Json::from(tool.idempotent)),
        ("timeout_ms", Json::from(timeout_ms)),
        ("result_bytes_max", Json::from(result_bytes_max)),
    ]);
    let effective = definition::priced(effective, cost_micro_usd);
    Some(Binding {
        definition: definition::digest(shown, effective),
        shown: None,
        name,
        description: tool.description.clone(),
        schema,
        kind,
        tier,
        read_only: tool.read_only,
        idempotent: tool.idempotent,
        timeout: Duration::from_millis(timeout_ms),
        result_bytes_max,
        cost_micro_usd,
    })
}

/// What one call costs, where somebody says so.
pub(super) fn cost(given: Option<u64>) -> Result<Option<u64>, String> {
    match given {
        Some(cost) if cost > COST_MICRO_USD_MAX => Err(format!("is 0 to {COST_MICRO_USD_MAX}")),
        Some(_) | None => Ok(given),
    }
}

pub(super) fn tier(text: &str) -> Result<Tier, String> {
    Tier::parse(text).ok_or_else(|| format!("`{text}` is none of `T0`, `T1`, `T2`, `T3`"))
}

pub(super) fn bounded(given: Option<u64>, default: u64, most: u64) -> Result<u64, String> {
    let value = given.unwrap_or(default);
    if (1..=most).contains(&value) { Ok(value) } else { Err(format!("is 1 to {most}")) }
}

fn schema(
    tool: &config::Tool,
    at: &str,
    around: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<Schema> {
    match (&tool.input_schema, &tool.input_schema_file) {
        (Some(value), None) => {
            let schema = Schema::parse(value.to_string().as_bytes());
            problems.take(&format!("{at}.input_schema"), schema)
        }
        (None, Some(file)) => {
            let most = u64::try_from(SCHEMA_BYTES_MAX).unwrap_or(u64::MAX);
            let schema = around.read(file, most).and_then(|text| Schema::parse(&text));
            problems.take(&format!("{at}.input_schema_file"), schema)
        }
        (Some(_), Some(_)) => {
            problems.add(at, "give one of `input_schema` and `input_schema_file`");
            None
        }
        (None, None) if tool.kind == "file.read" => {
            problems.take(at, Schema::parse(FILE_READ_SCHEMA.as_bytes()))
        }
        (None, None) => {
            problems.add(format!("{at}.input_schema"), "is missing");
            None
        }
    }
}

fn kind(
    tool: &config::Tool,
    schema: Option<&Schema>,
    at: &str,
    around: &Surroundings<'_>,
    secrets: &[PathBuf],
    problems: &mut Problems,
) -> Option<Kind> {
    match tool.kind.as_str() {
        "http" => {
            if tool.file.is_some() {
                problems.add(format!("{at}.file"), "means nothing for kind `http`");
            }
            super::http::check(tool, schema, at, around, problems).map(Box::new).map(Kind::Http)
        }
        "file.read" => {
            if tool.http.is_some() {
                problems.add(format!("{at}.http"), "means nothing for kind `file.read`");
            }
            if !tool.credentials.is_empty() {
                problems.add(format!("{at}.credentials"), "means nothing for kind `file.read`");
            }
            root(tool.file.as_ref(), &format!("{at}.file"), around, secrets, problems)
                .map(Kind::FileRead)
        }
        other => {
            problems.add(format!("{at}.kind"), format!("`{other}` is none of {KINDS}"));
            None
        }
    }
}

fn root(
    file: Option<&config::File>,
    at: &str,
    around: &Surroundings<'_>,
    secrets: &[PathBuf],
    problems: &mut Problems,
) -> Option<Root> {
    let Some(file) = file else {
        problems.add(at, "a tool of kind `file.read` needs it");
        return None;
    };
    if ToolName::parse(&file.name).is_none() {
        problems
            .add(format!("{at}.name"), format!("`{}` is not [A-Za-z0-9_.-]{{1,128}}", file.name));
    }
    let at = format!("{at}.root");
    let joined = around.base_dir.join(&file.root);
    let path = joined
        .canonicalize()
        .map_err(|error| format!("cannot open `{}`: {error}", joined.display()));
    let path = problems.take(&at, path)?;
    if !path.is_dir() {
        problems.add(at, format!("`{}` is not a directory", path.display()));
        return None;
    }
    let system = SYSTEM_DIRS.iter().map(PathBuf::from);
    let own = around.forbidden.iter().cloned();
    for dir in own.chain(system) {
        let dir = dir.canonicalize().unwrap_or(dir);
        if path.starts_with(&dir) || dir.starts_with(&path) {
            let message = format!(
                "`{}` overlaps `{}`, which no tool may read",
                path.display(),
                dir.display()
            );
            problems.add(at.as_str(), message);
            return None;
        }
    }
    if secrets.iter().any(|secret| secret.starts_with(&path)) {
        problems.add(at, format!("`{}` holds a file that is a credential", path.display()));
        return None;
    }
    Some(Root { name: file.name.clone(), path })
}

#[cfg(test)]
mod tests;
