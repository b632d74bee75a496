//! From `tools:` as it was written to bindings, or to everything that is wrong with it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use zeroize::Zeroizing;

use super::binding::{Binding, Kind};
use super::config::{self, Config};
use super::definition;
use super::fetch;
use super::schema::{SCHEMA_BYTES_MAX, Schema};
use super::sql;
use super::{ConfigError, Problems};
use crate::crypto::private;
use crate::domain::id::ToolName;
use crate::domain::json::Json;
use crate::domain::tier::Tier;

mod file;

pub(super) use file::{DEPTH, DEPTH_MAX, ENTRIES, ENTRIES_MAX, NAMES_MAX};

pub(super) const TIMEOUT_MS: u64 = 30_000;
pub(super) const TIMEOUT_MS_MAX: u64 = 600_000;
pub(super) const DEDUPE_MS_MAX: u64 = 600_000;
pub(super) const RESULT_BYTES: u64 = 1 << 20;
pub(super) const RESULT_BYTES_MAX: u64 = 8 << 20;
/// A billion dollars.
pub(super) const COST_MICRO_USD_MAX: u64 = 1_000_000_000_000_000;
const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
/// Kinds this build knows.
const KINDS: &str =
    "`http`, `fetch`, `file.read`, `file.list`, `file.write`, `command`, `sql`, `model`, `grpc`";
/// Never below a root, and no root below them.
const SYSTEM_DIRS: [&str; 5] = ["/proc", "/sys", "/dev", "/run/secrets", "/var/run/secrets"];

/// Why a value of the configuration, or a file that it names, cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("cannot read `{}`: {why}", .0.display(), why = .1)]
    Read(PathBuf, #[source] std::io::Error),
    #[error("cannot open `{}`: {why}", .0.display(), why = .1)]
    Open(PathBuf, #[source] std::io::Error),
    #[error("`{}` is not a regular file", .0.display())]
    NotRegular(PathBuf),
    #[error("`{}` is not a directory", .0.display())]
    NotDirectory(PathBuf),
    #[error("`{}` has more than {most} bytes", .0.display(), most = .1)]
    Large(PathBuf, u64),
    #[error("`{}` holds a file that is a credential", .0.display())]
    Credential(PathBuf),
    #[error("`{}` overlaps `{}`, which no tool may read", .0.display(), .1.display())]
    Overlap(PathBuf, PathBuf),
    /// From and to.
    #[error("is {0} to {1}")]
    Range(u64, u64),
    #[error("`{0}` is none of `T0`, `T1`, `T2`, `T3`")]
    Tier(String),
}

/// What a configuration is checked against: the one way it reaches files and the environment.
pub struct Surroundings<'a> {
    /// Directory that relative paths start from.
    pub base_dir: &'a Path,
    /// The environment, read once per reference.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// What no tool may read: the sidecar's own state, its policy, and credentials of servers.
    pub forbidden: &'a [PathBuf],
    /// Other files of the sidecar's own, its configuration, keys, tokens and manifests: for tools that do not ask at
    /// each path whether it is one of them, as those of files do.
    pub own: &'a [PathBuf],
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Surroundings").field("base_dir", &self.base_dir).finish_non_exhaustive()
    }
}

