//! The files of a container, checked on a machine that is not the container: below a directory, or in
//! the values of the Helm chart.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::list::CheckSection;
use super::scratch::Scratch;
use crate::cli::config::with_variables;
use crate::cli::error::FileError;
use crate::config::archive::{ArchiveSource, SignedArchive, SignedArchiveError};
use crate::config::{self, Config};
use crate::yaml;

/// Where the chart mounts the files of `gate.files` and `hub.files`.
const FILES: &str = "/etc/wicketgate";
/// Where a gate or a hub of the chart lays out the files of its archive.
const LAID: &str = "/var/lib/wicketgate/configuration/current";
/// Where the chart mounts Secrets.
const SECRETS: &str = "/run/secrets";
/// The gate and the hub: their section of the values, and their configuration in it.
const PARTS: [(&str, &str); 2] = [("gate", "wicketgate.yaml"), ("hub", "hub.yaml")];

/// Where the files of a container lie on this machine.
#[derive(clap::Args, Debug)]
pub(super) struct ContainerArgs {
    /// Check the files of a container that lie below this directory: an absolute path is looked up there
    #[arg(long, value_name = "DIR", conflicts_with_all = ["chart", "set_file", "as_agent", "pre"])]
    root: Option<PathBuf>,
    /// Check the files in these values of the Helm chart, and not `--config`; a later file of values overrides an earlier one
    #[arg(long, value_name = "VALUES", conflicts_with_all = ["as_agent", "pre"])]
    chart: Vec<PathBuf>,
    /// Put the text of a file into the values of the chart, as `helm install --set-file` does
    #[arg(long, value_name = "KEY=FILE", conflicts_with_all = ["as_agent", "pre"])]
    set_file: Vec<String>,
}

/// Why the files cannot be laid out.
#[derive(Debug, thiserror::Error)]
pub(super) enum ContainerError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{0}")]
    Yaml(#[from] yaml::Error),
    #[error(
        "--set-file `{0}`: expected KEY=FILE, such as `gate.files.wicketgate\\.yaml=wicketgate.yaml`"
    )]
    Pair(String),
    #[error("`{0}`: expected a mapping of values")]
    Values(String),
    #[error(
        "the values name no `gate.files.\"wicketgate.yaml\"` and no `hub.files.\"hub.yaml\"`: add `--set-file gate.files.wicketgate\\.yaml=FILE`"
    )]
    NoConfiguration,
    #[error("`{part}.files.{path}`: expected the text of a file at a path below `{FILES}`")]
    Entry { part: &'static str, path: String },
    #[error("{0}.archive: {1}")]
    Archive(&'static str, SignedArchiveError),
    #[error(
        "{0}.archive: these values do not hold the archive; check the file with `wicketgate check --config-archive FILE --archive-key KEY`"
    )]
    NoArchive(&'static str),
}

/// The files of a container, and what it says in variables.
pub(super) struct Container {
    root: PathBuf,
    config: PathBuf,
    /// The container's variables; none of a directory, whose container says nothing about them.
    variables: Option<BTreeMap<String, String>>,
    /// What only the cluster knows: directories by path, variables by name.
    elsewhere: Vec<String>,
    /// Holds the files, if they were laid out for this check.
    _made: Option<Scratch>,
}

