//! Makes a document complete: overrides, defaults, and paths relative to the file.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::catalog::form::paths;
use crate::crypto::signer::AGENT;

/// Adds the values that the file omits: the schema's defaults, and paths below the state directory.
pub(super) fn complete(value: &mut Value, schema: &Value, env: &dyn Fn(&str) -> Option<String>) {
    defaults(value, schema);
    if value.get("state").is_none() {
        let home = || env("HOME").map(|home| format!("{home}/.local/state"));
        let base = env("XDG_STATE_HOME").filter(|dir| dir.starts_with('/')).or_else(home);
        if let Some(base) = base {
            set(value, "/state", Value::from(format!("{base}/wicketgate")));
        }
    }
    issuers(value);
    let servers = value.get("servers").and_then(Value::as_array).is_some_and(|s| !s.is_empty());
    if servers && value.get("lock").is_none_or(Value::is_null) {
        set(value, "/lock", Value::from("tools.lock"));
    }
    let Some(state) = value.get("state").and_then(Value::as_str).map(str::to_owned) else { return };
    let below = |name: &str| Value::from(format!("{state}/{name}"));
    if value.pointer("/listen/socket").is_none() {
        set(value, "/listen/socket", below("agent.sock"));
    }
    if value.get("ledger").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty) {
        set(value, "/ledger", serde_json::json!({"sqlite": {}}));
    }
    if value.pointer("/ledger/sqlite").is_some_and(|sqlite| sqlite.get("path").is_none()) {
        set(value, "/ledger/sqlite/path", below("ledger.sqlite"));
    }
    if value.pointer("/control/switch_file").is_none() {
        set(value, "/control/switch_file", below("switch"));
    }
    if value.pointer("/ledger/postgres").is_some_and(|postgres| postgres.get("spool").is_none()) {
        set(value, "/ledger/postgres/spool", below("spool"));
    }
}

/// Operators who log in at an issuer are named by that of the console.
fn issuers(value: &mut Value) {
    let Some(issuer) = value.pointer("/console/oidc/issuer").cloned() else { return };
    let operators = value.get_mut("operators").and_then(Value::as_array_mut);
    let people = operators.into_iter().flatten().filter_map(|one| one.get_mut("oidc"));
    for person in people.filter_map(Value::as_object_mut) {
        person.entry("issuer").or_insert_with(|| issuer.clone());
    }
}

/// The defaults of a schema, for every object that is there or has a default of its own.
pub(super) fn defaults(value: &mut Value, schema: &Value) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let Some(members) = value.as_object_mut() else { return };
    for (name, schema) in properties {
        if let (false, Some(default)) = (members.contains_key(name), schema.get("default")) {
            members.insert(name.clone(), default.clone());
        }
        if let Some(member) = members.get_mut(name) {
            defaults(member, schema);
        }
    }
}

/// Sets the value at a pointer, and makes the objects on the way; it leaves another value on the
/// way alone.
pub(super) fn set(value: &mut Value, pointer: &str, to: Value) {
    let (mut here, mut steps) = (value, pointer.split('/').skip(1).peekable());
    while let Some(step) = steps.next() {
        let Value::Object(members) = here else { return };
        if steps.peek().is_none() {
            members.insert(step.to_owned(), to);
            return;
        }
        here =
            members.entry(step.to_owned()).or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
}

/// Makes every path absolute. Tools and servers take theirs from the same directory themselves, when they are checked.
pub(super) fn resolve(value: &mut Value, schema: &Value, base: &Path) {
    each_path(value, schema, &|path| base.join(path));
}

/// Moves the absolute paths of a container to where its files lie on this machine. Whether a text of
/// a tool or a server is a path is seen by whether it names something there.
pub(super) fn below(value: &mut Value, schema: &Value, root: &Path) {
    let moved = |path: &str| root.join(path.trim_start_matches('/'));
    each_path(value, schema, &|path| match Path::new(path).starts_with(root) {
        true => path.into(),
        false => moved(path),
    });
    for name in APART {
        let Some(section) = value.get_mut(name) else { continue };
        each_text(section, &|text| {
            let place = text.starts_with('/').then(|| moved(text));
            if let Some(place) = place.filter(|place| place.exists()) {
                *text = place.display().to_string();
            }
        });
    }
}

/// Sections in which no schema says what is a path.
const APART: [&str; 2] = ["tools", "servers"];

fn each_text(value: &mut Value, each: &dyn Fn(&mut String)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(items) => items.iter_mut().for_each(|item| each_text(item, each)),
        Value::Object(members) => members.values_mut().for_each(|member| each_text(member, each)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn each_path(value: &mut Value, schema: &Value, place: &dyn Fn(&str) -> PathBuf) {
    let one = |path: &mut Value| {
        let Some(text) = path.as_str().filter(|text| !text.is_empty()) else { return };
        // The agent that holds a key is named by the file of its public half.
        *path = Value::from(match text.strip_prefix(AGENT) {
            Some(public) => format!("{AGENT}{}", place(public).display()),
            None => place(text).display().to_string(),
        });
    };
    let (Some(sections), Some(schemas)) = (value.as_object_mut(), schema.get("properties")) else {
        return;
    };
    for (name, section) in sections {
        let schema = schemas.get(name).filter(|_| !APART.contains(&name.as_str()));
        if let Some(schema) = schema {
            paths(section, schema, &one);
        }
    }
}