impl Surroundings<'_> {
    /// The bytes of a file of the configuration.
    pub(super) fn read(&self, file: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
        let path = self.base_dir.join(file);
        let failed = |error| Error::Read(path.clone(), error);
        let opened = File::open(&path).map_err(failed)?;
        let metadata = opened.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(Error::NotRegular(path));
        }
        let mut bytes = Vec::new();
        opened.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes).map_err(failed)?;
        if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
            return Err(Error::Large(path, bytes_max));
        }
        Ok(bytes)
    }

    /// The text of a file that only its owner may read.
    pub(super) fn read_secret(&self, file: &Path) -> Result<Zeroizing<String>, private::Error> {
        private::text(&self.base_dir.join(file))
    }

    /// Whether a tool may be given this path, canonical: nothing of the sidecar's own, nothing of the
    /// system's and none of these secrets lies in it, nor it in that.
    pub(super) fn apart(&self, path: &Path, secrets: &[PathBuf]) -> Result<(), Error> {
        let system = SYSTEM_DIRS.map(Path::new);
        overlaps_none(path, self.forbidden.iter().map(PathBuf::as_path).chain(system))?;
        if secrets.iter().any(|secret| secret.starts_with(path) || leads_to(path, secret)) {
            return Err(Error::Credential(path.to_owned()));
        }
        Ok(())
    }

    /// The same for a tool that reads there without asking at each path whether it is the sidecar's own.
    pub(super) fn apart_from_own(&self, path: &Path, secrets: &[PathBuf]) -> Result<(), Error> {
        self.apart(path, secrets)?;
        overlaps_none(path, self.own.iter().map(PathBuf::as_path))
    }
}

/// Whether this path, canonical, is none of these, and neither lies in the other.
fn overlaps_none<'a>(path: &Path, others: impl Iterator<Item = &'a Path>) -> Result<(), Error> {
    for other in others {
        let other = other.canonicalize().unwrap_or_else(|_| other.to_owned());
        if path.starts_with(&other) || other.starts_with(path) || leads_to(path, &other) {
            return Err(Error::Overlap(path.to_owned(), other));
        }
    }
    Ok(())
}

/// Whether `path` is, under whatever name, a directory above `inner` or the thing itself: it may be the
/// same directory mounted elsewhere, and then no name tells.
fn leads_to(path: &Path, inner: &Path) -> bool {
    let identity = |path: &Path| path.metadata().map(|is| (is.dev(), is.ino())).ok();
    let Some(root) = identity(path) else { return false };
    inner.ancestors().any(|above| identity(above) == Some(root))
}

impl Config {
    /// Reads, parses and compiles everything the bindings name.
    ///
    /// # Errors
    /// Everything that is wrong, not only the first thing, in the order of the list.
    pub fn check(self, around: &Surroundings<'_>) -> Result<Vec<Binding>, Vec<ConfigError>> {
        let (mut bindings, mut problems) = (Vec::new(), Vec::new());
        for one in self.check_each(around) {
            match one.checked {
                Ok(binding) => bindings.push(binding),
                Err(more) => problems.extend(more),
            }
        }
        if problems.is_empty() { Ok(bindings) } else { Err(problems) }
    }

    /// As [`Self::check`], each tool by itself and in the order of the list: what is wrong with one keeps
    /// nobody from looking at the others.
    #[must_use]
    pub fn check_each(self, around: &Surroundings<'_>) -> Vec<Checked> {
        let mut names = BTreeSet::new();
        let secrets = secret_files(&self, around);
        let mut all = Vec::new();
        for (i, tool) in self.0.iter().enumerate() {
            let mut problems = Problems::default();
            let at = format!("tools[{i}]");
            if !names.insert(tool.name.as_str()) {
                problems.add(format!("{at}.name"), format!("`{}` is bound twice", tool.name));
            }
            let binding = binding(tool, &at, around, &secrets, &mut problems);
            let checked = match binding {
                Some(binding) if problems.0.is_empty() => Ok(binding),
                Some(_) | None => Err(problems.0),
            };
            all.push(Checked { name: tool.name.clone(), kind: tool.kind.clone(), checked });
        }
        all
    }
}

impl Config {
    /// Files that hold secrets of tools, canonical: no server is given one.
    #[must_use]
    pub fn secret_files(&self, around: &Surroundings<'_>) -> Vec<PathBuf> {
        secret_files(self, around)
    }
}

/// One tool of the list, checked by itself.
#[derive(Debug)]
pub struct Checked {
    /// Its name, as it was written.
    pub name: String,
    /// Its kind, as it was written.
    pub kind: String,
    /// The binding, or everything that is wrong with it.
    pub checked: Result<Binding, Vec<ConfigError>>,
}

