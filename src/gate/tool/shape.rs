//! Foreign JSON as structs. An error names the location and what is expected there, never the
//! value, which may be personal or a secret: refusals are recorded.

use std::fmt::{self, Display};

use serde::de::value::{BorrowedStrDeserializer, StrDeserializer};
use serde::de::{
    self, Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected,
    MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use crate::domain::json::Json;

/// Characters of a foreign name that an error shows.
const SHOWN: usize = 64;

/// Parses this value into a type.
pub(super) fn read<'a, T: Deserialize<'a>>(value: &'a Json) -> Result<T, ShapeError> {
    T::deserialize(Node(value))
}

/// The location at which a value departs from its type, and how.
#[derive(Debug, thiserror::Error)]
#[error("{}{why}", if path.is_empty() { String::new() } else { format!("`{path}`: ") })]
pub(super) struct ShapeError {
    /// `a.b[0]`; empty for the value itself.
    path: String,
    why: String,
}

impl ShapeError {
    /// The same error, seen from one level above.
    fn below(mut self, step: &str) -> Self {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{step}{dot}{}", self.path);
        self
    }
}

impl de::Error for ShapeError {
    fn custom<T: Display>(why: T) -> Self {
        Self { path: String::new(), why: why.to_string() }
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("expected {expected}"))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!("expected {expected}"))
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::custom(format_args!("`{}` is none of `{}`", shown(word), known.join("`, `")))
    }

    fn unknown_field(name: &str, _: &'static [&'static str]) -> Self {
        Self::custom(format_args!("`{}` is not understood", shown(name)))
    }

    fn missing_field(name: &'static str) -> Self {
        Self::custom(format_args!("`{name}` is missing"))
    }
}

fn shown(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(SHOWN).collect()
}

/// A value that is parsed later, or passed on.
#[derive(Debug)]
pub(super) struct Value(pub Json);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyValue).map(Self)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Json, E> {
        Ok(Json::Bool(truth))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Int(number))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Json, E> {
        i64::try_from(number).map(Json::Int).map_err(E::custom)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Float(number))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Json, E> {
        Ok(Json::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(Value(item)) = list.next_element()? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members = Vec::new();
        while let Some((name, Value(member))) = map.next_entry::<String, Value>()? {
            members.push((name, member));
        }
        Ok(Json::object(members))
    }
}

/// For a member that is not required: a value of another type counts as absent.
pub(super) fn lenient<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let Value(value) = Value::deserialize(from)?;
    Ok(read(&value).ok())
}

/// For a list that is not required: a value that is not a list counts as empty. Its items are
/// parsed strictly.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let Value(value) = Value::deserialize(from)?;
    let items = value.as_array().unwrap_or_default().iter().enumerate();
    let item = |(at, item)| read(item).map_err(|why| why.below(&format!("[{at}]")));
    items.map(item).collect::<Result<_, ShapeError>>().map_err(D::Error::custom)
}

/// For an optional member: `null` is a value, and is refused if the type has no null.
pub(super) fn present<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(from).map(Some)
}

struct Node<'a>(&'a Json);

impl<'de> Deserializer<'de> for Node<'de> {
    type Error = ShapeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        match self.0 {
            Json::Null => visitor.visit_unit(),
            Json::Bool(truth) => visitor.visit_bool(*truth),
            Json::Int(number) => match u64::try_from(*number) {
                Ok(number) => visitor.visit_u64(number),
                Err(_negative) => visitor.visit_i64(*number),
            },
            Json::Float(number) => visitor.visit_f64(*number),
            Json::String(text) => visitor.visit_borrowed_str(text),
            Json::Array(items) => visitor.visit_seq(Items(items.iter().enumerate())),
            Json::Object(members) => {
                visitor.visit_map(Members { rest: members.iter(), value: None })
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ShapeError> {
        if *self.0 == Json::Null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        let Some(word) = self.0.as_str() else {
            return Err(ShapeError::custom("expected a text"));
        };
        visitor.visit_enum(StrDeserializer::new(word))
    }

    /// Accepts an object only: serde would also take a list for a struct, with its items as the
    /// fields in order.
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ShapeError> {
        match self.0.as_object() {
            Some(_) => self.deserialize_any(visitor),
            None => Err(ShapeError::custom("expected an object")),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Items<'a>(std::iter::Enumerate<std::slice::Iter<'a, Json>>);

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = ShapeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, ShapeError> {
        let Some((at, item)) = self.0.next() else { return Ok(None) };
        let read = seed.deserialize(Node(item));
        read.map(Some).map_err(|why| why.below(&format!("[{at}]")))
    }
}

struct Members<'a> {
    rest: std::collections::btree_map::Iter<'a, String, Json>,
    value: Option<(&'a str, &'a Json)>,
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = ShapeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ShapeError> {
        let Some((name, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some((name, value));
        seed.deserialize(BorrowedStrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<T::Value, ShapeError> {
        // serde asks a map for a name first, then for its value.
        let Some((name, value)) = self.value.take() else {
            return Err(ShapeError::custom("a value without a name"));
        };
        seed.deserialize(Node(value)).map_err(|why| why.below(&shown(name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        name: String,
        #[serde(default, deserialize_with = "lenient")]
        count: Option<u64>,
        #[serde(default, deserialize_with = "present")]
        color: Option<Color>,
        #[serde(default)]
        parts: Vec<Thing>,
    }

    fn thing(text: &str) -> Result<Thing, ShapeError> {
        read(&Json::parse(text.as_bytes(), &Limits::FILE).unwrap())
    }

    #[test]
    fn a_value_is_read_as_its_type() {
        let read =
            thing(r#"{"name":"a","count":-1,"color":"red","parts":[{"name":"b","count":2}]}"#);
        let part = Thing { name: "b".into(), count: Some(2), color: None, parts: Vec::new() };
        let whole =
            Thing { name: "a".into(), count: None, color: Some(Color::Red), parts: vec![part] };
        assert_eq!(read.unwrap(), whole);
    }

    #[test]
    fn an_error_names_the_place_and_no_value() {
        for (text, why) in [
            (r#"{"name":7}"#, "`name`: expected a string"),
            (r#""secret""#, "expected an object"),
            (r#"["secret"]"#, "expected an object"),
            (r#"{"name":"a","parts":[["secret"]]}"#, "`parts[0]`: expected an object"),
            ("{}", "`name` is missing"),
            (r#"{"name":"a","x":"secret"}"#, "`x` is not understood"),
            (r#"{"name":"a","color":null}"#, "`color`: expected a text"),
            (r#"{"name":"a","color":"blue"}"#, "`color`: `blue` is none of `red`"),
            (
                r#"{"name":"a","parts":[{"name":"b"},{"name":["secret"]}]}"#,
                "`parts[1].name`: expected a string",
            ),
        ] {
            assert_eq!(thing(text).unwrap_err().to_string(), why, "{text}");
        }
    }

    #[test]
    fn a_value_passed_on_is_the_value_that_came() {
        let text = r#"{"a":[null,true,-1,7,1e2,0.5,"x"],"b":{}}"#;
        let json = Json::parse(text.as_bytes(), &Limits::FILE).unwrap();
        assert_eq!(read::<Value>(&json).unwrap().0, json);
    }
}
