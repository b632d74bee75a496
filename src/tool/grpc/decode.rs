//! From the message that came back to JSON, by protobuf's mapping: 64-bit integers and bytes are texts, fields
//! that have their default value and fields that nobody described are left out.

use std::cell::Cell;
use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::prost_types::{Duration, Timestamp};
use prost_reflect::{DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, Value};

use super::encode::{DURATION_SECONDS_MAX, TIMESTAMP_SECONDS_MAX, TIMESTAMP_SECONDS_MIN, TYPE_URL};
use crate::catalog::grpc::Known;
use crate::domain::json::Json;
use crate::tool::number::float;

/// Messages within messages of one answer, what is packed in `Any` included: no answer makes anybody's stack
/// overflow, here or where it is read next.
const DEPTH_MAX: usize = 60;

/// Why an answer has no form in JSON.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum Unread {
    /// It is nested too deeply.
    #[error("the service's answer is nested deeper than {DEPTH_MAX} levels")]
    Depth,
    /// It holds a type that nobody described.
    #[error("the service's answer holds an `Any` of a type that is not in the descriptor set")]
    Type,
    /// It holds a value that is none of its type.
    #[error("the service's answer holds a `{0}` that is none")]
    Value(String),
}

/// The value that a message is, and whether some of it is bytes.
///
/// # Errors
/// What of it cannot be written.
pub(super) fn json(message: &DynamicMessage) -> Result<(Json, bool), Unread> {
    let bytes = Cell::new(false);
    let json = of_message(message, Left { depth: DEPTH_MAX, bytes: &bytes })?;
    Ok((json, bytes.get()))
}

/// What is on the way down.
#[derive(Clone, Copy)]
struct Left<'a> {
    /// Messages that may still be nested.
    depth: usize,
    /// Whether bytes were met.
    bytes: &'a Cell<bool>,
}

impl Left<'_> {
    fn deeper(self) -> Result<Self, Unread> {
        let depth = self.depth.checked_sub(1).ok_or(Unread::Depth)?;
        Ok(Self { depth, ..self })
    }
}

fn of_message(message: &DynamicMessage, left: Left<'_>) -> Result<Json, Unread> {
    let left = left.deeper()?;
    let of = message_type(message);
    match Known::of(&of) {
        Some(known) => well_known(known, message, left),
        None => Ok(Json::Object(members(message, left)?)),
    }
}

fn message_type(message: &DynamicMessage) -> prost_reflect::MessageDescriptor {
    prost_reflect::ReflectMessage::descriptor(message)
}

fn members(message: &DynamicMessage, left: Left<'_>) -> Result<BTreeMap<String, Json>, Unread> {
    let fields = message.fields();
    let members = fields.map(|(field, value)| {
        let json = of_value(value, &field, &field.kind(), left)?;
        Ok((field.json_name().to_owned(), json))
    });
    members.collect()
}

