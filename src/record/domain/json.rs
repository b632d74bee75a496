//! The strict JSON reader: one pass of our own, before anything else sees the bytes.
//!
//! Parsers disagree about duplicate keys, big integers, byte-order marks and trailing bytes, and a
//! gate that reads another value than the tool does is useless. So everything that two parsers
//! could read differently is refused here (RFC 8259, RFC 7493), with a stable detail code.

use std::collections::BTreeMap;

use super::reader::{JsonReader, Read};

/// A JSON value that every conforming parser reads the same way.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// An integer within ±(2^53 − 1) (RFC 7493 §2.2).
    Int(i64),
    /// A finite number written with a fraction or an exponent. Never `-0`.
    Float(f64),
    /// A string of Unicode scalar values.
    String(String),
    /// An ordered list.
    Array(Vec<Json>),
    /// Members by name; no two names equal, nor equal under case folding.
    Object(BTreeMap<String, Json>),
}

/// Largest integer magnitude that every IEEE 754 reader keeps exact: 2^53 − 1.
pub const INT_MAX: i64 = 9_007_199_254_740_991;

/// The limits of one document.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of the whole text.
    pub bytes_max: usize,
    /// Nested arrays and objects.
    pub depth_max: usize,
    /// Values and member names together.
    pub values_max: usize,
    /// Bytes of one member name, after unescaping.
    pub key_bytes_max: usize,
}

impl Limits {
    /// The limits of tool arguments: 1 MiB, 32 levels, 65,536 values, names of 256 bytes.
    pub const ARGUMENTS: Self =
        Self { bytes_max: 1 << 20, depth_max: 32, values_max: 65_536, key_bytes_max: 256 };
    /// The body of a request to a model.
    pub const MODEL: Self = Self {
        bytes_max: 32 * 1024 * 1024,
        depth_max: 64,
        values_max: 1_000_000,
        key_bytes_max: 1024,
    };
    /// The limits of a ledger entry: 65,535 bytes and 16 levels (the profile itself allows 6).
    pub const ENTRY: Self =
        Self { bytes_max: 65_535, depth_max: 16, values_max: 16_384, key_bytes_max: 128 };
    /// The limits of a file we wrote ourselves (bundle members, envelopes): 256 MiB.
    pub const FILE: Self =
        Self { bytes_max: 1 << 28, depth_max: 64, values_max: 1 << 24, key_bytes_max: 1024 };
}

/// Why a text was refused. `code` is part of the contract (`detail` of `request.malformed`).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message} at byte {offset}")]
pub struct Error {
    /// Stable dotted code: `json.duplicate_key`, `json.depth`, …
    pub code: &'static str,
    /// What is wrong, for a person.
    pub message: String,
    /// Where in the text, counted in bytes from 0.
    pub offset: usize,
}

impl Json {
    /// Reads one strict document.
    ///
    /// # Errors
    /// The first thing wrong with the text, with its stable code and place.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Self, Error> {
        Self::parse_telling(text, limits).map(|read| read.value)
    }

    /// As [`Self::parse`]; also reports whether the text is the value's canonical form, and where
    /// its members stand. See `canonical`.
    pub(super) fn parse_telling(text: &[u8], limits: &Limits) -> Result<Read, Error> {
        if text.len() > limits.bytes_max {
            let message =
                format!("{} bytes, at most {} are accepted", text.len(), limits.bytes_max);
            return Err(Error { code: "json.size", message, offset: limits.bytes_max });
        }
        if text.starts_with(&[0xEF, 0xBB, 0xBF]) {
            return Err(Error { code: "json.bom", message: "byte order mark".into(), offset: 0 });
        }
        let text = std::str::from_utf8(text).map_err(|e| Error {
            code: "json.utf8",
            message: "not UTF-8".into(),
            offset: e.valid_up_to(),
        })?;
        JsonReader::read(text, limits)
    }

    /// The member of this name, if this is an object that has it.
    pub fn get(&self, name: &str) -> Option<&Self> {
        match self {
            Self::Object(members) => members.get(name),
            Self::Null
            | Self::Bool(_)
            | Self::Int(_)
            | Self::Float(_)
            | Self::String(_)
            | Self::Array(_) => None,
        }
    }

    /// The text, if this is a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// The number, if this is an integer.
    pub fn as_int(&self) -> Option<i64> {
        if let Self::Int(number) = self { Some(*number) } else { None }
    }

    /// The number, if this is an integer that is not negative.
    pub fn as_u64(&self) -> Option<u64> {
        self.as_int().and_then(|n| u64::try_from(n).ok())
    }

    /// The truth value, if this is one.
    pub fn as_bool(&self) -> Option<bool> {
        if let Self::Bool(truth) = self { Some(*truth) } else { None }
    }

    /// The items, if this is an array.
    pub fn as_array(&self) -> Option<&[Self]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// The members, if this is an object.
    pub fn as_object(&self) -> Option<&BTreeMap<String, Self>> {
        if let Self::Object(members) = self { Some(members) } else { None }
    }

    /// An object of these members.
    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Object(members.into_iter().map(|(k, v)| (k.into(), v)).collect())
    }

    /// A value of ours as JSON; `null` if it has no JSON form.
    pub fn of(value: &impl serde::Serialize) -> Self {
        serde_json::to_value(value).map_or(Self::Null, Self::from)
    }

    /// The same value for libraries that speak `serde_json`.
    pub fn to_serde(&self) -> serde_json::Value {
        match self {
            Self::Null => serde_json::Value::Null,
            Self::Bool(b) => (*b).into(),
            Self::Int(n) => (*n).into(),
            Self::Float(n) => {
                serde_json::Number::from_f64(*n).map_or(serde_json::Value::Null, Into::into)
            }
            Self::String(s) => s.as_str().into(),
            Self::Array(items) => items.iter().map(Self::to_serde).collect(),
            Self::Object(members) => serde_json::Value::Object(
                members.iter().map(|(k, v)| (k.clone(), v.to_serde())).collect(),
            ),
        }
    }
}

