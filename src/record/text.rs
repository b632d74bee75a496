//! The types of entry members: bounded text, lists and integers, and bytes in their one spelling.
//!
//! Each holds only what the schema of entries allows, so every entry that can be built can be
//! recorded.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::domain::closed::{read, textual, write_hex};
use crate::domain::digest::Digest;
use crate::domain::json::INT_MAX;

/// Text of at most `MAX` Unicode characters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Text<const MAX: usize = 4096>(String);

impl<const MAX: usize> Text<MAX> {
    /// This text, if it is short enough.
    pub fn new(text: impl Into<String>) -> Option<Self> {
        let text = text.into();
        (text.len() <= MAX || text.chars().count() <= MAX).then_some(Self(text))
    }

    /// The first `most` bytes of this text, cut at a character; never more than `MAX`.
    pub fn clip(text: &str, most: usize) -> Self {
        let mut end = most.min(MAX).min(text.len());
        while !text.is_char_boundary(end) {
            end = end.saturating_sub(1);
        }
        Self(text.get(..end).unwrap_or_default().to_owned())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text is longer than an entry can hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("longer than {0} characters")]
pub struct TooLong(usize);

/// Text from a person is accepted whole or refused, never cut.
impl<const MAX: usize> FromStr for Text<MAX> {
    type Err = TooLong;

    fn from_str(text: &str) -> Result<Self, TooLong> {
        Self::new(text).ok_or(TooLong(MAX))
    }
}

impl<const MAX: usize> From<&str> for Text<MAX> {
    /// Text longer than an entry may hold is cut.
    fn from(text: &str) -> Self {
        Self::new(text).unwrap_or_else(|| Self::clip(text, MAX))
    }
}

impl<const MAX: usize> From<&String> for Text<MAX> {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl<const MAX: usize> From<String> for Text<MAX> {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl<const MAX: usize> Deref for Text<MAX> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const MAX: usize> PartialEq<str> for Text<MAX> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl<const MAX: usize> PartialEq<&str> for Text<MAX> {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl<const MAX: usize> fmt::Display for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<const MAX: usize> fmt::Debug for Text<MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(from)?)
            .ok_or_else(|| D::Error::custom(format_args!("more than {MAX} characters")))
    }
}

/// `MIN` to `MAX` items.
#[derive(Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct List<T, const MAX: usize = 256, const MIN: usize = 0>(Vec<T>);

impl<T, const MAX: usize, const MIN: usize> List<T, MAX, MIN> {
    /// These items without those after the first `MAX`; `None` if there are fewer than `MIN`.
    pub fn some(items: impl IntoIterator<Item = T>) -> Option<Self> {
        let items: Vec<T> = items.into_iter().take(MAX).collect();
        (items.len() >= MIN).then_some(Self(items))
    }
}

impl<T, const MAX: usize> FromIterator<T> for List<T, MAX, 0> {
    /// The items after the first `MAX` are left out.
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self(items.into_iter().take(MAX).collect())
    }
}

impl<T, const MAX: usize> Default for List<T, MAX, 0> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T, const MAX: usize, const MIN: usize> Deref for List<T, MAX, MIN> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: fmt::Debug, const MAX: usize, const MIN: usize> fmt::Debug for List<T, MAX, MIN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize, const MIN: usize> Deserialize<'de>
    for List<T, MAX, MIN>
{
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let items = Vec::deserialize(from)?;
        match items.len() {
            few if few < MIN => Err(D::Error::custom(format_args!("fewer than {MIN} items"))),
            many if many > MAX => Err(D::Error::custom(format_args!("more than {MAX} items"))),
            _ => Ok(Self(items)),
        }
    }
}

/// An integer from `MIN` to 2^53 − 1, which every reader of JSON keeps exact.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(transparent)]
pub struct Int<const MIN: u64 = 0>(u64);

impl<const MIN: u64> Int<MIN> {
    const MAX: u64 = INT_MAX.unsigned_abs();

    /// The number.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl<const MIN: u64> From<u64> for Int<MIN> {
    /// Saturates at both ends: no counter of ours gets there.
    fn from(number: u64) -> Self {
        Self(number.clamp(MIN, Self::MAX))
    }
}

impl<const MIN: u64> From<u32> for Int<MIN> {
    fn from(number: u32) -> Self {
        Self::from(u64::from(number))
    }
}

impl<const MIN: u64> From<usize> for Int<MIN> {
    fn from(number: usize) -> Self {
        Self::from(u64::try_from(number).unwrap_or(u64::MAX))
    }
}

impl<const MIN: u64> fmt::Display for Int<MIN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<const MIN: u64> fmt::Debug for Int<MIN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<'de, const MIN: u64> Deserialize<'de> for Int<MIN> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(from)?;
        let fits = (MIN..=Self::MAX).contains(&number);
        let error = || D::Error::custom(format_args!("not from {MIN} to 2^53 - 1"));
        fits.then_some(Self(number)).ok_or_else(error)
    }
}

/// `true`, as the only value: the member is either present or absent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct True;

impl True {
    /// The member, if the fact holds.
    pub fn when(holds: bool) -> Option<Self> {
        holds.then_some(Self)
    }
}

impl Serialize for True {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bool(true)
    }
}

