//! Converts arguments to a request message: protobuf's JSON mapping, with one spelling of every
//! value.
//!
//! The library accepts every spelling that the mapping allows, but a policy judges one of them. The
//! schema of the arguments leaves one spelling each. Properties that a schema cannot describe (the
//! range of 64-bit integers, oneofs, the message inside an `Any`) are checked here, before the
//! library reads the arguments.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MessageDescriptor};

use crate::catalog::grpc::WellKnownType;
use crate::domain::json::Json;

/// The prefix of a type name in an `Any`.
pub(super) const TYPE_URL: &str = "type.googleapis.com/";

/// Why arguments do not form the request message. Contains names only, no values.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{}`: {why}", if path.is_empty() { "arguments" } else { path })]
pub(super) struct EncodeError {
    /// The location, as a JSON pointer.
    path: String,
    why: Misfit,
}

/// How a value does not fit its type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
enum Misfit {
    #[error("is not a `{0}` in JSON")]
    Message(String),
    #[error("is not what the descriptor set calls it")]
    Wrapper,
    #[error("is not an object")]
    Object,
    #[error("is not a list")]
    List,
    #[error("is not a field of `{0}`")]
    Field(String),
    #[error("is required")]
    Required,
    #[error("excludes `{0}`: give one of them")]
    OneOf(String),
    #[error("cannot be the key of a map")]
    Key,
    #[error("is out of range, or written in another way")]
    Spelling,
    #[error("is not a text")]
    Text,
    #[error("is not an integer of 32 bits")]
    Int32,
    #[error("is not an integer of 32 bits without a sign")]
    Uint32,
    #[error("is not a number in range, `NaN`, `Infinity` or `-Infinity`")]
    Float,
    #[error("is not true or false")]
    Bool,
    #[error("is not base64 with padding")]
    Bytes,
    #[error("is not null")]
    Null,
    #[error("is not a name of `{0}`")]
    Enum(String),
    #[error("is not `{TYPE_URL}` and a name")]
    TypeUrl,
    #[error("is not a type of the descriptor set")]
    Type,
    #[error("has other members than `@type` and `value`")]
    Any,
}

impl From<Misfit> for EncodeError {
    fn from(why: Misfit) -> Self {
        Self { path: String::new(), why }
    }
}

impl EncodeError {
    /// The same error, seen from one level above.
    fn below(self, name: &str) -> Self {
        let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        Self { path: format!("/{name}{}", self.path), why: self.why }
    }
}

/// The message of this type that the value represents.
///
/// # Errors
/// The location at which the value does not fit, and how.
pub(super) fn message(of: &MessageDescriptor, json: &Json) -> Result<DynamicMessage, EncodeError> {
    check(of, json)?;
    read(of, json)
}

fn read(of: &MessageDescriptor, json: &Json) -> Result<DynamicMessage, EncodeError> {
    // WHY the library's error is dropped: it quotes the value, which may be a secret.
    let invalid = |_error| Misfit::Message(of.full_name().to_owned()).into();
    DynamicMessage::deserialize(of.clone(), json.to_serde()).map_err(invalid)
}

fn check(of: &MessageDescriptor, json: &Json) -> Result<(), EncodeError> {
    match WellKnownType::of(of) {
        None => fields(of, object(json)?),
        Some(WellKnownType::Any) => any(of, object(json)?),
        Some(WellKnownType::Wrapper) => match of.get_field_by_name("value") {
            Some(field) => one(&field.kind(), json),
            None => Err(Misfit::Wrapper.into()),
        },
        // Checked here too, so that a refusal names the location.
        Some(
            WellKnownType::Empty
            | WellKnownType::Struct
            | WellKnownType::Value
            | WellKnownType::ListValue
            | WellKnownType::Timestamp
            | WellKnownType::Duration
            | WellKnownType::FieldMask,
        ) => read(of, json).map(drop),
    }
}

fn object(json: &Json) -> Result<&BTreeMap<String, Json>, EncodeError> {
    json.as_object().ok_or_else(|| Misfit::Object.into())
}

fn fields(of: &MessageDescriptor, members: &BTreeMap<String, Json>) -> Result<(), EncodeError> {
    let mut chosen = BTreeMap::new();
    for (name, json) in members {
        let unknown = || EncodeError::from(Misfit::Field(of.full_name().to_owned())).below(name);
        // The library would also accept the name from the proto file.
        let field = of.get_field_by_json_name(name).ok_or_else(unknown)?;
        let oneof = field.containing_oneof();
        if let Some(other) =
            oneof.and_then(|oneof| chosen.insert(oneof.full_name().to_owned(), name))
        {
            return Err(EncodeError::from(Misfit::OneOf(other.clone())).below(name));
        }
        in_field(&field, json).map_err(|error| error.below(name))?;
    }
    let absent = |field: &FieldDescriptor| !members.contains_key(field.json_name());
    match of.fields().find(|field| field.is_required() && absent(field)) {
        Some(missing) => Err(EncodeError::from(Misfit::Required).below(missing.json_name())),
        None => Ok(()),
    }
}

