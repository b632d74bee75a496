//! Converts a response message to JSON by protobuf's mapping: 64-bit integers and bytes become
//! texts; fields with their default value and fields without a description are omitted.
//!
//! The library writes what it can, at any depth. A message that would overflow a stack, or holds a
//! value that is not one of its type, is refused before the library writes anything.

use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{Any, Duration, FieldMask, Timestamp};
use prost_reflect::{DynamicMessage, ReflectMessage as _, Value};
use serde_value::Value as Written;

use super::encode::TYPE_URL;
use crate::catalog::grpc::WellKnownType;
use crate::domain::json::Json;
use crate::tool::number::float;

/// Nested messages in one response, including those packed in `Any`: no response may overflow a
/// stack, here or in the next reader.
const DEPTH_MAX: usize = 60;

/// Why a response has no form in JSON.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub(super) enum DecodeError {
    /// It is nested too deeply.
    #[error("the service's answer is nested deeper than {DEPTH_MAX} levels")]
    Depth,
    /// It holds a type without a description.
    #[error("the service's answer holds an `Any` of a type that is not in the descriptor set")]
    Type,
    /// It holds a value that is invalid for its type.
    #[error("the service's answer holds a `{0}` that is not valid")]
    Value(String),
}

/// The JSON value of a message, and whether it contains bytes.
///
/// # Errors
/// The part of the message that cannot be written.
pub(super) fn json(mut message: DynamicMessage) -> Result<(Json, bool), DecodeError> {
    let mut bytes = false;
    check(&mut message, DEPTH_MAX, &mut bytes)?;
    let name = message.descriptor().full_name().to_owned();
    let written =
        serde_value::to_value(message).map_err(|_error| DecodeError::Value(name.clone()))?;
    Ok((plain(written).ok_or(DecodeError::Value(name))?, bytes))
}

/// Checks that this message and everything in it can be written, with `depth` levels left. Removes
/// extensions; sets `bytes` if it finds any.
fn check(message: &mut DynamicMessage, depth: usize, bytes: &mut bool) -> Result<(), DecodeError> {
    let depth = depth.checked_sub(1).ok_or(DecodeError::Depth)?;
    let of = message.descriptor();
    let known = WellKnownType::of(&of);
    if known == Some(WellKnownType::Any) {
        return any(message, depth, bytes);
    }
    if known.is_some_and(|known| !is_valid(known, message)) {
        return Err(DecodeError::Value(of.full_name().to_owned()));
    }
    message.take_extensions().for_each(drop);
    message.fields_mut().try_for_each(|(_, value)| check_value(value, depth, bytes))
}

fn check_value(value: &mut Value, depth: usize, bytes: &mut bool) -> Result<(), DecodeError> {
    let deeper = || depth.checked_sub(1).ok_or(DecodeError::Depth);
    match value {
        Value::Message(message) => check(message, depth, bytes),
        Value::List(items) => {
            let depth = deeper()?;
            items.iter_mut().try_for_each(|item| check_value(item, depth, bytes))
        }
        Value::Map(pairs) => {
            let depth = deeper()?;
            pairs.values_mut().try_for_each(|item| check_value(item, depth, bytes))
        }
        Value::Bytes(value) => {
            *bytes |= !value.is_empty();
            Ok(())
        }
        Value::Bool(_)
        | Value::I32(_)
        | Value::I64(_)
        | Value::U32(_)
        | Value::U64(_)
        | Value::F32(_)
        | Value::F64(_)
        | Value::String(_)
        | Value::EnumNumber(_) => Ok(()),
    }
}

/// Whether the value is valid. The library would write an invalid one as another value.
fn is_valid(known: WellKnownType, message: &DynamicMessage) -> bool {
    match known {
        WellKnownType::Timestamp => message
            .transcode_to()
            .is_ok_and(|time: Timestamp| (0..1_000_000_000).contains(&time.nanos)),
        WellKnownType::Duration => {
            message.transcode_to().is_ok_and(|Duration { seconds, nanos }| {
                nanos == 0 || seconds == 0 || (nanos < 0) == (seconds < 0)
            })
        }
        WellKnownType::FieldMask => message.transcode_to().is_ok_and(|mask: FieldMask| {
            mask.paths.iter().flat_map(|path| path.split('.')).all(|part| !part.ends_with('_'))
        }),
        WellKnownType::Any
        | WellKnownType::Struct
        | WellKnownType::Value
        | WellKnownType::ListValue
        | WellKnownType::Empty
        | WellKnownType::Wrapper => true,
    }
}

fn any(message: &mut DynamicMessage, depth: usize, bytes: &mut bool) -> Result<(), DecodeError> {
    let packed: Any = message.transcode_to().map_err(|_error| DecodeError::Type)?;
    let name = packed.type_url.rsplit_once('/').map_or("", |(_, name)| name);
    let of =
        message.descriptor().parent_pool().get_message_by_name(name).ok_or(DecodeError::Type)?;
    let wrong = |_error| DecodeError::Value(name.to_owned());
    let mut inner = DynamicMessage::decode(of, &packed.value[..]).map_err(wrong)?;
    check(&mut inner, depth, bytes)?;
    // Normalised, so that it can be sent back: one spelling of a type.
    let type_url = format!("{TYPE_URL}{name}");
    message.transcode_from(&Any { type_url, value: inner.encode_to_vec() }).map_err(wrong)
}

/// The same value as `Json`; `None` if JSON cannot hold it.
fn plain(written: Written) -> Option<Json> {
    Some(match written {
        Written::Unit | Written::Option(None) => Json::Null,
        Written::Option(Some(inner)) | Written::Newtype(inner) => plain(*inner)?,
        Written::Bool(truth) => Json::Bool(truth),
        Written::U32(number) => Json::Int(i64::from(number)),
        Written::I32(number) => Json::Int(i64::from(number)),
        // The shortest text that reads as the same float, not its exact value as a double.
        Written::F32(number) if number.is_finite() => float(number.to_string().parse().ok()?),
        Written::F32(number) => float(f64::from(number)),
        Written::F64(number) => float(number),
        Written::String(text) => Json::String(text),
        Written::Seq(items) => Json::Array(items.into_iter().map(plain).collect::<Option<_>>()?),
        Written::Map(members) => {
            let members = members.into_iter().map(|(name, value)| {
                let Written::String(name) = name else { return None };
                Some((name, plain(value)?))
            });
            Json::Object(members.collect::<Option<_>>()?)
        }
        Written::U8(_)
        | Written::U16(_)
        | Written::U64(_)
        | Written::I8(_)
        | Written::I16(_)
        | Written::I64(_)
        | Written::Char(_)
        | Written::Bytes(_) => return None,
    })
}