/// Files that hold secrets, so that no root lies over one.
fn secret_files(config: &Config, around: &Surroundings<'_>) -> Vec<PathBuf> {
    let models = config.0.iter().filter_map(|tool| tool.model.as_ref());
    let models = models.flat_map(|model| &model.upstreams).flat_map(|place| &place.credentials);
    let all = config.0.iter().flat_map(|tool| &tool.credentials).chain(models);
    let files = all.filter_map(|c| c.file.as_ref());
    let commands = config.0.iter().filter_map(|tool| tool.command.as_ref());
    let more = commands.flat_map(|command| &command.credentials).filter_map(|c| c.file.as_ref());
    let urls = config.0.iter().filter_map(|tool| tool.sql.as_ref()).filter_map(sql::secret_file);
    files
        .chain(more)
        .chain(urls)
        .filter_map(|file| around.base_dir.join(file).canonicalize().ok())
        .collect()
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
    let (described, service) = service(tool, at, around, problems).unzip();
    let schema = match tool.kind.as_str() {
        "grpc" => described,
        _ => schema(tool, at, around, problems),
    };
    let tier = tool.tier.as_deref().map_or(Ok(Tier::T3), tier);
    let tier = problems.take(&format!("{at}.tier"), tier);
    let timeout = bounded(tool.timeout_ms, TIMEOUT_MS, TIMEOUT_MS_MAX);
    let timeout = problems.take(&format!("{at}.timeout_ms"), timeout);
    let bytes = bounded(tool.result_bytes_max, RESULT_BYTES, RESULT_BYTES_MAX);
    let bytes = problems.take(&format!("{at}.result_bytes_max"), bytes);
    let cost_micro_usd = problems.take(&format!("{at}.cost_micro_usd"), cost(tool.cost_micro_usd));
    let dedupe = problems.take(&format!("{at}.dedupe_ms"), dedupe(tool.dedupe_ms));
    let kind = match tool.kind.as_str() {
        "grpc" => service,
        "sql" => database(tool, at, around, timeout.unwrap_or(TIMEOUT_MS), problems),
        _ => kind(tool, schema.as_ref(), at, around, secrets, problems),
    };
    let (name, schema, kind) = (name?, schema?, kind?);
    let (tier, timeout_ms, result_bytes_max, cost_micro_usd, dedupe) =
        (tier?, timeout?, bytes?, cost_micro_usd?, dedupe?);
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
    let effective = definition::priced(effective, (cost_micro_usd, dedupe));
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
        dedupe,
    })
}

/// What one call costs, where somebody says so.
pub(super) fn cost(given: Option<u64>) -> Result<Option<u64>, Error> {
    match given {
        Some(cost) if cost > COST_MICRO_USD_MAX => Err(Error::Range(0, COST_MICRO_USD_MAX)),
        Some(_) | None => Ok(given),
    }
}

/// For how long the same call under another id is the first one, where somebody says so.
pub(super) fn dedupe(given: Option<u64>) -> Result<Option<Duration>, Error> {
    let window = given.map(|ms| bounded(Some(ms), ms, DEDUPE_MS_MAX)).transpose()?;
    Ok(window.map(Duration::from_millis))
}

pub(super) fn tier(text: &str) -> Result<Tier, Error> {
    Tier::parse(text).ok_or_else(|| Error::Tier(text.to_owned()))
}

