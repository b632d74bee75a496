//! The gate's own files: no tool gets them, even where a root contains them.

use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::{Map, Value};

use super::Config;
use super::archive::Archived;
use crate::catalog::{self, Binding, Surroundings, server};
use crate::crypto::files::beside;
use crate::identity::templates;

/// Tells every root which files are the gate's own.
pub(super) fn shield(config: &Config, mut bindings: Vec<Binding>) -> Vec<Binding> {
    let own = files(config);
    for binding in &mut bindings {
        if let Some(root) = binding.kind.root_mut() {
            root.own.clone_from(&own);
        }
    }
    bindings
}

/// What no tool may read: state, policy, and files of secrets that are not the tool's own.
pub(super) fn forbidden(config: &Config, servers: &server::config::Config) -> Vec<PathBuf> {
    let mut all = vec![config.state.clone()];
    all.extend(config.policy.bundle.clone());
    all.extend(servers.secret_files(&config.base));
    all.extend(config.own_secrets());
    all
}

/// What no server in a sandbox may read or write: the same, secrets of tools, and every file that
/// configures the gate.
pub(super) fn kept_from_servers(config: &Config, servers: &server::config::Config) -> Vec<PathBuf> {
    let mut all = forbidden(config, servers);
    if let Ok(tools) = catalog::Config::deserialize(Value::Array(config.tools.clone())) {
        let env = |_: &str| None;
        let surroundings =
            Surroundings { base_dir: &config.base, env: &env, forbidden: &[], own: &[] };
        all.extend(tools.secret_files(&surroundings));
    }
    all.extend(of_the_gate(config));
    all
}

/// Every file that configures the gate, and those of its keys and tokens.
pub(super) fn of_the_gate(config: &Config) -> Vec<PathBuf> {
    // The servers' own files, programs and arguments, are theirs.
    files(&Config { servers: Vec::new(), ..config.clone() })
}

/// What no agent may change: the gate's own files, and the directories of its sockets.
pub fn closed(config: &Config) -> Vec<PathBuf> {
    let sockets = config.sockets();
    let own = files(config).into_iter().filter(|path| !sockets.contains(path));
    own.chain(sockets.iter().filter_map(|path| path.parent().map(Path::to_owned))).collect()
}

/// The `stdio` of each server.
fn stdio(servers: &mut Value) -> impl Iterator<Item = &mut Map<String, Value>> {
    let servers = servers.as_array_mut().into_iter().flatten();
    servers.filter_map(|server| server.get_mut("stdio")?.as_object_mut())
}

/// The configuration, everything outside of `tools` that it names by an absolute path, the
/// signature beside each, and the templates beside each manifest.
fn files(config: &Config) -> Vec<PathBuf> {
    let archived = config.archived.iter().flat_map(Archived::files);
    let mut own: Vec<PathBuf> = config.file.iter().cloned().chain(archived).collect();
    if let Ok(Value::Object(mut all)) = serde_json::to_value(config) {
        all.remove("tools");
        // The servers' own files are not the gate's.
        for stdio in all.get_mut("servers").into_iter().flat_map(stdio) {
            stdio.remove("sandbox");
        }
        named(&Value::Object(all), &mut own);
    }
    let signatures: Vec<PathBuf> = own.iter().map(|path| beside(path, ".sig.json")).collect();
    own.extend(signatures);
    own.extend(config.agents.iter().flat_map(|agent| templates::files(&agent.manifest)));
    own
}

fn named(value: &Value, own: &mut Vec<PathBuf>) {
    match value {
        Value::String(text) if Path::new(text).is_absolute() => own.push(text.into()),
        Value::Array(items) => items.iter().for_each(|item| named(item, own)),
        Value::Object(members) => members.values().for_each(|member| named(member, own)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