/// A value of ours as [`Json`], written as JSON: `json!({"name": name, "size": size})`.
#[macro_export]
macro_rules! json {
    ($($value:tt)+) => { $crate::domain::json::Json::from(serde_json::json!($($value)+)) };
}

pub use json;

/// Integers saturate at ±(2^53 − 1), as those of our counters do.
impl From<serde_json::Value> for Json {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(truth) => Self::Bool(truth),
            serde_json::Value::Number(n) => match (n.as_i64(), n.as_u64()) {
                (Some(n), _) => Self::Int(n.clamp(-INT_MAX, INT_MAX)),
                (None, Some(_)) => Self::Int(INT_MAX),
                (None, None) => n.as_f64().map_or(Self::Null, Self::Float),
            },
            serde_json::Value::String(text) => Self::String(text),
            serde_json::Value::Array(items) => items.into_iter().map(Self::from).collect(),
            serde_json::Value::Object(members) => {
                Self::object(members.into_iter().map(|(name, value)| (name, Self::from(value))))
            }
        }
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Json {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<u64> for Json {
    /// Saturates at 2^53 − 1: no counter of ours gets there.
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).map_or(INT_MAX, |n| n.min(INT_MAX)))
    }
}

impl FromIterator<Self> for Json {
    fn from_iter<I: IntoIterator<Item = Self>>(items: I) -> Self {
        Self::Array(items.into_iter().collect())
    }
}

impl From<Vec<Self>> for Json {
    fn from(items: Vec<Self>) -> Self {
        Self::Array(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> &'static str {
        Json::parse(text.as_bytes(), &Limits::ARGUMENTS).map_or_else(|e| e.code, |_| "ok")
    }

    #[test]
    fn what_two_parsers_could_read_differently_is_refused() {
        let cases = [
            (r#"{"a":1,"a":2}"#, "json.duplicate_key"),
            (r#"{"path":1,"p\u0061th":2}"#, "json.duplicate_key"),
            (r#"{"path":1,"Path":2}"#, "json.duplicate_key"),
            ("{\"s\":1,\"ſ\":2}", "json.duplicate_key"),
            (r#"{"a":NaN}"#, "json.syntax"),
            (r#"{"a":18446744073709551616}"#, "json.int_out_of_range"),
            (r#"{"a":9007199254740992}"#, "json.int_out_of_range"),
            (r#"{"a":9007199254740991}"#, "ok"),
            (r#"{"a":1e300}"#, "json.int_out_of_range"),
            (r#"{"a":1e400}"#, "json.number_range"),
            (r#"{"a":-0}"#, "json.negative_zero"),
            (r#"{"a":-0.0}"#, "json.negative_zero"),
            (r#"{"a":01}"#, "json.syntax"),
            (r#"{"a":"\ud800x"}"#, "json.lone_surrogate"),
            (r#"{"a":"\ud83d\ude00"}"#, "ok"),
            ("\u{feff}{}", "json.bom"),
            ("{} {}", "json.trailing_data"),
            ("{}/* */", "json.trailing_data"),
            ("", "json.syntax"),
            ("[1,]", "json.syntax"),
            ("{\"a\":\"\t\"}", "json.syntax"),
        ];
        for (text, expected) in cases {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn two_hundred_nested_arrays_and_a_hundred_thousand_are_refused_without_recursion() {
        for depth in [33, 200, 100_000] {
            let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(code(&text), "json.depth");
        }
        let text = format!("{}{}", "[".repeat(32), "]".repeat(32));
        assert_eq!(code(&text), "ok");
    }

    #[test]
    fn one_byte_over_the_size_is_refused_before_parsing() {
        let text = format!("\"{}\"", "x".repeat((1 << 20) - 1));
        assert_eq!(code(&text), "json.size");
        assert_eq!(Json::parse(b"\xff", &Limits::ARGUMENTS).unwrap_err().code, "json.utf8");
    }

    #[test]
    fn too_many_values_are_refused() {
        let text = format!("[{}1]", "1,".repeat(70_000));
        assert_eq!(code(&text), "json.count");
    }
}
