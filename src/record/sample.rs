//! Samples of entries, made from the schema: for the tests here and in the crates that read entries.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "only tests see this, and they may stop at the first surprise"
)]

use serde_json::value::RawValue;

use super::schema::ENTRY_1;
use super::{Body, Kind};
use crate::domain::canonical;
use crate::domain::json::{Json, Limits};

/// The smallest body of this kind with these members.
///
/// # Panics
/// The kind does not allow these members.
pub fn body<'a>(kind: Kind, more: impl IntoIterator<Item = (&'a str, Json)>) -> Body {
    let document = document();
    let definitions = document.get("$defs").unwrap();
    let least = sample(definitions.get(kind.as_str()).unwrap(), definitions, false);
    let mut members = least.as_object().unwrap().clone();
    members.extend(more.into_iter().map(|(name, value)| (name.to_owned(), value)));
    let text = canonical::text(&Json::Object(members));
    Body::read(kind, &RawValue::from_string(text).unwrap()).unwrap()
}

pub(crate) fn document() -> Json {
    Json::parse(ENTRY_1.as_bytes(), &Limits::FILE).unwrap()
}

/// A value that the schema allows: with every optional member, or without any.
pub(crate) fn sample(schema: &Json, definitions: &Json, full: bool) -> Json {
    if let Some(reference) = schema.get("$ref").and_then(Json::as_str) {
        let name = reference.strip_prefix("#/$defs/").unwrap();
        return sample(definitions.get(name).unwrap(), definitions, full);
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(values) = schema.get("enum").and_then(Json::as_array) {
        return if full { values.last().unwrap().clone() } else { values[0].clone() };
    }
    let types = schema.get("type").unwrap();
    let kind =
        types.as_array().map_or(types, |all| if full { all.last().unwrap() } else { &all[0] });
    match kind.as_str().unwrap() {
        "object" => {
            let required = schema.get("required").and_then(Json::as_array).unwrap_or_default();
            let all = schema.get("properties").and_then(Json::as_object).unwrap();
            let chosen = all.iter().filter(|(name, _)| {
                full || required.iter().any(|r| r.as_str() == Some(name.as_str()))
            });
            Json::object(chosen.map(|(name, s)| (name.clone(), sample(s, definitions, full))))
        }
        "array" => {
            let least = schema.get("minItems").and_then(Json::as_u64).unwrap_or(0);
            let count = if full { least.max(2) } else { least };
            let item = schema.get("items").unwrap();
            (0..count).map(|_| sample(item, definitions, full)).collect::<Vec<_>>().into()
        }
        "string" => schema
            .get("pattern")
            .and_then(Json::as_str)
            .map_or("text".into(), |pattern| Json::from(text_of(pattern))),
        "integer" => schema.get("minimum").cloned().unwrap_or(Json::Int(7)),
        "boolean" => Json::Bool(full),
        other => panic!("no sample of the type {other}"),
    }
}

/// A text of each pattern that the file uses.
fn text_of(pattern: &str) -> String {
    let hex = "0123456789abcdef".repeat(4);
    match pattern {
        "^[0-9a-f]{32}$" => hex.split_at(32).0.to_owned(),
        "^[0-9a-f]{64}$" | "^([0-9a-f]{64})?$" => hex,
        "^(sha256:)?[0-9a-f]{64}$" | "^sha256:[0-9a-f]{64}$" => format!("sha256:{hex}"),
        "^[A-Za-z0-9+/]{43}=$" => format!("{}=", "Az0+/".repeat(9).split_at(43).0),
        "^[A-Za-z0-9+/]{86}==$" => format!("{}==", "Az0+/".repeat(18).split_at(86).0),
        "^(0|-?[1-9][0-9]{0,17})$" => "-1200".to_owned(),
        "^[A-Za-z0-9_.-]{1,64}$" | "^[A-Za-z0-9_.-]{1,128}$" => "a-Z_0.9".to_owned(),
        p if p.starts_with("^[0-9]{4}-") => "2026-11-21T20:05:03.123Z".to_owned(),
        p if p.starts_with("^[0-9a-f]{8}-") => "00000000-0000-4000-8000-00000000000a".to_owned(),
        other => panic!("no sample of the pattern {other}"),
    }
}
