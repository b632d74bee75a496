//! Reads strict JSON into types (`serde`): a type defines the members of a document and their
//! values.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::{BorrowedStrDeserializer, MapDeserializer, SeqDeserializer};
use serde::de::{
    Deserialize, Deserializer, Error as _, Expected, IntoDeserializer, MapAccess, SeqAccess,
    Unexpected, Visitor,
};
use serde::{Serialize, Serializer, forward_to_deserialize_any};

use super::json::Json;

/// Characters of a place or a name that an error shows: documents choose their names.
const SHOWN: usize = 128;

/// Why a document does not match a type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Mismatch {
    /// A required member is absent.
    #[error("`{0}` is missing")]
    Missing(String),
    /// A member that the type does not have.
    #[error("unknown member `{0}`")]
    Unknown(String),
    /// A member with an invalid value.
    #[error("{}{why}", place(path))]
    Value {
        /// The member; empty for the whole.
        path: String,
        /// What is wrong with it.
        why: String,
    },
}

/// A name that a document chose, as an error shows it.
fn clipped(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

fn place(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("`{path}`: ") }
}

impl Mismatch {
    fn at(path: &serde_path_to_error::Path, departure: Wrong) -> Self {
        let path = Some(clipped(&path.to_string())).filter(|path| path != ".").unwrap_or_default();
        let below = |name: &str| match path.as_str() {
            "" => name.to_owned(),
            above => format!("{above}.{name}"),
        };
        match departure {
            Wrong::Missing(name) => Self::Missing(below(name)),
            // The path includes it already.
            Wrong::Unknown(name) if path.is_empty() => Self::Unknown(name),
            Wrong::Unknown(_) => Self::Unknown(path),
            Wrong::Value(why) => Self::Value { path, why },
        }
    }

    /// The member of the document with the mismatch; empty for the whole.
    pub fn member(&self) -> &str {
        let (Self::Missing(path) | Self::Unknown(path) | Self::Value { path, .. }) = self;
        path.split(['.', '[']).next().unwrap_or_default()
    }
}

/// The mismatch found by one reading step, without its place.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// See [`Mismatch::Missing`].
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// See [`Mismatch::Unknown`].
    #[error("unknown member `{0}`")]
    Unknown(String),
    /// See [`Mismatch::Value`].
    #[error("{0}")]
    Value(String),
}

impl serde::de::Error for Wrong {
    fn custom<T: fmt::Display>(why: T) -> Self {
        Self::Value(why.to_string())
    }

    /// The found value is not repeated: it may be long, or not printable.
    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Value(format!("expected {expected}, found {}", kind(&found)))
    }

    fn invalid_value(_found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Value(format!("expected {expected}"))
    }

    fn unknown_variant(_variant: &str, expected: &'static [&'static str]) -> Self {
        Self::Value(format!("expected one of {}", expected.join(", ")))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::Missing(field)
    }

    fn unknown_field(field: &str, _expected: &'static [&'static str]) -> Self {
        Self::Unknown(clipped(field))
    }
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the enum of serde, whose other values no JSON has"
)]
const fn kind(found: &Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a truth value",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Char(_) | Unexpected::Str(_) => "a string",
        Unexpected::Unit => "null",
        Unexpected::Seq => "a list",
        Unexpected::Map => "an object",
        _ => "another value",
    }
}

impl Json {
    /// Reads this value into a type.
    ///
    /// # Errors
    /// The first member that does not match the type, and how.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Mismatch> {
        serde_path_to_error::deserialize(self).map_err(|e| {
            let path = e.path().clone();
            Mismatch::at(&path, e.into_inner())
        })
    }
}

