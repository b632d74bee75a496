//! The gate's own files: what no tool is given, even where a root holds them.

use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::Config;
use crate::catalog::binding::{Binding, Kind};
use crate::catalog::{self, Surroundings, server};

/// Tells every root which files are the gate's own.
pub(super) fn shield(config: &Config, mut bindings: Vec<Binding>) -> Vec<Binding> {
    let own = files(config);
    for binding in &mut bindings {
        let root = match &mut binding.kind {
            Kind::FileRead(root) => root,
            Kind::FileList(listing) => &mut listing.root,
            Kind::FileWrite(writing) => &mut writing.root,
            Kind::Http(_)
            | Kind::Fetch(_)
            | Kind::Command(_)
            | Kind::Sql(_)
            | Kind::Grpc(_)
            | Kind::Model(_)
            | Kind::Mcp(_) => continue,
        };
        root.own.clone_from(&own);
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

/// What no server in a sandbox may read or write: the same, secrets of tools, and every file that says what the
/// gate is and does.
pub(super) fn kept_from_servers(config: &Config, servers: &server::config::Config) -> Vec<PathBuf> {
    let mut all = forbidden(config, servers);
    if let Ok(tools) = catalog::Config::deserialize(Value::Array(config.tools.clone())) {
        let env = |_: &str| None;
        let around = Surroundings { base_dir: &config.base, env: &env, forbidden: &[], own: &[] };
        all.extend(tools.secret_files(&around));
    }
    all.extend(of_the_gate(config));
    all
}

/// Every file that says what the gate is and does, and those of its keys and tokens.
pub(super) fn of_the_gate(config: &Config) -> Vec<PathBuf> {
    // The servers' own files, programs and arguments, are theirs.
    files(&Config { servers: Vec::new(), ..config.clone() })
}

/// What no agent may change: the gate's own files, and the directories of its sockets.
#[must_use]
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

/// The configuration, everything outside of `tools` that it names by an absolute path, and the
/// signature beside each.
fn files(config: &Config) -> Vec<PathBuf> {
    let mut own: Vec<PathBuf> = config.file.iter().cloned().collect();
    if let Ok(Value::Object(mut all)) = serde_json::to_value(config) {
        all.remove("tools");
        // What servers are given is not the gate's.
        for stdio in all.get_mut("servers").into_iter().flat_map(stdio) {
            stdio.remove("sandbox");
        }
        named(&Value::Object(all), &mut own);
    }
    let signatures: Vec<PathBuf> = own
        .iter()
        .map(|path| {
            let mut name = path.clone().into_os_string();
            name.push(".sig.json");
            name.into()
        })
        .collect();
    own.extend(signatures);
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

/// The part of the schema that is a server's sandbox.
pub(super) fn sandbox(path: &dyn Fn(&str) -> Value) -> Value {
    let paths = |text: &str| json!({"type": "array", "maxItems": 64, "items": path(text)});
    let number = |least: u64, most: u64, text: &str| {
        json!({"type": "integer", "minimum": least, "maximum": most, "description": text,
            "x-error": format!("expected a whole number from {least} to {most}")})
    };
    json!({"type": "object", "additionalProperties": false, "required": ["level"],
        "description": "what the program runs in; without it, or with `level: none`, it can do what the gate's user can",
        "properties": {
        "level": {"enum": ["none", "S1", "S2"], "x-error": "expected `none`, `S1` or `S2`"},
        "read": paths("may be read besides the system's programs and libraries"),
        "write": paths("may be read and changed"),
        "network": {"enum": ["none", "host"], "default": "none", "x-error": "expected `none` or `host`"},
        "hosts": {"type": "array", "maxItems": 64, "items": {"type": "string", "x-error": "expected HOST or HOST:PORT"},
            "description": "what it may connect to, by the gate's proxy in a network of its own, instead of `network`; needs S2"},
        "private_addresses": {"type": "array", "maxItems": 64, "items": {"type": "string", "x-error": "expected text"},
            "description": "ranges beyond the public Internet that `hosts` may lead to"},
        "programs": paths("a program that it may start itself; needs S2"),
        "memory_bytes": number(16 << 20, 64 << 30, "memory that each process may write to; default 1 GiB"),
        "pids": number(1, 1024, "processes and threads, in S2 or with control groups; default 128"),
        "cgroup": {"enum": ["available", "required"], "default": "available", "x-error": "expected `available` or `required`",
            "description": "whether control groups must hold the limits for all its processes together, or do where there are any"},
    }})
}
