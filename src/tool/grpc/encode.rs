//! From arguments to the message that is sent: protobuf's JSON mapping, one spelling of every value.
//!
//! The schema of the arguments says most of this already. What it cannot say (the range of 64-bit integers, one
//! of several, the type inside an `Any`) is said here, and nothing is left out or put in silently.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{Duration, Timestamp};
use prost_reflect::{
    DynamicMessage, EnumDescriptor, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value,
};

use crate::catalog::grpc::Known;
use crate::domain::json::Json;

/// What stands before the name of a type in an `Any`.
pub(super) const TYPE_URL: &str = "type.googleapis.com/";
/// Seconds of the longest duration: about ten thousand years.
pub(super) const DURATION_SECONDS_MAX: i64 = 315_576_000_000;
/// 0001-01-01T00:00:00Z.
pub(super) const TIMESTAMP_SECONDS_MIN: i64 = -62_135_596_800;
/// 9999-12-31T23:59:59Z.
pub(super) const TIMESTAMP_SECONDS_MAX: i64 = 253_402_300_799;

/// Why arguments are not the message that is asked for. Holds no value, only names.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{}`: {why}", if path.is_empty() { "arguments" } else { path })]
pub(super) struct Unfit {
    /// Where, as a JSON pointer.
    path: String,
    why: String,
}

impl Unfit {
    fn new(why: impl Into<String>) -> Self {
        Self { path: String::new(), why: why.into() }
    }

    /// The same, seen from one level above.
    fn below(self, name: &str) -> Self {
        let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        Self { path: format!("/{name}{}", self.path), why: self.why }
    }
}

/// The message of this type that a value is.
///
/// # Errors
/// Where it is none, and why.
pub(super) fn message(of: &MessageDescriptor, json: &Json) -> Result<DynamicMessage, Unfit> {
    if let Some(known) = Known::of(of) {
        return well_known(known, of, json);
    }
    let Some(members) = json.as_object() else { return Err(Unfit::new("is an object")) };
    let mut message = DynamicMessage::new(of.clone());
    fill(&mut message, of, members.iter())?;
    Ok(message)
}

fn fill<'a>(
    message: &mut DynamicMessage,
    of: &MessageDescriptor,
    members: impl Iterator<Item = (&'a String, &'a Json)>,
) -> Result<(), Unfit> {
    for (name, json) in members {
        let unknown = || Unfit::new(format!("is no field of `{}`", of.full_name())).below(name);
        let field = of.get_field_by_json_name(name).ok_or_else(unknown)?;
        if let Some(oneof) = field.containing_oneof()
            && let Some(other) = oneof.fields().find(|other| message.has_field(other))
        {
            let why = format!("only one of it and `{}` is given", other.json_name());
            return Err(Unfit::new(why).below(name));
        }
        let value = in_field(&field, json).map_err(|unfit| unfit.below(name))?;
        put(message, &field, value).map_err(|unfit| unfit.below(name))?;
    }
    match of.fields().find(|field| field.is_required() && !message.has_field(field)) {
        Some(missing) => Err(Unfit::new("is required").below(missing.json_name())),
        None => Ok(()),
    }
}

fn put(message: &mut DynamicMessage, field: &FieldDescriptor, value: Value) -> Result<(), Unfit> {
    // INVARIANT: the value was made for the kind of this field.
    message.try_set_field(field, value).map_err(|_error| Unfit::new("does not fit its field"))
}

fn in_field(field: &FieldDescriptor, json: &Json) -> Result<Value, Unfit> {
    let kind = field.kind();
    if field.is_map()
        && let Kind::Message(entry) = &kind
    {
        return map(entry, json);
    }
    if field.is_list() {
        let Some(items) = json.as_array() else { return Err(Unfit::new("is a list")) };
        let items = items.iter().enumerate();
        let items = items.map(|(i, item)| one(&kind, item).map_err(|u| u.below(&i.to_string())));
        return Ok(Value::List(items.collect::<Result<_, _>>()?));
    }
    one(&kind, json)
}

fn map(entry: &MessageDescriptor, json: &Json) -> Result<Value, Unfit> {
    let Some(members) = json.as_object() else { return Err(Unfit::new("is an object")) };
    let (keys, values) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
    let pairs = members.iter().map(|(name, item)| {
        let pair = || Ok((key(&keys, name)?, one(&values, item)?));
        pair().map_err(|unfit: Unfit| unfit.below(name))
    });
    Ok(Value::Map(pairs.collect::<Result<_, _>>()?))
}