pub(super) fn bounded(given: Option<u64>, default: u64, most: u64) -> Result<u64, Error> {
    let value = given.unwrap_or(default);
    if (1..=most).contains(&value) { Ok(value) } else { Err(Error::Range(1, most)) }
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
            let at = format!("{at}.input_schema_file");
            let text = problems.take(&at, around.read(file, most))?;
            problems.take(&at, Schema::parse(&text))
        }
        (Some(_), Some(_)) => {
            problems.add(at, "give one of `input_schema` and `input_schema_file`");
            None
        }
        (None, None) if tool.kind == "sql" => {
            problems.take(&format!("{at}.sql"), tool.sql.as_ref().map(sql::schema)?)
        }
        (None, None) if tool.kind == "fetch" => {
            problems.take(at, Schema::parse(fetch::SCHEMA.as_bytes()))
        }
        (None, None) if tool.kind == "model" => {
            let schema = tool.model.as_ref().map(super::model::schema)?;
            problems.take(at, Schema::parse(&schema))
        }
        (None, None) => match file::schema(&tool.kind) {
            Some(text) => problems.take(at, Schema::parse(text.as_bytes())),
            None => {
                problems.add(format!("{at}.input_schema"), "is missing");
                None
            }
        },
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
        "command" => {
            only("command", tool, at, problems);
            super::command::check(tool, schema, at, around, secrets, problems)
                .map(Box::new)
                .map(Kind::Command)
        }
        "http" => {
            only("http", tool, at, problems);
            super::http::check(tool, schema, at, around, problems).map(Box::new).map(Kind::Http)
        }
        "fetch" => {
            only("fetch", tool, at, problems);
            fetch::check(tool, schema, at, around, problems).map(Box::new).map(Kind::Fetch)
        }
        "file.read" | "file.list" | "file.write" => {
            only("file", tool, at, problems);
            file::check(tool, at, around, secrets, problems)
        }
        "model" => {
            only("model", tool, at, problems);
            super::model::check(tool, at, around, problems).map(Kind::Model)
        }
        other => {
            problems.add(format!("{at}.kind"), format!("`{other}` is none of {KINDS}"));
            None
        }
    }
}

/// A tool of kind `grpc`, and the schema that its descriptor set brings.
fn service(
    tool: &config::Tool,
    at: &str,
    around: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<(Schema, Kind)> {
    if tool.kind != "grpc" {
        return None;
    }
    only("grpc", tool, at, problems);
    no_schema(tool, at, problems);
    let (schema, grpc) = super::grpc::check(tool, at, around, problems)?;
    Some((schema, Kind::Grpc(Box::new(grpc))))
}

/// Kinds whose arguments are what they reach bring the schema themselves.
fn no_schema(tool: &config::Tool, at: &str, problems: &mut Problems) {
    let schemas = [
        ("input_schema", tool.input_schema.is_some()),
        ("input_schema_file", tool.input_schema_file.is_some()),
    ];
    for (name, _) in schemas.iter().filter(|(_, given)| *given) {
        let message = format!("means nothing for kind `{}`", tool.kind);
        problems.add(format!("{at}.{name}"), message);
    }
}

fn database(
    tool: &config::Tool,
    at: &str,
    around: &Surroundings<'_>,
    timeout_ms: u64,
    problems: &mut Problems,
) -> Option<Kind> {
    only("sql", tool, at, problems);
    no_schema(tool, at, problems);
    sql::check(tool, at, around, timeout_ms, problems).map(Box::new).map(Kind::Sql)
}

/// Whatever belongs to another kind than this section's means nothing.
fn only(section: &str, tool: &config::Tool, at: &str, problems: &mut Problems) {
    let given = [
        ("http", tool.http.is_some()),
        ("file", tool.file.is_some()),
        ("model", tool.model.is_some()),
        ("command", tool.command.is_some()),
        ("sql", tool.sql.is_some()),
        ("fetch", tool.fetch.is_some()),
        ("grpc", tool.grpc.is_some()),
        ("credentials", !tool.credentials.is_empty()),
    ];
    for (name, _) in given.iter().filter(|(name, given)| *given && *name != section) {
        // A command says where its own belong.
        if *name != "credentials" || !["http", "fetch", "command", "grpc"].contains(&section) {
            let kind = &tool.kind;
            problems.add(format!("{at}.{name}"), format!("means nothing for kind `{kind}`"));
        }
    }
}

#[cfg(test)]
mod tests;
