//! The rules for entries beyond the structs of their kinds: the profile, and the members of the
//! header.
//!
//! A test emits `entry-1.json` from the structs (`WICKETGATE_BLESS=1` writes it); every bundle has
//! it.

use super::chain::Heartbeat;
use super::{Body, Entry, Kind};
use crate::domain::canonical;
use crate::domain::json::{self, Json, Limits};

/// The schema of a whole entry (JSON Schema 2020-12), as shipped in bundles.
pub const ENTRY_1: &str = include_str!("entry-1.json");
/// The deepest nesting of arrays and objects in an entry, itself included.
pub const DEPTH_MAX: usize = 6;
/// The most items of one array.
pub const ITEMS_MAX: usize = 256;
/// Size that an entry should not exceed; the writer moves larger content into payloads.
pub const BYTES_SOFT_MAX: usize = 16 << 10;

/// How an entry departs from the profile.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum Error {
    /// The bytes are not JSON.
    #[error(transparent)]
    Json(#[from] json::Error),
    /// The bytes are not an entry.
    #[error(transparent)]
    Entry(#[from] crate::Error),
    /// More than [`DEPTH_MAX`] nested arrays and objects.
    #[error("nested deeper than {DEPTH_MAX}")]
    Depth,
    /// A `null`.
    #[error("`null` is not allowed: leave the member out")]
    Null,
    /// A number with a fraction or an exponent.
    #[error("only integers are allowed")]
    Float,
    /// An array of more than [`ITEMS_MAX`] items.
    #[error("an array of {0} items, at most {ITEMS_MAX} are allowed")]
    Items(usize),
    /// An invalid member name.
    #[error("the member name `{0}` is not [a-z0-9_]")]
    Name(String),
    /// The header lacks a member that this kind must have.
    #[error("`{0}` without `{1}`")]
    Lacks(Kind, &'static str),
    /// The header has a member that this kind must not have.
    #[error("`{0}` with `{1}`")]
    Extra(Kind, &'static str),
}

/// Reads the header of an entry whose kind this build does not know: the bytes must be in canonical
/// form and satisfy the profile of all entries. Returns the entry with a stand-in body, and the
/// kind.
///
/// # Errors
/// What is wrong with the bytes.
pub fn unknown(bytes: &[u8]) -> Result<(Entry, String), Error> {
    let json = canonical::read(bytes, &Limits::ENTRY)?;
    let json = json.ok_or(crate::Error::Canonical)?;
    nested(&json, 1)?;
    let stand_in = Body::from(Heartbeat { open_runs: 0_u64.into(), rejected: None });
    Ok(Entry::header(bytes, stand_in)?)
}

fn nested(value: &Json, depth: usize) -> Result<(), Error> {
    match value {
        Json::Bool(_) | Json::Int(_) | Json::String(_) => Ok(()),
        Json::Null => Err(Error::Null),
        Json::Float(_) => Err(Error::Float),
        Json::Array(_) | Json::Object(_) if depth > DEPTH_MAX => Err(Error::Depth),
        Json::Array(items) if items.len() > ITEMS_MAX => Err(Error::Items(items.len())),
        Json::Array(items) => {
            items.iter().try_for_each(|item| nested(item, depth.saturating_add(1)))
        }
        Json::Object(members) => members.iter().try_for_each(|(name, member)| {
            let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
            if name.is_empty() || !name.bytes().all(plain) {
                return Err(Error::Name(name.clone()));
            }
            nested(member, depth.saturating_add(1))
        }),
    }
}

/// Checks which members of the header a kind requires and which it forbids.
///
/// # Errors
/// The missing or forbidden member.
pub fn header(entry: &Entry) -> Result<(), Error> {
    let draft = &entry.draft;
    let kind = draft.kind();
    let of_call = kind.of_call();
    let of_run = of_call || matches!(kind, Kind::RunOpened | Kind::RunSealed | Kind::TaintCleared);
    let decides = kind.decides();
    let members = [
        ("run", entry.run.is_some(), of_run, of_run),
        ("call", draft.call.is_some(), of_call, of_call),
        ("tool", draft.tool.is_some(), decides, of_call),
        ("verdict", draft.verdict.is_some(), decides, of_call),
        ("policy", draft.policy.is_some(), decides || kind == Kind::PolicyActivated, true),
    ];
    for (name, there, required, allowed) in members {
        if required && !there {
            return Err(Error::Lacks(kind, name));
        }
        if there && !allowed {
            return Err(Error::Extra(kind, name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
    use serde_json::{Map, Value, json};

    /// The schema of whole entries, from the structs.
    fn emitted() -> String {
        let mut generator = SchemaGenerator::new(SchemaSettings::draft2020_12());
        let kinds = Body::schemas(&mut generator);
        type Header = super::super::entry::EntryMembers<'static, String, Map<String, Value>>;
        let Value::Object(mut whole) = Header::json_schema(&mut generator).to_value() else {
            unreachable!("a struct is an object")
        };
        let mut definitions = generator.take_definitions(true);
        definitions.extend(
            kinds
                .iter()
                .map(|(kind, schema)| (kind.as_str().to_owned(), schema.clone().to_value())),
        );
        whole["properties"]["data"] =
            json!({"type": "object", "description": "The content; its members depend on `kind`."});
        whole["properties"]["kind"] = json!({"type": "string", "maxLength": 4096, "description": "Kind of the event that the entry records."});
        whole.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        whole.insert("$id".into(), "https://wicketgate.dev/schema/entry-1.json".into());
        whole
            .insert("title".into(), "One entry of a Wicketgate ledger (wicketgate/entry/1)".into());
        whole.remove("description");
        whole.insert("$comment".into(), "Stored bytes are the RFC 8785 form of this object. Beyond this schema: integers only, no null, names [a-z0-9_], depth 6, 65,535 bytes.".into());
        let branch = |(kind, _): &(Kind, _)| json!({"if": {"properties": {"kind": {"const": kind.as_str()}}, "required": ["kind"]}, "then": {"properties": {"data": {"$ref": format!("#/$defs/{kind}")}}}});
        whole.insert("allOf".into(), kinds.iter().map(branch).collect());
        whole.insert("$defs".into(), Value::Object(definitions.into_iter().collect()));
        let mut whole = Value::Object(whole);
        tidy(&mut whole);
        lines(&whole)
    }

    /// The document with each property, definition and branch on a line of its own.
    fn lines(whole: &Value) -> String {
        let line = |value: &Value| serde_json::to_string(value).unwrap();
        let members = whole.as_object().unwrap().iter().map(|(name, value)| {
            let parts: Vec<String> = match value {
                Value::Object(parts) => {
                    parts.iter().map(|(k, v)| format!("    {k:?}: {}", line(v))).collect()
                }
                Value::Array(parts) => parts.iter().map(|v| format!("    {}", line(v))).collect(),
                other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                    return format!("  {name:?}: {}", line(other));
                }
            };
            let (open, close) = if value.is_object() { ('{', '}') } else { ('[', ']') };
            format!("  {name:?}: {open}\n{}\n  {close}", parts.join(",\n"))
        });
        format!("{{\n{}\n}}\n", members.collect::<Vec<_>>().join(",\n"))
    }

    /// Removes what entries never have: `null`, and members that a kind forbids.
    fn tidy(value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(tidy),
            Value::Object(members) => {
                let nullable = members
                    .get("anyOf")
                    .and_then(Value::as_array)
                    .is_some_and(|any| any.len() == 2 && any[1] == json!({"type": "null"}));
                if nullable {
                    let inner = members.remove("anyOf").unwrap()[0].clone();
                    members.extend(inner.as_object().unwrap().clone());
                }
                if let Some(Value::Array(types)) = members.get_mut("type") {
                    types.retain(|one| one != "null");
                    if let [one] = types.as_slice() {
                        let one = one.clone();
                        members.insert("type".into(), one);
                    }
                }
                if let Some(Value::Array(values)) = members.get_mut("enum") {
                    values.retain(|value| !value.is_null());
                }
                members.remove("default");
                if let Some(Value::Object(properties)) = members.get_mut("properties") {
                    properties.retain(|_, schema| {
                        *schema != json!(false) && schema.get("not") != Some(&json!({}))
                    });
                }
                members.values_mut().for_each(tidy);
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn the_shipped_schema_is_the_one_that_the_structs_emit() {
        let emitted = emitted();
        if std::env::var_os("WICKETGATE_BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/entry-1.json");
            std::fs::write(path, &emitted).unwrap();
            return;
        }
        assert!(
            emitted == ENTRY_1,
            "`WICKETGATE_BLESS=1 cargo test -p wicketgate-record --lib schema`, then read the difference"
        );
    }

    #[test]
    fn the_shipped_file_is_a_schema_of_whole_entries() {
        let schema: Value = serde_json::from_str(ENTRY_1).unwrap();
        let validator = jsonschema::validator_for(&schema).unwrap();
        let entry = json!({"v":"wicketgate/entry/1","chain":"0".repeat(32),"epoch":1,"seq":3,
            "prev":"0".repeat(64),"ts":"2026-11-21T20:05:03.123Z","boot":"00000000","mono":"12",
            "kind":"heartbeat","data":{"open_runs":0,"rejected":0}});
        assert!(validator.is_valid(&entry));
        let mut other = entry;
        other["data"]["extra"] = 1.into();
        assert!(!validator.is_valid(&other));
    }

    #[test]
    fn the_profile_refuses_floats_nulls_deep_values_long_arrays_and_fancy_names() {
        let profile = |text: &str| nested(&Json::parse(text.as_bytes(), &Limits::FILE).unwrap(), 1);
        for text in [
            r#"{"a":1.5}"#,
            r#"{"a":null}"#,
            r#"{"a":{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}}"#,
            r#"{"Abc":1}"#,
            r#"{"a-b":1}"#,
        ] {
            assert!(profile(text).is_err(), "{text}");
        }
        assert!(profile(r#"{"a":{"a":{"a":{"a":{"a":{"a":1}}}}}}"#).is_ok());
        assert!(profile(&format!("{{\"a\":[{}1]}}", "1,".repeat(256))).is_err());
        assert!(profile(&format!("{{\"a\":[{}1]}}", "1,".repeat(255))).is_ok());
    }
}