fn of_value(
    value: &Value,
    field: &FieldDescriptor,
    kind: &Kind,
    left: Left<'_>,
) -> Result<Json, Unread> {
    Ok(match value {
        Value::Bool(value) => Json::Bool(*value),
        Value::I32(value) => Json::Int(i64::from(*value)),
        Value::U32(value) => Json::Int(i64::from(*value)),
        Value::I64(value) => Json::String(value.to_string()),
        Value::U64(value) => Json::String(value.to_string()),
        // The shortest text that reads as the same float, not the double it happens to be.
        Value::F32(value) if value.is_finite() => {
            float(value.to_string().parse().unwrap_or(f64::from(*value)))
        }
        Value::F32(value) => float(f64::from(*value)),
        Value::F64(value) => float(*value),
        Value::String(value) => Json::from(value.as_str()),
        Value::Bytes(value) => {
            left.bytes.set(left.bytes.get() || !value.is_empty());
            Json::from(STANDARD.encode(value))
        }
        Value::EnumNumber(number) => member(*number, kind),
        Value::Message(message) => of_message(message, left)?,
        Value::List(items) => {
            let left = left.deeper()?;
            let items = items.iter().map(|item| of_value(item, field, kind, left));
            items.collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Map(pairs) => {
            let left = left.deeper()?;
            let wrong = || Unread::Value(field.name().to_owned());
            let Kind::Message(entry) = kind else { return Err(wrong()) };
            let of = entry.map_entry_value_field();
            let kind = of.kind();
            let pairs = pairs.iter();
            let pairs = pairs.map(|(k, item)| Ok((name(k), of_value(item, &of, &kind, left)?)));
            Json::Object(pairs.collect::<Result<_, Unread>>()?)
        }
    })
}

fn name(key: &MapKey) -> String {
    match key {
        MapKey::Bool(key) => key.to_string(),
        MapKey::I32(key) => key.to_string(),
        MapKey::I64(key) => key.to_string(),
        MapKey::U32(key) => key.to_string(),
        MapKey::U64(key) => key.to_string(),
        MapKey::String(key) => key.clone(),
    }
}

/// The name of a member; one that nobody described is its number.
fn member(number: i32, kind: &Kind) -> Json {
    let of: Option<&EnumDescriptor> = kind.as_enum();
    match of {
        Some(of) if of.full_name() == "google.protobuf.NullValue" => Json::Null,
        Some(of) => match of.get_value(number) {
            Some(value) => Json::from(value.name()),
            None => Json::Int(i64::from(number)),
        },
        None => Json::Int(i64::from(number)),
    }
}

fn well_known(known: Known, message: &DynamicMessage, left: Left<'_>) -> Result<Json, Unread> {
    let wrong = || Unread::Value(message_type(message).full_name().to_owned());
    let get = |name: &str| message.get_field_by_name(name).ok_or_else(wrong);
    let in_field = |name: &str| {
        let field = message_type(message).get_field_by_name(name).ok_or_else(wrong)?;
        of_value(&*get(name)?, &field, &field.kind(), left)
    };
    Ok(match known {
        Known::Empty => Json::object::<String>([]),
        Known::Wrapper => in_field("value")?,
        Known::ListValue => in_field("values")?,
        Known::Struct => in_field("fields")?,
        Known::Timestamp | Known::Duration => {
            let seconds = get("seconds")?.as_i64().ok_or_else(wrong)?;
            let nanos = get("nanos")?.as_i32().ok_or_else(wrong)?;
            let text = if known == Known::Timestamp {
                timestamp(seconds, nanos)
            } else {
                duration(seconds, nanos)
            };
            Json::from(text.ok_or_else(wrong)?)
        }
        Known::FieldMask => {
            let paths = get("paths")?;
            let paths = paths.as_list().ok_or_else(wrong)?.iter();
            let paths = paths.map(|path| path.as_str().and_then(camel).ok_or_else(wrong));
            Json::from(paths.collect::<Result<Vec<_>, _>>()?.join(","))
        }
        Known::Value => match message.fields().next() {
            None => Json::Null,
            Some((_, Value::F64(number))) if !number.is_finite() => return Err(wrong()),
            Some((field, value)) => of_value(value, &field, &field.kind(), left)?,
        },
        Known::Any => any(message, left)?,
    })
}

fn any(message: &DynamicMessage, left: Left<'_>) -> Result<Json, Unread> {
    let get = |name: &str| message.get_field_by_name(name).ok_or(Unread::Type);
    let (url, value) = (get("type_url")?, get("value")?);
    let (url, value) = (url.as_str().ok_or(Unread::Type)?, value.as_bytes().ok_or(Unread::Type)?);
    if url.is_empty() && value.is_empty() {
        return Ok(Json::object::<String>([]));
    }
    let name = url.rsplit_once('/').map_or("", |(_, name)| name);
    let pool = message_type(message).parent_pool().clone();
    let of = pool.get_message_by_name(name).ok_or(Unread::Type)?;
    let wrong = |_error| Unread::Value(name.to_owned());
    let packed = DynamicMessage::decode(of.clone(), value.clone()).map_err(wrong)?;
    let json = of_message(&packed, left)?;
    // Written as it was read, so that it can be sent back: one spelling of a type.
    let url = Json::from(format!("{TYPE_URL}{name}"));
    Ok(match (Known::of(&of), json) {
        (None, Json::Object(mut members)) => {
            members.insert("@type".to_owned(), url);
            Json::Object(members)
        }
        (_, value) => Json::object([("@type", url), ("value", value)]),
    })
}

fn timestamp(seconds: i64, nanos: i32) -> Option<String> {
    let fits = (TIMESTAMP_SECONDS_MIN..=TIMESTAMP_SECONDS_MAX).contains(&seconds)
        && (0..1_000_000_000).contains(&nanos);
    fits.then(|| Timestamp { seconds, nanos }.to_string())
}

fn duration(seconds: i64, nanos: i32) -> Option<String> {
    let fits = (-DURATION_SECONDS_MAX..=DURATION_SECONDS_MAX).contains(&seconds)
        && (-999_999_999..=999_999_999).contains(&nanos)
        && !(seconds > 0 && nanos < 0)
        && !(seconds < 0 && nanos > 0);
    fits.then(|| Duration { seconds, nanos }.to_string())
}

/// `foo_bar.baz` is `fooBar.baz`; what would not come back as it was has no such form.
fn camel(path: &str) -> Option<String> {
    let mut out = String::new();
    let mut raise = false;
    for c in path.chars() {
        match c {
            '_' if raise => return None,
            '_' => raise = true,
            'a'..='z' if raise => {
                out.push(c.to_ascii_uppercase());
                raise = false;
            }
            'a'..='z' | '0'..='9' | '.' if !raise => out.push(c),
            _ => return None,
        }
    }
    (!raise).then_some(out)
}