impl<'de> Deserializer<'de> for &'de Json {
    type Error = Wrong;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        match self {
            Json::Null => visitor.visit_unit(),
            Json::Bool(truth) => visitor.visit_bool(*truth),
            Json::Int(number) => match u64::try_from(*number) {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => visitor.visit_i64(*number),
            },
            Json::Float(number) => visitor.visit_f64(*number),
            Json::String(text) => visitor.visit_borrowed_str(text),
            Json::Array(items) => {
                let mut items = SeqDeserializer::new(items.iter());
                let value = visitor.visit_seq(&mut items)?;
                items.end()?;
                Ok(value)
            }
            Json::Object(members) => visitor.visit_map(MapDeserializer::new(named(members))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Wrong> {
        if matches!(self, Json::Null) { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        visitor.visit_newtype_struct(self)
    }

    /// Accepts only an object: a list of the same values would be a second spelling.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let Json::Object(members) = self else { return Err(Wrong::custom("expected an object")) };
        visitor.visit_map(MapDeserializer::new(named(members)))
    }

    /// Accepts only strings: our enums have no values.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Wrong> {
        let Json::String(text) = self else { return Err(Wrong::custom("expected a string")) };
        visitor.visit_enum(BorrowedStrDeserializer::new(text))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// For a member that may be absent (`#[serde(default, deserialize_with = "present")]`): `null` is a
/// value of it, and refused where the type has none.
///
/// # Errors
/// The value is not of the type.
pub fn present<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(from).map(Some)
}

fn named(members: &BTreeMap<String, Json>) -> impl Iterator<Item = (&str, &Json)> {
    members.iter().map(|(name, value)| (name.as_str(), value))
}

impl<'de> IntoDeserializer<'de, Wrong> for &'de Json {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Writes members in the order of their names; `canonical` makes the one form that is hashed and
/// signed.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => to.serialize_unit(),
            Self::Bool(truth) => to.serialize_bool(*truth),
            Self::Int(number) => to.serialize_i64(*number),
            Self::Float(number) => to.serialize_f64(*number),
            Self::String(text) => to.serialize_str(text),
            Self::Array(items) => to.collect_seq(items),
            Self::Object(members) => to.collect_map(members),
        }
    }
}

/// A member that may hold any value.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Any)
    }
}

struct Any;

impl<'de> Visitor<'de> for Any {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Json, E> {
        Ok(Json::Bool(truth))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Json, E> {
        let fits = number.unsigned_abs() <= super::json::INT_MAX.unsigned_abs();
        fits.then_some(Json::Int(number)).ok_or_else(|| E::custom("not within ±(2^53 - 1)"))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Json, E> {
        self.visit_i64(i64::try_from(number).unwrap_or(i64::MAX))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::from(text))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element()? {
            all.push(item);
        }
        Ok(Json::Array(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Json, A::Error> {
        let mut all = BTreeMap::new();
        while let Some((name, value)) = members.next_entry::<String, Json>()? {
            if all.insert(name, value).is_some() {
                return Err(A::Error::custom("a name is given twice"));
            }
        }
        Ok(Json::Object(all))
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::json::Limits;
    use super::*;

    #[derive(PartialEq, Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sample<'a> {
        name: &'a str,
        count: u64,
        #[serde(default)]
        list: Vec<i64>,
        any: Option<Json>,
    }

    fn parsed(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
    }

    #[test]
    fn a_document_is_read_into_a_type_and_what_departs_from_it_is_named() {
        let whole =
            parsed(r#"{"any":{"a":[1,-2,0.5,null,true]},"count":3,"list":[-1],"name":"n"}"#);
        let any = Some(parsed(r#"{"a":[1,-2,0.5,null,true]}"#));
        let sample = Sample { name: "n", count: 3, list: vec![-1], any };
        assert_eq!(whole.read(), Ok(sample));
        for (text, expected) in [
            (r#"{"name":"n"}"#, "`count` is missing"),
            (r#"{"count":1,"more":1,"name":"n"}"#, "unknown member `more`"),
            (r#"{"count":1,"list":[1,"x"],"name":"n"}"#, "`list[1]`: expected i64, found a string"),
            (r#"{"count":-1,"name":"n"}"#, "`count`: expected u64"),
            ("[]", "expected an object"),
        ] {
            let wrong_read = parsed(text).read::<Sample<'_>>().unwrap_err().to_string();
            assert!(wrong_read.starts_with(expected), "{text}: {wrong_read}");
        }
    }
}
