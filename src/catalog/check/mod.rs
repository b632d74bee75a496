//! From `tools:` as it was written to bindings, or to everything that is wrong with it.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use zeroize::Zeroizing;

use super::binding::Binding;
use super::config::Config;
use super::definition::{self, Effective};
use super::read_back::{self, ReadBack};
use super::roles::StatedRoles;
use super::schema::{SCHEMA_BYTES_MAX, Schema};
use super::{ConfigError, Kind, Problems, Tool, configurable};
use crate::crypto::private;
use crate::domain::effect::ToolKind;
use crate::domain::id::ToolName;
use crate::domain::tier::Tier;
use crate::identity::client_tools::is_reserved;

pub(super) const TIMEOUT_MS: u64 = 30_000;
pub(super) const TIMEOUT_MS_MAX: u64 = 600_000;
/// An answer that comes in pieces may take this long, unless the tool says otherwise.
const STREAM_TIMEOUT_MS: u64 = 3_600_000;
const STREAM_TIMEOUT_MS_MAX: u64 = 14_400_000;
/// And may have as many bytes.
const STREAM_BYTES: u64 = 64 << 20;
pub(super) const DEDUPE_MS_MAX: u64 = 600_000;
pub(super) const RESULT_BYTES: u64 = 1 << 20;
pub(super) const RESULT_BYTES_MAX: u64 = 8 << 20;
/// A billion dollars.
pub(super) const COST_MICRO_USD_MAX: u64 = 1_000_000_000_000_000;
const DESCRIPTION_BYTES_MAX: usize = 16 * 1024;
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
    #[error("`{}` contains a file that holds a credential", .0.display())]
    Credential(PathBuf),
    #[error("`{}` overlaps `{}`, which no tool may read", .0.display(), .1.display())]
    Overlap(PathBuf, PathBuf),
    /// From and to.
    #[error("is {0} to {1}")]
    Range(u64, u64),
    #[error("`{0}` is not one of `T0`, `T1`, `T2`, `T3`")]
    Tier(String),
    #[error("`{0}` is not one of {all}", all = kinds())]
    Kind(String),
}

/// What a configuration is checked against: the one way it reaches files and the environment.
pub struct Surroundings<'a> {
    /// Directory that relative paths start from.
    pub base_dir: &'a Path,
    /// The environment, read once per reference.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// What no tool may read: the sidecar's own state, its policy, and credentials of servers.
    pub forbidden: &'a [PathBuf],
    /// Other files of the sidecar's own, its configuration, keys, tokens and manifests: for tools
    /// that do not check each path against them, as file tools do.
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

    /// Whether a tool may get this path, canonical: it must neither contain nor lie in a path of
    /// the sidecar, a path of the system or one of these secrets.
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

/// Checks that this path, canonical, neither equals nor contains one of these, nor lies in one.
fn overlaps_none<'a>(path: &Path, others: impl Iterator<Item = &'a Path>) -> Result<(), Error> {
    for other in others {
        let other = other.canonicalize().unwrap_or_else(|_| other.to_owned());
        if path.starts_with(&other) || other.starts_with(path) || leads_to(path, &other) {
            return Err(Error::Overlap(path.to_owned(), other));
        }
    }
    Ok(())
}

