//! The encoding of messages, without a service. `tests/grpc` shows that other implementations
//! decode them alike.

use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};

use super::decode::{self, DecodeError};
use super::{encode, one_message};
use crate::domain::canonical;
use crate::domain::json::{Json, Limits};
use crate::tool::grpc::encode::EncodeError;

fn of(name: &str) -> MessageDescriptor {
    let name = format!("google.protobuf.{name}");
    DescriptorPool::global().get_message_by_name(&name).unwrap()
}

fn encoded(name: &str, text: &str) -> Result<DynamicMessage, EncodeError> {
    let json = Json::parse(text.as_bytes(), &Limits::ARGUMENTS).unwrap();
    encode::message(&of(name), &json)
}

fn decoded(message: &DynamicMessage) -> String {
    canonical::text(&decode::json(message.clone()).unwrap().0)
}

#[test]
fn types_with_a_form_of_their_own_come_back_as_they_were() {
    for (name, text) in [
        ("Timestamp", r#""2026-11-22T10:00:00.010Z""#),
        ("Duration", r#""-0.000000001s""#),
        ("FieldMask", r#""a.bC,d""#),
        ("Struct", r#"{"a":[null,true,1.5,"x",{}]}"#),
        ("Value", "null"),
        ("ListValue", "[[],{}]"),
        ("Empty", "{}"),
        ("Int64Value", r#""-9223372036854775808""#),
        ("FloatValue", r#""NaN""#),
        ("BytesValue", r#""AA==""#),
        ("Any", r#"{"@type":"type.googleapis.com/google.protobuf.Empty","value":{}}"#),
    ] {
        assert_eq!(encoded(name, text).map(|message| decoded(&message)).unwrap(), text, "{name}");
    }
    // Another offset is the same time.
    let shifted = encoded("Timestamp", r#""2026-11-22T11:00:00+01:00""#).unwrap();
    assert_eq!(decoded(&shifted), r#""2026-11-22T10:00:00Z""#);
}

#[test]
fn an_invalid_protobuf_value_is_refused_with_its_json_pointer() {
    for (name, text) in [
        ("Timestamp", r#""2026-02-30T00:00:00Z""#),
        ("Timestamp", r#""2026-11-22""#),
        ("Duration", r#""1""#),
        ("Duration", r#""315576000001s""#),
        ("FieldMask", r#""a_b""#),
        ("Int32Value", "2147483648"),
        ("Int64Value", "1"),
        ("UInt64Value", r#""18446744073709551616""#),
        ("BytesValue", r#""AA""#),
        ("Empty", r#"{"a":1}"#),
        ("Struct", "[]"),
    ] {
        assert!(encoded(name, text).is_err(), "{name} {text}");
    }
    let nested = r#"{"@type":"type.googleapis.com/google.protobuf.Any","value":{"@type":"type.googleapis.com/google.protobuf.Empty","value":{"a":1}}}"#;
    assert!(encoded("Any", nested).unwrap_err().to_string().starts_with("`/value/value`: "));
}

#[test]
fn no_depth_of_an_answer_overflows_anything() {
    let empty =
        encoded("Any", r#"{"@type":"type.googleapis.com/google.protobuf.Empty","value":{}}"#);
    let mut packed = empty.unwrap();
    for _ in 0..5_000 {
        let mut outer = DynamicMessage::new(of("Any"));
        outer.set_field_by_name(
            "type_url",
            Value::String("type.googleapis.com/google.protobuf.Any".into()),
        );
        outer.set_field_by_name("value", Value::Bytes(packed.encode_to_vec().into()));
        packed = outer;
    }
    assert_eq!(decode::json(packed), Err(DecodeError::Depth));
    // Lists of lists are refused before they are parsed.
    let mut bytes = Vec::new();
    for key in [0x0a, 0x32].into_iter().cycle().take(10_000) {
        let mut outer = vec![key];
        prost::encoding::encode_varint(bytes.len().try_into().unwrap(), &mut outer);
        outer.append(&mut bytes);
        bytes = outer;
    }
    assert!(DynamicMessage::decode(of("Value"), &bytes[..]).is_err());
}

#[test]
fn an_answer_is_one_plain_message_to_its_last_byte() {
    assert_eq!(one_message(b"\0\0\0\0\x02ab"), Some(&b"ab"[..]));
    assert_eq!(one_message(b"\0\0\0\0\0"), Some(&b""[..]));
    for malformed in
        [&b""[..], b"\0\0\0\0", b"\x01\0\0\0\x02ab", b"\0\0\0\0\x03ab", b"\0\0\0\0\x01ab"]
    {
        assert_eq!(one_message(malformed), None, "{malformed:?}");
    }
}