fn key(kind: &Kind, name: &str) -> Result<MapKey, Unfit> {
    Ok(match kind {
        Kind::String => MapKey::String(name.to_owned()),
        Kind::Bool => MapKey::Bool(exact(name)?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(exact(name)?),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(exact(name)?),
        Kind::Uint32 | Kind::Fixed32 => MapKey::U32(exact(name)?),
        Kind::Uint64 | Kind::Fixed64 => MapKey::U64(exact(name)?),
        Kind::Double | Kind::Float | Kind::Bytes | Kind::Message(_) | Kind::Enum(_) => {
            return Err(Unfit::new("is the key of no map"));
        }
    })
}

/// What this text is, if it is written as that is always written.
fn exact<T: std::str::FromStr + ToString>(text: &str) -> Result<T, Unfit> {
    let value = text.parse::<T>().ok().filter(|value| value.to_string() == text);
    value.ok_or_else(|| Unfit::new("is out of range, or written in another way"))
}

/// One value of this kind.
fn one(kind: &Kind, json: &Json) -> Result<Value, Unfit> {
    let integer = || json.as_int().ok_or_else(|| Unfit::new("is an integer"));
    let text = || json.as_str().ok_or_else(|| Unfit::new("is a text"));
    let range = || Unfit::new("is out of range");
    Ok(match kind {
        Kind::Double => Value::F64(float(json)?),
        Kind::Float => Value::F32(narrow(float(json)?)?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            Value::I32(i32::try_from(integer()?).map_err(|_error| range())?)
        }
        Kind::Uint32 | Kind::Fixed32 => {
            Value::U32(u32::try_from(integer()?).map_err(|_error| range())?)
        }
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(exact(text()?)?),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(exact(text()?)?),
        Kind::Bool => Value::Bool(json.as_bool().ok_or_else(|| Unfit::new("is true or false"))?),
        Kind::String => Value::String(text()?.to_owned()),
        Kind::Bytes => {
            let bytes = STANDARD.decode(text()?);
            Value::Bytes(bytes.map_err(|_error| Unfit::new("is base64 with padding"))?.into())
        }
        Kind::Enum(of) => Value::EnumNumber(member(of, json)?),
        Kind::Message(of) => Value::Message(message(of, json)?),
    })
}

fn float(json: &Json) -> Result<f64, Unfit> {
    match json {
        // Integers of arguments are exact in a double.
        Json::Int(number) => number.to_string().parse().ok(),
        Json::Float(number) => Some(*number),
        Json::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => None,
    }
    .ok_or_else(|| Unfit::new("is a number, or `NaN`, `Infinity`, `-Infinity`"))
}

fn narrow(number: f64) -> Result<f32, Unfit> {
    #[expect(clippy::cast_possible_truncation, reason = "a float is what its sender has of it")]
    let narrow = number as f32;
    if number.is_finite() && narrow.is_infinite() {
        return Err(Unfit::new("is out of range"));
    }
    Ok(narrow)
}

fn member(of: &EnumDescriptor, json: &Json) -> Result<i32, Unfit> {
    if of.full_name() == "google.protobuf.NullValue" {
        return if *json == Json::Null { Ok(0) } else { Err(Unfit::new("is null")) };
    }
    let named = json.as_str().and_then(|name| of.get_value_by_name(name));
    named
        .map(|value| value.number())
        .ok_or_else(|| Unfit::new(format!("is a name of `{}`", of.full_name())))
}

fn well_known(known: Known, of: &MessageDescriptor, json: &Json) -> Result<DynamicMessage, Unfit> {
    let mut message = DynamicMessage::new(of.clone());
    let text = || json.as_str().ok_or_else(|| Unfit::new("is a text"));
    match known {
        Known::Empty => match json.as_object() {
            Some(members) if members.is_empty() => {}
            Some(_) | None => return Err(Unfit::new("is an empty object")),
        },
        Known::Wrapper => {
            let field = named(of, "value")?;
            put(&mut message, &field, one(&field.kind(), json)?)?;
        }
        Known::Timestamp => {
            let (seconds, nanos) = timestamp(text()?)?;
            put(&mut message, &named(of, "seconds")?, Value::I64(seconds))?;
            put(&mut message, &named(of, "nanos")?, Value::I32(nanos))?;
        }
        Known::Duration => {
            let (seconds, nanos) = duration(text()?)?;
            put(&mut message, &named(of, "seconds")?, Value::I64(seconds))?;
            put(&mut message, &named(of, "nanos")?, Value::I32(nanos))?;
        }
        Known::FieldMask => {
            let paths = text()?.split(',').filter(|path| !path.is_empty());
            let paths = paths.map(|path| snake(path).map(Value::String));
            put(&mut message, &named(of, "paths")?, Value::List(paths.collect::<Result<_, _>>()?))?;
        }
        Known::Struct => {
            let Some(members) = json.as_object() else { return Err(Unfit::new("is an object")) };
            let field = named(of, "fields")?;
            let value = value_of(&field)?;
            let pairs = members.iter().map(|(name, item)| {
                let item = message_of(&value, item).map_err(|unfit| unfit.below(name))?;
                Ok((MapKey::String(name.clone()), item))
            });
            put(&mut message, &field, Value::Map(pairs.collect::<Result<_, Unfit>>()?))?;
        }
        Known::ListValue => {
            let Some(items) = json.as_array() else { return Err(Unfit::new("is a list")) };
            let field = named(of, "values")?;
            let Kind::Message(value) = field.kind() else { return Err(odd(of)) };
            let items = items.iter().map(|item| message_of(&value, item));
            put(&mut message, &field, Value::List(items.collect::<Result<_, _>>()?))?;
        }
        Known::Value => anything(&mut message, of, json)?,
        Known::Any => any(&mut message, of, json)?,
    }
    Ok(message)
}

fn message_of(of: &MessageDescriptor, json: &Json) -> Result<Value, Unfit> {
    message(of, json).map(Value::Message)
}

/// The field that a type of `google.protobuf` has.
fn named(of: &MessageDescriptor, name: &str) -> Result<FieldDescriptor, Unfit> {
    of.get_field_by_name(name).ok_or_else(|| odd(of))
}

fn odd(of: &MessageDescriptor) -> Unfit {
    Unfit::new(format!("`{}` of the descriptor set is not what its name says", of.full_name()))
}

/// The messages that are values of this map.
fn value_of(field: &FieldDescriptor) -> Result<MessageDescriptor, Unfit> {
    let wrong = || Unfit::new("a type of the descriptor set is not what its name says");
    let Kind::Message(entry) = field.kind() else { return Err(wrong()) };
    if !field.is_map() {
        return Err(wrong());
    }
    let Kind::Message(value) = entry.map_entry_value_field().kind() else { return Err(wrong()) };
    Ok(value)
}

/// A `google.protobuf.Value`.
fn anything(
    message: &mut DynamicMessage,
    of: &MessageDescriptor,
    json: &Json,
) -> Result<(), Unfit> {
    let name = match json {
        Json::Null => "null_value",
        Json::Bool(_) => "bool_value",
        Json::Int(_) | Json::Float(_) => "number_value",
        Json::String(_) => "string_value",
        Json::Array(_) => "list_value",
        Json::Object(_) => "struct_value",
    };
    let field = named(of, name)?;
    let value = one(&field.kind(), json)?;
    put(message, &field, value)
}

/// A `google.protobuf.Any`: its type must be one that the descriptor set has.
fn any(message: &mut DynamicMessage, of: &MessageDescriptor, json: &Json) -> Result<(), Unfit> {
    let Some(members) = json.as_object() else { return Err(Unfit::new("is an object")) };
    let url = members.get("@type").and_then(Json::as_str);
    let wrong = || Unfit::new(format!("is `{TYPE_URL}` and a name")).below("@type");
    let url = url.ok_or_else(wrong)?;
    let name = url.strip_prefix(TYPE_URL).ok_or_else(wrong)?;
    let unknown = || Unfit::new("is no type of the descriptor set").below("@type");
    let inner = of.parent_pool().get_message_by_name(name).ok_or_else(unknown)?;
    let packed = if Known::of(&inner).is_some() {
        let alone = members.len() == 2;
        let value = members.get("value").filter(|_| alone);
        let value = value.ok_or_else(|| Unfit::new("has `@type` and `value`"))?;
        self::message(&inner, value).map_err(|unfit| unfit.below("value"))?
    } else {
        let mut packed = DynamicMessage::new(inner.clone());
        fill(&mut packed, &inner, members.iter().filter(|(name, _)| *name != "@type"))?;
        packed
    };
    put(message, &named(of, "type_url")?, Value::String(url.to_owned()))?;
    put(message, &named(of, "value")?, Value::Bytes(packed.encode_to_vec().into()))
}

fn timestamp(text: &str) -> Result<(i64, i32), Unfit> {
    let wrong = || Unfit::new("is a time as RFC 3339 writes it, from year 1 to year 9999");
    if !is_whole_time(text) {
        return Err(wrong());
    }
    let read: Timestamp = text.parse().map_err(|_error| wrong())?;
    let fits = (TIMESTAMP_SECONDS_MIN..=TIMESTAMP_SECONDS_MAX).contains(&read.seconds);
    if fits && read.nanos >= 0 { Ok((read.seconds, read.nanos)) } else { Err(wrong()) }
}

/// Date, `T`, time and an offset: the reader behind this would also take a date alone.
fn is_whole_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let at = |from_end: usize| bytes.len().checked_sub(from_end).and_then(|i| bytes.get(i));
    let offset = matches!(at(6), Some(b'+' | b'-')) && at(3) == Some(&b':');
    bytes.len() >= 20 && bytes.get(10) == Some(&b'T') && (at(1) == Some(&b'Z') || offset)
}

fn duration(text: &str) -> Result<(i64, i32), Unfit> {
    let wrong = || Unfit::new("is a number of seconds with an `s` at its end");
    let read: Duration = text.parse().map_err(|_error| wrong())?;
    let fits = (-DURATION_SECONDS_MAX..=DURATION_SECONDS_MAX).contains(&read.seconds);
    if fits { Ok((read.seconds, read.nanos)) } else { Err(wrong()) }
}

/// A path of a field mask as its message has it: `fooBar.baz` is `foo_bar.baz`.
fn snake(path: &str) -> Result<String, Unfit> {
    let mut out = String::new();
    for c in path.chars() {
        match c {
            'A'..='Z' => {
                out.push('_');
                out.push(c.to_ascii_lowercase());
            }
            'a'..='z' | '0'..='9' | '.' => out.push(c),
            _ => return Err(Unfit::new("is paths of JSON names with commas between them")),
        }
    }
    Ok(out)
}