/// Whether `path` is, under whatever name, a directory above `inner` or the thing itself. It
/// compares inodes, since the same directory may be mounted elsewhere under another name.
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
    pub fn check(self, surroundings: &Surroundings<'_>) -> Result<Vec<Binding>, Vec<ConfigError>> {
        let (mut bindings, mut problems) = (Vec::new(), Vec::new());
        for one in self.check_each(surroundings) {
            match one.checked {
                Ok(binding) => bindings.push(binding),
                Err(more) => problems.extend(more),
            }
        }
        if problems.is_empty() { Ok(bindings) } else { Err(problems) }
    }

    /// As [`Self::check`], each tool by itself and in the order of the list: an error in one does
    /// not hide the state of the others.
    pub fn check_each(self, surroundings: &Surroundings<'_>) -> Vec<Checked> {
        let mut names = BTreeSet::new();
        let secrets = self.secret_files(surroundings);
        let mut all = Vec::new();
        for (i, tool) in self.0.iter().enumerate() {
            let mut problems = Problems::default();
            let at = format!("tools[{i}]");
            if !names.insert(tool.name.as_str()) {
                problems.add(format!("{at}.name"), format!("`{}` is bound twice", tool.name));
            }
            let binding = binding(tool, &at, surroundings, &secrets, &mut problems);
            let checked = match binding {
                Some(binding) if problems.0.is_empty() => Ok(binding),
                Some(_) | None => Err(problems.0),
            };
            all.push(Checked { name: tool.name.clone(), kind: tool.kind.clone(), checked });
        }
        read_back::check_all(&mut all);
        all
    }

    /// Files with secrets of tools, canonical: no server gets one, and no root may contain one.
    pub fn secret_files(&self, surroundings: &Surroundings<'_>) -> Vec<PathBuf> {
        let own = self.0.iter().flat_map(|tool| &tool.credentials);
        let own = own.filter_map(|one| one.file.as_deref());
        let sections = self.0.iter().flat_map(|tool| configurable().map(|kind| tool.section(kind)));
        let named = sections.flatten().flat_map(|section| section.secret_files());
        own.chain(named)
            .filter_map(|file| surroundings.base_dir.join(file).canonicalize().ok())
            .collect()
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

/// One tool as the operator wrote it, its place, and the surroundings of its check.
#[derive(Clone, Copy)]
pub(super) struct Draft<'a> {
    pub tool: &'a Tool,
    pub kind: ToolKind,
    /// `tools[0]`.
    pub at: &'a str,
    pub surroundings: &'a Surroundings<'a>,
    /// Files that hold secrets, canonical.
    pub secrets: &'a [PathBuf],
}

impl Draft<'_> {
    /// The schema that is written, or else the kind's own. A kind without one needs a written one.
    pub fn schema(&self, own: Option<&[u8]>, problems: &mut Problems) -> Option<Schema> {
        schema(self.tool, own, self.at, self.surroundings, problems)
    }

    /// Reports a written schema: this kind derives its own.
    pub fn no_schema(&self, problems: &mut Problems) {
        let schemas = [
            ("input_schema", self.tool.input_schema.is_some()),
            ("input_schema_file", self.tool.input_schema_file.is_some()),
        ];
        problems.foreign(self.at, schemas, &format!("means nothing for kind `{}`", self.kind));
    }

    /// Milliseconds that a call may take after it was permitted.
    pub fn timeout_ms(&self) -> u64 {
        bounded(self.tool.timeout_ms, TIMEOUT_MS, TIMEOUT_MS_MAX).unwrap_or(TIMEOUT_MS)
    }

    fn check(&self, problems: &mut Problems) -> Option<(Schema, Kind)> {
        let mine = section(self.kind);
        let others = configurable().filter(|kind| self.tool.section(*kind).is_some());
        let others: BTreeSet<_> = others.map(section).filter(|name| *name != mine).collect();
        others.iter().for_each(|name| self.foreign(name, problems));
        let Some(section) = self.tool.section(self.kind) else {
            let message = format!("a tool of kind `{}` needs it", self.kind);
            problems.add(format!("{}.{mine}", self.at), message);
            return None;
        };
        if !self.tool.credentials.is_empty() && !section.takes_credentials() {
            self.foreign("credentials", problems);
        }
        section.check(self, problems)
    }

    /// Says that a field belongs to another kind.
    fn foreign(&self, field: &str, problems: &mut Problems) {
        let message = format!("means nothing for kind `{}`", self.kind);
        problems.add(format!("{}.{field}", self.at), message);
    }
}

/// The name of the section of a kind.
fn section(kind: ToolKind) -> &'static str {
    let kind = kind.as_str();
    kind.split_once('.').map_or(kind, |(section, _)| section)
}

/// The kind that is written.
fn kind(text: &str) -> Result<ToolKind, Error> {
    configurable().find(|kind| kind.as_str() == text).ok_or_else(|| Error::Kind(text.to_owned()))
}

/// `` `http`, `fetch`, … ``
fn kinds() -> String {
    configurable().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(", ")
}

