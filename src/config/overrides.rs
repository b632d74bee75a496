//! `WICKETGATE__SECTION__FIELD`: single values from the environment, in place of the file's.

use std::collections::BTreeMap;

use serde_json::Value;

const PREFIX: &str = "WICKETGATE__";

/// The field of each variable: name, dotted key, JSON pointer, type.
fn fields(schema: &Value) -> Vec<(String, String, String, String)> {
    let mut found = Vec::new();
    let mut open = vec![(Vec::<String>::new(), schema)];
    while let Some((path, schema)) = open.pop() {
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, schema) in properties {
                let mut path = path.clone();
                path.push(name.clone());
                open.push((path, schema));
            }
            continue;
        }
        let types = schema.get("type");
        let kind = types.and_then(Value::as_str).or_else(|| types?.get(0)?.as_str());
        // Lists and maps have no single value.
        if let Some(kind @ ("string" | "integer" | "boolean")) = kind {
            let name = format!("{PREFIX}{}", path.join("__").to_uppercase());
            found.push((name, path.join("."), format!("/{}", path.join("/")), kind.to_owned()));
        }
    }
    found.sort();
    found
}

/// Every variable that is read, sorted.
pub fn names() -> Vec<String> {
    fields(&super::schema()).into_iter().map(|(name, ..)| name).collect()
}

/// Of these variable names, the misspelled ones: they look like overrides and match none.
pub fn stray(present: impl Iterator<Item = String>) -> Vec<String> {
    let known = names();
    present.filter(|name| name.starts_with(PREFIX) && !known.contains(name)).collect()
}

/// Puts the variables of the environment into the value; returns which dotted keys came from which
/// variable.
pub(super) fn apply(
    value: &mut Value,
    schema: &Value,
    env: &dyn Fn(&str) -> Option<String>,
) -> BTreeMap<String, String> {
    let mut overridden = BTreeMap::new();
    for (name, key, pointer, kind) in fields(schema) {
        let Some(text) = env(&name) else { continue };
        // A text that is neither a number nor a truth value stays text, and the schema reports it
        // under this name.
        let read = match kind.as_str() {
            "integer" => text.parse::<i64>().map_or_else(|_| text.clone().into(), Value::from),
            "boolean" => text.parse::<bool>().map_or_else(|_| text.clone().into(), Value::from),
            _ => Value::from(text),
        };
        super::complete::set(value, &pointer, read);
        overridden.insert(key, name);
    }
    overridden
}