impl<'de> Deserialize<'de> for True {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        bool::deserialize(from)?.then_some(Self).ok_or_else(|| D::Error::custom("not `true`"))
    }
}

macro_rules! wraps {
    ($name:ident($inner:ty), $parse:expr, $write:expr) => {
        impl $name {
            /// Reads its one spelling.
            pub fn parse(text: &str) -> Option<Self> {
                let read: fn(&str) -> Option<$inner> = $parse;
                read(text).map(Self)
            }
        }

        impl From<$inner> for $name {
            fn from(inner: $inner) -> Self {
                Self(inner)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let write: fn(&$inner, &mut fmt::Formatter<'_>) -> fmt::Result = $write;
                write(&self.0, f)
            }
        }
    };
}

/// A SHA-256 value, written as 64 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HexDigest(pub Digest);

wraps!(
    HexDigest(Digest),
    |text| (text.len() == 64).then(|| Digest::parse(text)).flatten(),
    |digest, f| digest.fmt(f)
);
textual!(HexDigest, "64 lowercase hex digits", "^[0-9a-f]{64}$");

/// A SHA-256 value, written as `sha256:` and 64 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaggedDigest(pub Digest);

wraps!(
    TaggedDigest(Digest),
    |text| text.strip_prefix("sha256:").and_then(HexDigest::parse).map(|hex| hex.0),
    |digest, f| write!(f, "sha256:{digest}")
);
textual!(TaggedDigest, "`sha256:` and 64 lowercase hex digits", "^sha256:[0-9a-f]{64}$");

impl Deref for HexDigest {
    type Target = Digest;

    fn deref(&self) -> &Digest {
        &self.0
    }
}

impl Deref for TaggedDigest {
    type Target = Digest;

    fn deref(&self) -> &Digest {
        &self.0
    }
}

/// 16 random bytes that make a statement unique, written as 32 lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Nonce(pub [u8; 16]);

wraps!(
    Nonce([u8; 16]),
    |text| {
        let lower = text.len() == 32 && !text.bytes().any(|b| b.is_ascii_uppercase());
        let mut bytes = [0; 16];
        (lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
    },
    |bytes, f| write_hex(bytes, f)
);
textual!(Nonce, "32 lowercase hex digits", "^[0-9a-f]{32}$");

/// An instant, or the size of a clock step, as decimal text: milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Millis(pub i64);

wraps!(
    Millis(i64),
    |text| text.parse().ok().filter(|n: &i64| n.to_string() == text && text.len() <= 19),
    |millis, f| millis.fmt(f)
);
textual!(Millis, "whole milliseconds", "^(0|-?[1-9][0-9]{0,17})$");

/// Microseconds since a process started, as decimal text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Micros(pub u64);

wraps!(
    Micros(u64),
    |text| text.parse().ok().filter(|n: &u64| n.to_string() == text),
    |micros, f| micros.fmt(f)
);
textual!(Micros, "whole microseconds", "^(0|[1-9][0-9]*)$");

/// `N` bytes as lowercase hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hex<const N: usize>(pub [u8; N]);

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from, "lowercase hex digits of the right length", |text| {
            let mut bytes = [0; N];
            let lower = !text.bytes().any(|b| b.is_ascii_uppercase());
            (lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(Self(bytes))
        })
    }
}

/// `N` bytes in standard base64 with padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Base64<const N: usize>(pub [u8; N]);

impl<const N: usize> Base64<N> {
    /// Reads its one spelling.
    pub fn parse(text: &str) -> Option<Self> {
        STANDARD.decode(text).ok()?.try_into().ok().map(Self)
    }
}

impl<const N: usize> fmt::Display for Base64<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl<const N: usize> Serialize for Base64<N> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Base64<N> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        read(from, "base64 of the right length", Self::parse)
    }
}

#[cfg(test)]
mod schema {
    use std::borrow::Cow;

    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    use super::{Base64, Int, List, Text, True};

    macro_rules! inline {
        ($name:literal) => {
            fn inline_schema() -> bool {
                true
            }
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }
        };
    }

    impl<const MAX: usize> JsonSchema for Text<MAX> {
        inline!("Text");
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": "string", "maxLength": MAX})
        }
    }

    impl<const MIN: u64> JsonSchema for Int<MIN> {
        inline!("Int");
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"type": "integer", "minimum": MIN, "maximum": Self::MAX})
        }
    }

    impl JsonSchema for True {
        inline!("True");
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({"const": true})
        }
    }

    impl<const N: usize> JsonSchema for Base64<N> {
        inline!("Base64");
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            let pad = (3 - N % 3) % 3;
            let digits = N.div_ceil(3) * 4 - pad;
            json_schema!({"type": "string", "pattern": format!("^[A-Za-z0-9+/]{{{digits}}}{}$", "=".repeat(pad))})
        }
    }

    impl<T: JsonSchema, const MAX: usize, const MIN: usize> JsonSchema for List<T, MAX, MIN> {
        inline!("List");
        fn json_schema(from: &mut SchemaGenerator) -> Schema {
            let items = from.subschema_for::<T>();
            let mut schema = json_schema!({"type": "array", "items": items, "maxItems": MAX});
            if MIN > 0 {
                schema.insert("minItems".into(), MIN.into());
            }
            schema
        }
    }
}