impl Container {
    /// The container that these arguments mean; none if they mean this machine.
    pub(super) fn of(args: &ContainerArgs, config: &Path) -> Result<Option<Self>, ContainerError> {
        if let Some(root) = &args.root {
            let root = root.canonicalize().map_err(FileError::at(root))?;
            let (config, elsewhere) = (config.to_owned(), vec![SECRETS.to_owned()]);
            return Ok(Some(Self { root, config, variables: None, elsewhere, _made: None }));
        }
        if args.chart.is_empty() && args.set_file.is_empty() {
            return Ok(None);
        }
        let mut values = Value::Object(serde_json::Map::new());
        for file in &args.chart {
            let bytes = std::fs::read(file).map_err(FileError::at(file))?;
            let read: Value = yaml::from_slice(&bytes, &file.display().to_string())?;
            match read {
                Value::Null => {}
                Value::Object(_) => merge(&mut values, read),
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    return Err(ContainerError::Values(file.display().to_string()));
                }
            }
        }
        for pair in &args.set_file {
            set_file(&mut values, pair)?;
        }
        Self::chart(&values).map(Some)
    }

    fn chart(values: &Value) -> Result<Self, ContainerError> {
        for (part, file) in PARTS {
            let Some(of) = values.get(part) else { continue };
            if let Some(archive) = of.get("archive").filter(|archive| is_set(archive)) {
                return Self::archived((part, file), of, archive);
            }
            if of.get("files").is_some_and(|files| files.get(file).is_some()) {
                return Self::laid(part, of, &Path::new(FILES).join(file));
            }
        }
        Err(ContainerError::NoConfiguration)
    }

    /// The container of these values, with the files of `files`; this is its configuration.
    fn laid(part: &'static str, of: &Value, config: &Path) -> Result<Self, ContainerError> {
        let made = Scratch::new()?;
        let root = made.path().to_owned();
        let (variables, elsewhere) = (Some(variables(part, of)), elsewhere(of));
        let config = within(&root, config);
        let container = Self { root, config, variables, elsewhere, _made: Some(made) };
        for (path, text) in of.get("files").and_then(Value::as_object).into_iter().flatten() {
            container.write(part, path, text)?;
        }
        Ok(container)
    }

    /// The container whose configuration is in the archive of these values.
    fn archived(
        (part, config): (&'static str, &str),
        of: &Value,
        archive: &Value,
    ) -> Result<Self, ContainerError> {
        let text = |name: &str| archive.get(name).and_then(Value::as_str).unwrap_or_default();
        if text("text").is_empty() {
            return Err(ContainerError::NoArchive(part));
        }
        let container = Self::laid(part, of, &Path::new(LAID).join(config))?;
        let [file, key] = ["config.archive", "archive.pub"].map(|name| container.root.join(name));
        for (path, name) in [(&file, "text"), (&key, "publicKey")] {
            std::fs::write(path, text(name)).map_err(FileError::at(path))?;
        }
        let source = ArchiveSource { file, keys: vec![key], config: config.into() };
        let archive =
            SignedArchive::open(&source).map_err(|why| ContainerError::Archive(part, why))?;
        for (name, bytes) in archive.files() {
            container.put(&Path::new(LAID).join(name), bytes)?;
        }
        Ok(container)
    }

    fn write(&self, part: &'static str, path: &str, text: &Value) -> Result<(), ContainerError> {
        let plain = |part: &str| !part.is_empty() && part != "." && part != "..";
        let text = text.as_str().filter(|_| path.split('/').all(plain));
        let text = text.ok_or_else(|| ContainerError::Entry { part, path: path.to_owned() })?;
        self.put(&Path::new(FILES).join(path), text.as_bytes())
    }

    /// Writes a file of the container.
    fn put(&self, path: &Path, bytes: &[u8]) -> Result<(), ContainerError> {
        let file = within(&self.root, path);
        if let Some(above) = file.parent() {
            std::fs::create_dir_all(above).map_err(FileError::at(above))?;
        }
        Ok(std::fs::write(&file, bytes).map_err(FileError::at(&file))?)
    }

    /// The configuration, read as the container reads it.
    pub(super) fn loaded(&self) -> Result<Config, Vec<String>> {
        let names = self.variables.iter().flatten().map(|(name, _)| name.clone());
        let look = |name: &str| match &self.variables {
            Some(variables) => variables.get(name).cloned(),
            None => config::environment(name),
        };
        with_variables(names, Config::load_below(&self.root, &self.config, &look))
    }

    /// The configuration file.
    pub(super) fn config(&self) -> &Path {
        &self.config
    }

    /// The section as the container would say it. What only the cluster knows is skipped.
    pub(super) fn told(&self, section: CheckSection) -> CheckSection {
        let root = self.root.display().to_string();
        let unknown = |text: &str| self.elsewhere.iter().any(|place| is_named(text, place));
        section.told(&|text| text.replace(&root, ""), &|text| {
            unknown(text).then(|| format!("not checked here, it is the cluster's: {text}"))
        })
    }
}

