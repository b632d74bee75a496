//! The JSON Schema of a request, from its descriptor: closed objects, one spelling of every value.
//!
//! Protobuf's JSON mapping reads several spellings of one value: names of fields and their JSON
//! names, numbers of enum members, integers as numbers, texts and fractions. A policy that looks at
//! one spelling would not see another, so the schema allows one of each.

use std::collections::BTreeMap;

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use super::known::WellKnownType;
use crate::domain::json::{Json, json};

/// Message types in one request, at most.
const MESSAGES_MAX: usize = 256;

const INT64: &str = "^(0|-?[1-9][0-9]{0,18})$";
const UINT64: &str = "^(0|[1-9][0-9]{0,19})$";
const DURATION: &str = "^-?[0-9]{1,12}(\\.[0-9]{1,9})?s$";

/// Why a message has no schema.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("takes a `{0}`, which is not an object in JSON")]
    NoObject(String),
    #[error("takes a message that is made of more than {MESSAGES_MAX} others")]
    Messages,
}

/// The schema of arguments in the form of this message.
///
/// # Errors
/// A message that is not an object in JSON, or has too many message types.
pub(super) fn of(message: &MessageDescriptor) -> Result<Json, Error> {
    let mut writer = SchemaWriter::default();
    let root = match WellKnownType::of(message) {
        None => writer.object(message),
        Some(known) if known.is_object() => well_known(known, message),
        Some(_) => return Err(Error::NoObject(message.full_name().to_owned())),
    };
    while let Some(next) = writer.named.pop() {
        let name = next.full_name().to_owned();
        if writer.defs.contains_key(&name) {
            continue;
        }
        if writer.defs.len() >= MESSAGES_MAX {
            return Err(Error::Messages);
        }
        let object = writer.object(&next);
        writer.defs.insert(name, object);
    }
    let Json::Object(mut root) = root else {
        return Err(Error::NoObject(message.full_name().to_owned()));
    };
    if !writer.defs.is_empty() {
        root.insert("$defs".into(), Json::Object(writer.defs));
    }
    Ok(Json::Object(root))
}

#[derive(Default)]
struct SchemaWriter {
    /// By full name.
    defs: BTreeMap<String, Json>,
    /// Messages that were named and may not be described yet.
    named: Vec<MessageDescriptor>,
}

impl SchemaWriter {
    fn object(&mut self, message: &MessageDescriptor) -> Json {
        let mut properties = BTreeMap::new();
        let mut required = Vec::new();
        for field in message.fields() {
            properties.insert(field.json_name().to_owned(), self.field(&field));
            if field.is_required() {
                required.push(Json::from(field.json_name()));
            }
        }
        let mut members = vec![
            ("type", Json::from("object")),
            ("properties", Json::Object(properties)),
            ("additionalProperties", Json::from(false)),
        ];
        if !required.is_empty() {
            members.push(("required", required.into()));
        }
        // As text: models read it, and some of their providers take no alternatives at the root.
        if let Some(names) = choices(message) {
            members.push(("description", Json::from(names)));
        }
        Json::object(members)
    }

    fn field(&mut self, field: &FieldDescriptor) -> Json {
        let kind = field.kind();
        if field.is_map()
            && let Kind::Message(entry) = &kind
        {
            let value = self.one(&entry.map_entry_value_field().kind());
            let mut members = vec![("type", Json::from("object")), ("additionalProperties", value)];
            members.extend(key(&entry.map_entry_key_field().kind()).map(|k| ("propertyNames", k)));
            return Json::object(members);
        }
        let one = self.one(&kind);
        if field.is_list() {
            return json!({"type": "array", "items": one});
        }
        one
    }

    /// One value of this kind.
    fn one(&mut self, kind: &Kind) -> Json {
        match kind {
            Kind::Message(message) => match WellKnownType::of(message) {
                Some(known) => well_known(known, message),
                None => {
                    let name = message.full_name();
                    self.named.push(message.clone());
                    json!({"$ref": format!("#/$defs/{name}")})
                }
            },
            Kind::Enum(of) if of.full_name() == "google.protobuf.NullValue" => typed("null"),
            Kind::Enum(of) => {
                json!({"enum": of.values().map(|value| value.name().to_owned()).collect::<Vec<_>>()})
            }
            Kind::Double | Kind::Float => {
                json!({"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]})
            }
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
                between(i64::from(i32::MIN), i64::from(i32::MAX))
            }
            Kind::Uint32 | Kind::Fixed32 => between(0, i64::from(u32::MAX)),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => text(INT64),
            Kind::Uint64 | Kind::Fixed64 => text(UINT64),
            Kind::Bool => typed("boolean"),
            Kind::String => typed("string"),
            Kind::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        }
    }
}

/// `at most one of a, b; at most one of c, d`, if there is a choice.
fn choices(message: &MessageDescriptor) -> Option<String> {
    let real = message.oneofs().filter(|oneof| !oneof.is_synthetic());
    let all: Vec<String> = real
        .map(|oneof| {
            let names: Vec<String> =
                oneof.fields().map(|field| field.json_name().to_owned()).collect();
            format!("at most one of {}", names.join(", "))
        })
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The schema of a type that has a form of its own.
fn well_known(known: WellKnownType, message: &MessageDescriptor) -> Json {
    match known {
        WellKnownType::Any => json!({
            "type": "object",
            "properties": {"@type": text("^type\\.googleapis\\.com/")},
            "required": ["@type"],
            "additionalProperties": true,
        }),
        WellKnownType::Timestamp => json!({"type": "string", "format": "date-time"}),
        WellKnownType::Duration => text(DURATION),
        WellKnownType::FieldMask => typed("string"),
        WellKnownType::Struct => json!({"type": "object", "additionalProperties": true}),
        WellKnownType::Value => json!({}),
        WellKnownType::ListValue => typed("array"),
        WellKnownType::Empty => json!({"type": "object", "additionalProperties": false}),
        WellKnownType::Wrapper => match message.get_field_by_name("value") {
            // What is wrapped is never a message.
            Some(field) => SchemaWriter::default().one(&field.kind()),
            None => Json::from(false),
        },
    }
}

/// The member names of a map with this kind of key; `None`: any.
fn key(kind: &Kind) -> Option<Json> {
    match kind {
        Kind::Int32
        | Kind::Sint32
        | Kind::Sfixed32
        | Kind::Int64
        | Kind::Sint64
        | Kind::Sfixed64 => Some(text(INT64)),
        Kind::Uint32 | Kind::Fixed32 | Kind::Uint64 | Kind::Fixed64 => Some(text(UINT64)),
        Kind::Bool => Some(json!({"enum": ["true", "false"]})),
        Kind::String
        | Kind::Bytes
        | Kind::Double
        | Kind::Float
        | Kind::Message(_)
        | Kind::Enum(_) => None,
    }
}

fn typed(name: &str) -> Json {
    json!({"type": name})
}

fn text(pattern: &str) -> Json {
    json!({"type": "string", "pattern": pattern})
}

fn between(least: i64, most: i64) -> Json {
    json!({"type": "integer", "minimum": least, "maximum": most})
}