fn in_field(field: &FieldDescriptor, json: &Json) -> Result<(), EncodeError> {
    let kind = field.kind();
    if field.is_map()
        && let Kind::Message(entry) = &kind
    {
        let (keys, values) = (entry.map_entry_key_field(), entry.map_entry_value_field());
        return object(json)?.iter().try_for_each(|(name, item)| {
            let pair = key(&keys.kind(), name).and_then(|()| one(&values.kind(), item));
            pair.map_err(|error| error.below(name))
        });
    }
    if !field.is_list() {
        return one(&kind, json);
    }
    let items = json.as_array().ok_or(Misfit::List)?;
    let mut items = items.iter().enumerate();
    items.try_for_each(|(i, item)| one(&kind, item).map_err(|error| error.below(&i.to_string())))
}

fn key(kind: &Kind, name: &str) -> Result<(), EncodeError> {
    match kind {
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => exact::<i32>(name),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => exact::<i64>(name),
        Kind::Uint32 | Kind::Fixed32 => exact::<u32>(name),
        Kind::Uint64 | Kind::Fixed64 => exact::<u64>(name),
        Kind::Bool => exact::<bool>(name),
        Kind::String => Ok(()),
        Kind::Double | Kind::Float | Kind::Bytes | Kind::Message(_) | Kind::Enum(_) => {
            Err(Misfit::Key.into())
        }
    }
}

/// Checks that a text is the canonical spelling of a value.
fn exact<T: std::str::FromStr + ToString>(text: &str) -> Result<(), EncodeError> {
    let same = text.parse::<T>().is_ok_and(|value| value.to_string() == text);
    if same { Ok(()) } else { Err(Misfit::Spelling.into()) }
}

/// Checks one value of this kind for its canonical spelling.
fn one(kind: &Kind, json: &Json) -> Result<(), EncodeError> {
    let text = || json.as_str().ok_or(Misfit::Text);
    let unless = |fits: bool, why: Misfit| if fits { Ok(()) } else { Err(why.into()) };
    match kind {
        Kind::Message(of) => check(of, json),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => exact::<i64>(text()?),
        Kind::Uint64 | Kind::Fixed64 => exact::<u64>(text()?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            let fits = json.as_int().is_some_and(|number| i32::try_from(number).is_ok());
            unless(fits, Misfit::Int32)
        }
        Kind::Uint32 | Kind::Fixed32 => {
            let fits = json.as_int().is_some_and(|number| u32::try_from(number).is_ok());
            unless(fits, Misfit::Uint32)
        }
        Kind::Double | Kind::Float => {
            let fits = match json {
                Json::Int(_) => true,
                Json::Float(number) => *kind == Kind::Double || number.abs() <= f64::from(f32::MAX),
                Json::String(text) => ["NaN", "Infinity", "-Infinity"].contains(&text.as_str()),
                Json::Null | Json::Bool(_) | Json::Array(_) | Json::Object(_) => false,
            };
            unless(fits, Misfit::Float)
        }
        Kind::Bool => unless(json.as_bool().is_some(), Misfit::Bool),
        Kind::String => Ok(text().map(drop)?),
        Kind::Bytes => unless(STANDARD.decode(text()?).is_ok(), Misfit::Bytes),
        Kind::Enum(of) if of.full_name() == "google.protobuf.NullValue" => {
            unless(*json == Json::Null, Misfit::Null)
        }
        Kind::Enum(of) => {
            let fits = of.get_value_by_name(text()?).is_some();
            unless(fits, Misfit::Enum(of.full_name().to_owned()))
        }
    }
}

/// Checks a `google.protobuf.Any`: the descriptor set must have its type.
fn any(of: &MessageDescriptor, members: &BTreeMap<String, Json>) -> Result<(), EncodeError> {
    let wrong = || EncodeError::from(Misfit::TypeUrl).below("@type");
    let url = members.get("@type").and_then(Json::as_str).ok_or_else(wrong)?;
    let name = url.strip_prefix(TYPE_URL).ok_or_else(wrong)?;
    let unknown = || EncodeError::from(Misfit::Type).below("@type");
    let inner = of.parent_pool().get_message_by_name(name).ok_or_else(unknown)?;
    let mut rest = members.clone();
    rest.remove("@type");
    if WellKnownType::of(&inner).is_none() {
        return fields(&inner, &rest);
    }
    match rest.get("value") {
        Some(value) if rest.len() == 1 => {
            check(&inner, value).map_err(|error| error.below("value"))
        }
        Some(_) | None => Err(Misfit::Any.into()),
    }
}