/// Where a path of the container is below its root.
fn within(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Whether the values name an archive.
fn is_set(archive: &Value) -> bool {
    let text = archive.get("text").and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    text || archive.get("volume").and_then(Value::as_object).is_some_and(|of| !of.is_empty())
}

/// What the chart sets, and after it what the owner sets. The value of one that comes from the cluster
/// is not known here.
fn variables(part: &str, of: &Value) -> BTreeMap<String, String> {
    let mut variables =
        BTreeMap::from([("WICKETGATE__STATE".to_owned(), "/var/lib/wicketgate".to_owned())]);
    if part == "gate" {
        let socket = "/run/wicketgate/agent.sock".to_owned();
        variables.insert("WICKETGATE__LISTEN__SOCKET".to_owned(), socket);
    }
    for one in of.get("env").and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| one.get(name).and_then(Value::as_str);
        if let Some(name) = text("name") {
            let value = text("value").unwrap_or("from the cluster");
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    variables
}

fn elsewhere(of: &Value) -> Vec<String> {
    let mounts = of.get("volumeMounts").and_then(Value::as_array).into_iter().flatten();
    let mounts = mounts.filter_map(|mount| mount.get("mountPath")?.as_str().map(str::to_owned));
    let given = of.get("env").and_then(Value::as_array).into_iter().flatten();
    let given = given.filter_map(|one| one.get("name")?.as_str().map(|name| format!("`{name}`")));
    [SECRETS.to_owned()].into_iter().chain(mounts).chain(given).collect()
}

/// Whether a text names this, or what is below it; `/data` is not in `/database`.
fn is_named(text: &str, place: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    let place = place.trim_end_matches('/');
    let ends = text.match_indices(place).map(|(at, _)| at.saturating_add(place.len()));
    let mut rest = ends.filter_map(|end| text.get(end..));
    !place.is_empty() && rest.any(|rest| !rest.starts_with(goes_on))
}

/// Puts the later values over the earlier ones, mapping by mapping.
fn merge(into: &mut Value, later: Value) {
    match (into, later) {
        (Value::Object(into), Value::Object(later)) => {
            for (name, value) in later {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, later) => *into = later,
    }
}

/// `gate.files.agent\.yaml=agent.yaml`: dots part the names, but for those behind a backslash.
fn set_file(values: &mut Value, pair: &str) -> Result<(), ContainerError> {
    let wrong = || ContainerError::Pair(pair.to_owned());
    let (key, file) = pair.split_once('=').ok_or_else(wrong)?;
    let mut names = vec![String::new()];
    let mut signs = key.chars();
    while let Some(sign) = signs.next() {
        match (sign, names.last_mut()) {
            ('.', _) => names.push(String::new()),
            ('\\', Some(name)) => name.extend(signs.next()),
            (other, Some(name)) => name.push(other),
            (_, None) => return Err(wrong()),
        }
    }
    if file.is_empty() || names.iter().any(String::is_empty) {
        return Err(wrong());
    }
    let text = std::fs::read_to_string(file).map_err(FileError::at(Path::new(file)))?;
    let nested = names.into_iter().rev().fold(Value::from(text), |inner, name| {
        Value::Object(serde_json::Map::from_iter([(name, inner)]))
    });
    merge(values, nested);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_cluster_mounts_is_the_clusters() {
        for (text, place, named) in [
            ("`/data/x` is missing", "/data", true),
            ("`/data` is missing", "/data/", true),
            ("`/database/x` is missing", "/data", false),
            ("`/data-2` is missing", "/data", false),
            ("`/etc/wicketgate/x` is missing", "/", false),
            ("`API_KEY` is not set", "`API_KEY`", true),
        ] {
            assert_eq!(is_named(text, place), named, "{text}: {place}");
        }
    }
}
