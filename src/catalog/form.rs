//! JSON Schemas of the files that people write, made from the types that read these files.
//!
//! A field's description is its doc comment. Two keywords are ours. `x-error` is the message for a
//! value that breaks the schema; it is derived from the other keywords unless a field has one.
//! `x-null` says what `null` means; where neither a field nor anything above it has this keyword,
//! `null` is refused.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

/// The schema of a path of a file or directory, 1 to 4096 bytes.
#[derive(Debug)]
pub struct FilePath;

impl JsonSchema for FilePath {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "FilePath".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "path", "minLength": 1, "maxLength": 4096})
    }
}

/// The schema of an `http://` or `https://` URL with a host, at most 4096 bytes.
#[derive(Debug)]
pub struct WebAddress;

impl JsonSchema for WebAddress {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WebAddress".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^https?://[^/]", "maxLength": 4096,
            "x-error": "expected an http:// or https:// URL"})
    }
}

/// The JSON Schema (2020-12) of a file that is read into `T`, without references.
pub fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|all| all.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    tidy(&mut schema, false);
    schema
}

/// Applies `each` to every value that this schema calls a path.
pub fn paths(value: &mut Value, schema: &Value, each: &dyn Fn(&mut Value)) {
    if schema.get("format").is_some_and(|format| format == "path") {
        return each(value);
    }
    match value {
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            items.iter_mut().for_each(|item| paths(item, schema, each));
        }
        Value::Object(members) => {
            for (name, member) in members {
                let named = schema.get("properties").and_then(|all| all.get(name));
                if let Some(schema) = named.or_else(|| schema.get("additionalProperties")) {
                    paths(member, schema, each);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Makes a generated schema readable, and gives it a message for every error.
fn tidy(schema: &mut Value, nullable: bool) {
    let Some(members) = schema.as_object_mut() else { return };
    let nullable = nullable || members.contains_key("x-null");
    unwrap_option(members);
    merge_tagged(members);
    null(members, nullable);
    one_line(members);
    let variants = members.get_mut("oneOf").and_then(Value::as_array_mut);
    variants.into_iter().flatten().filter_map(Value::as_object_mut).for_each(one_line);
    // The widths of Rust's integers mean nothing to the author of a file.
    if members.get("format").and_then(Value::as_str).is_some_and(|name| name.starts_with("uint")) {
        members.remove("format");
    }
    default(members);
    if !members.contains_key("x-error")
        && let Some(text) = expected(members)
    {
        members.insert("x-error".to_owned(), text.into());
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(|field| tidy(field, nullable));
    }
    for below in ["items", "additionalProperties"] {
        if let Some(schema) = members.get_mut(below) {
            tidy(schema, nullable);
        }
    }
}

/// A doc comment has line breaks where its source has them.
fn one_line(members: &mut Map<String, Value>) {
    if let Some(Value::String(text)) = members.get_mut("description") {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
}

/// Optional enums and the like come as `anyOf` with `null`: takes the choice away, and leaves the type to [`null`].
fn unwrap_option(members: &mut Map<String, Value>) {
    let Some(Value::Array(either)) = members.get_mut("anyOf") else { return };
    if either.len() != 2 || either.get(1).and_then(|one| one.get("type")) != Some(&"null".into()) {
        return;
    }
    let Value::Object(inner) = either.swap_remove(0) else { return };
    members.remove("anyOf");
    for (name, value) in inner {
        members.entry(name).or_insert(value);
    }
}

/// Alternatives that are constants become one text. Alternatives that are objects of one member
/// each, as of `{sqlite: …}` or `{postgres: …}`, become one object, so that an error is about the
/// field that is wrong.
fn merge_tagged(members: &mut Map<String, Value>) {
    let Some(Value::Array(alternatives)) = members.get("oneOf") else { return };
    if alternatives.iter().all(|one| one.get("const").is_some()) {
        members.insert("type".to_owned(), "string".into());
        return;
    }
    let mut properties = Map::new();
    for one in alternatives {
        let Some(Value::Object(inner)) = one.get("properties") else { return };
        for (name, field) in inner {
            let mut field = field.clone();
            if let (Some(text), Some(field)) = (one.get("description"), field.as_object_mut()) {
                field.insert("description".to_owned(), text.clone());
            }
            properties.insert(name.clone(), field);
        }
    }
    members.remove("oneOf");
    let closed: [(&str, Value); 4] = [
        ("type", "object".into()),
        ("properties", properties.into()),
        ("additionalProperties", false.into()),
        ("maxProperties", 1.into()),
    ];
    members.extend(closed.map(|(name, value)| (name.to_owned(), value)));
}

/// Removes `null` from the types, unless the field gives `null` a meaning.
fn null(members: &mut Map<String, Value>, nullable: bool) {
    let Some(Value::Array(types)) = members.get_mut("type") else { return };
    if nullable {
        if let Some(Value::Array(values)) = members.get_mut("enum") {
            values.push(Value::Null);
        }
        return;
    }
    types.retain(|kind| kind != "null");
    if let [only] = types.as_slice() {
        let only = only.clone();
        members.insert("type".to_owned(), only);
    }
    if members.get("default").is_some_and(Value::is_null) {
        members.remove("default");
    }
}

/// Derives a section's default from its fields'. A non-empty text has no empty default.
fn default(members: &mut Map<String, Value>) {
    let has_fields = members.contains_key("properties");
    match members.get_mut("default") {
        Some(Value::Object(all)) if has_fields => all.clear(),
        Some(Value::String(text)) if text.is_empty() => drop(members.remove("default")),
        Some(_) | None => {}
    }
}

/// The values that a field may have, as they are written; empty if it may have others.
fn listed_values(members: &Map<String, Value>) -> Vec<&str> {
    let listed = members.get("enum").and_then(Value::as_array).into_iter().flatten();
    let described = members.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let described = described.filter_map(|one| one.get("const"));
    listed.chain(described).filter_map(Value::as_str).collect()
}

/// What a value that breaks the schema should have been.
fn expected(members: &Map<String, Value>) -> Option<String> {
    let number = |name: &str| members.get(name).and_then(Value::as_u64);
    let size = |least: &str, most: &str, unit: &str| match (number(least), number(most)) {
        (None | Some(0), None) => String::new(),
        (None | Some(0), Some(most)) => format!(" of at most {most} {unit}"),
        (Some(1), None) => " that is not empty".to_owned(),
        (Some(least), None) => format!(" of at least {least} {unit}"),
        (Some(least), Some(most)) => format!(" of {least} to {most} {unit}"),
    };
    let values: Vec<_> = listed_values(members).iter().map(|value| format!("`{value}`")).collect();
    let kind = members.get("type")?;
    let kind = kind.as_str().or_else(|| kind.get(0)?.as_str())?;
    let text = match (values.as_slice(), kind) {
        ([first @ .., last], _) if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        ([only], _) => only.clone(),
        (_, "boolean") => "`true` or `false`".to_owned(),
        (_, "integer") => match (number("minimum").unwrap_or(0), number("maximum")) {
            (least, Some(most)) => format!("a whole number from {least} to {most}"),
            (least, None) => format!("a whole number from {least}"),
        },
        (_, "string") => match members.get("pattern").and_then(Value::as_str) {
            Some(pattern) => format!("text that matches `{pattern}`"),
            None if members.get("format").is_some_and(|format| format == "path") => {
                "a path".to_owned()
            }
            None => format!("text{}", size("minLength", "maxLength", "characters")),
        },
        (_, "array") => {
            let unit =
                if members.contains_key("uniqueItems") { "different items" } else { "items" };
            format!("a list{}", size("minItems", "maxItems", unit))
        }
        (_, "object") => format!("a mapping{}", size("minProperties", "maxProperties", "fields")),
        _other => return None,
    };
    let or_null = if members.contains_key("x-null") && kind != "array" { ", or null" } else { "" };
    Some(format!("expected {text}{or_null}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use serde::{Deserialize, Serialize};
    use serde_json::json;

    use super::*;

    #[derive(Default, Deserialize, Serialize, JsonSchema)]
    #[serde(default, deny_unknown_fields)]
    struct File {
        /// Which one,
        /// and why.
        kind: Option<Kind>,
        /// Where it lies.
        #[schemars(with = "FilePath")]
        place: PathBuf,
        /// How many.
        #[schemars(range(max = 9), extend("x-null" = "as many as there are"))]
        count: Option<u64>,
        /// What else.
        #[schemars(with = "BTreeMap<String, Vec<FilePath>>")]
        more: BTreeMap<String, Vec<PathBuf>>,
        /// Where to.
        store: Store,
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        /// The first.
        One,
        /// The
        /// second.
        Two,
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(rename_all = "snake_case", deny_unknown_fields)]
    enum Store {
        /// Here.
        Here(Inner),
        /// There.
        There(Inner),
    }

    impl Default for Store {
        fn default() -> Self {
            Self::Here(Inner { on: true })
        }
    }

    #[derive(Deserialize, Serialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Inner {
        /// Whether.
        on: bool,
    }

    #[test]
    fn a_schema_is_plain_and_says_what_was_expected() {
        let schema = of::<File>();
        assert!(jsonschema::meta::is_valid(&schema), "{schema:#}");
        let field = |name: &str| schema["properties"][name].clone();
        let kind = field("kind");
        assert_eq!(kind["description"], "Which one, and why.");
        assert_eq!((&kind["type"], &kind["default"]), (&json!("string"), &Value::Null));
        assert_eq!(kind["x-error"], "expected `one` or `two`");
        assert_eq!(kind["oneOf"][1]["description"], "The second.");
        assert_eq!(field("place").get("default"), None);
        assert_eq!(field("place")["x-error"], "expected a path");
        assert_eq!(field("count")["x-error"], "expected a whole number from 0 to 9, or null");
        assert_eq!(field("count").get("format"), None);
        let store = field("store");
        assert_eq!((&store["maxProperties"], &store["default"]), (&json!(1), &json!({})));
        assert_eq!(store["properties"]["there"]["description"], "There.");
        for (value, fits) in [
            (json!({"kind": "one", "place": "a", "count": null, "more": {"x": ["a"]}}), true),
            (json!({"store": {"there": {"on": true}}}), true),
            (json!({"store": {"there": {"on": true}, "here": {"on": true}}}), false),
            (json!({"kind": null}), false),
            (json!({"kind": "three"}), false),
            (json!({"place": ""}), false),
            (json!({"count": 10}), false),
        ] {
            assert_eq!(jsonschema::is_valid(&schema, &value), fits, "{value}");
        }
    }

    #[test]
    fn paths_are_found_wherever_they_stand() {
        let mut value = json!({"place": "a", "kind": "b", "more": {"x": ["c", "d"]}, "odd": ["e"]});
        paths(&mut value, &of::<File>(), &|path| *path = json!("found"));
        let expected =
            json!({"place": "found", "kind": "b", "more": {"x": ["found", "found"]}, "odd": ["e"]});
        assert_eq!(value, expected);
    }
}