fn binding(
    tool: &Tool,
    at: &str,
    surroundings: &Surroundings<'_>,
    secrets: &[PathBuf],
    problems: &mut Problems,
) -> Option<Binding> {
    let name = ToolName::parse(&tool.name)
        .ok_or_else(|| format!("`{}` is not [A-Za-z0-9_.-]{{1,128}}", tool.name));
    let name = problems.take(&format!("{at}.name"), name);
    if is_reserved(&tool.name) {
        let message = "names that begin with `client.` are those of tools that agents run themselves; choose another";
        problems.add(format!("{at}.name"), message);
    }
    if tool.description.trim().is_empty() || tool.description.len() > DESCRIPTION_BYTES_MAX {
        let message = format!("a description has 1 to {DESCRIPTION_BYTES_MAX} bytes");
        problems.add(format!("{at}.description"), message);
    }
    let checked = match problems.take(&format!("{at}.kind"), kind(&tool.kind)) {
        Some(kind) => Draft { tool, kind, at, surroundings, secrets }.check(problems),
        None => schema(tool, None, at, surroundings, problems).and(None),
    };
    let tier = tool.tier.as_deref().map_or(Ok(Tier::T3), tier);
    let tier = problems.take(&format!("{at}.tier"), tier);
    let streams = tool.model.as_ref().is_some_and(|model| !model.faces.is_empty());
    let (timeouts, sizes) = match streams {
        true => ((STREAM_TIMEOUT_MS, STREAM_TIMEOUT_MS_MAX), (STREAM_BYTES, STREAM_BYTES)),
        false => ((TIMEOUT_MS, TIMEOUT_MS_MAX), (RESULT_BYTES, RESULT_BYTES_MAX)),
    };
    let timeout = bounded(tool.timeout_ms, timeouts.0, timeouts.1);
    let timeout = problems.take(&format!("{at}.timeout_ms"), timeout);
    let bytes = bounded(tool.result_bytes_max, sizes.0, sizes.1);
    let bytes = problems.take(&format!("{at}.result_bytes_max"), bytes);
    let cost_micro_usd = problems.take(&format!("{at}.cost_micro_usd"), cost(tool.cost_micro_usd));
    let dedupe = problems.take(&format!("{at}.dedupe_ms"), dedupe(tool.dedupe_ms));
    let roles = StatedRoles::read(tool.taint.as_ref(), at, problems);
    let read_back = tool.read_back.as_ref().map(ReadBack::of).transpose();
    let read_back = problems.take(&format!("{at}.read_back"), read_back);
    let (name, (schema, kind)) = (name?, checked?);
    let (tier, timeout_ms, result_bytes_max, cost_micro_usd, dedupe) =
        (tier?, timeout?, bytes?, cost_micro_usd?, dedupe?);
    let read_back = read_back?.map(Arc::new);
    let shown = definition::shown(&name, &tool.description, &schema);
    let effective = Effective {
        tier,
        read_only: tool.read_only,
        idempotent: tool.idempotent,
        timeout: Duration::from_millis(timeout_ms),
        result_bytes_max,
        cost_micro_usd,
        dedupe,
        roles,
        read_back: read_back.clone(),
    };
    Some(Binding {
        definition: effective.digest(&shown, &kind),
        shown: None,
        name,
        description: tool.description.clone(),
        schema,
        roles: roles.over(&kind),
        stated: roles,
        kind,
        tier,
        read_only: tool.read_only,
        idempotent: tool.idempotent,
        timeout: effective.timeout,
        result_bytes_max,
        cost_micro_usd,
        dedupe,
        read_back,
    })
}

/// What one call costs, if the operator states it.
pub(super) fn cost(given: Option<u64>) -> Result<Option<u64>, Error> {
    match given {
        Some(cost) if cost > COST_MICRO_USD_MAX => Err(Error::Range(0, COST_MICRO_USD_MAX)),
        Some(_) | None => Ok(given),
    }
}

/// For how long the same call under another id is the first one, if the operator states it.
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
    tool: &Tool,
    own: Option<&[u8]>,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<Schema> {
    match (&tool.input_schema, &tool.input_schema_file, own) {
        (Some(value), None, _) => {
            let schema = Schema::parse(value.to_string().as_bytes());
            problems.take(&format!("{at}.input_schema"), schema)
        }
        (None, Some(file), _) => {
            let most = u64::try_from(SCHEMA_BYTES_MAX).unwrap_or(u64::MAX);
            let at = format!("{at}.input_schema_file");
            let text = problems.take(&at, surroundings.read(file, most))?;
            problems.take(&at, Schema::parse(&text))
        }
        (Some(_), Some(_), _) => {
            problems.add(at, "give one of `input_schema` and `input_schema_file`");
            None
        }
        (None, None, Some(own)) => problems.take(at, Schema::parse(own)),
        (None, None, None) => {
            problems.add(format!("{at}.input_schema"), "is missing");
            None
        }
    }
}

#[cfg(test)]
mod tests;
