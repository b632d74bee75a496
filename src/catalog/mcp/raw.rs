//! One JSON object, member by member, each value as its original bytes.

use std::fmt;

use serde::de::{Deserialize, Deserializer as _, Error as _, MapAccess, Visitor};
use serde_json::value::RawValue;

/// Parses an object into a type; refuses a name that is there twice, even one that the type ignores.
///
/// # Errors
/// Not such an object.
pub fn read<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, serde_json::Error> {
    Members::parse(text.as_bytes())?;
    serde_json::from_str(text)
}

/// The members of one object in their order; no two names are equal.
#[derive(Debug, Default)]
pub struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'a> Members<'a> {
    /// Reads exactly one object.
    ///
    /// # Errors
    /// Not JSON, not an object, or a name that is there twice.
    pub fn parse(text: &'a [u8]) -> Result<Self, serde_json::Error> {
        let mut reader = serde_json::Deserializer::from_slice(text);
        let members = reader.deserialize_map(RawReading)?;
        reader.end()?;
        Ok(members)
    }

    /// The members of an object within a message.
    ///
    /// # Errors
    /// As [`Members::parse`].
    pub fn of(raw: &'a RawValue) -> Result<Self, serde_json::Error> {
        Self::parse(raw.get().as_bytes())
    }

    /// The value of this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
    }

    /// The values of these names.
    #[must_use]
    pub fn pick<const N: usize>(&self, names: [&str; N]) -> [Option<&'a RawValue>; N] {
        names.map(|name| self.get(name))
    }

    /// The string of this name, if there is one and it is a string.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// Every member in its order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

struct RawReading;

impl<'de> Visitor<'de> for RawReading {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members: Vec<(String, &RawValue)> = Vec::new();
        let mut seen = std::collections::BTreeSet::new();
        while let Some((name, value)) = map.next_entry::<String, &RawValue>()? {
            if !seen.insert(name.clone()) {
                return Err(A::Error::custom("a name is there twice"));
            }
            members.push((name, value));
        }
        Ok(Members(members))
    }
}

/// Writes one object from raw members, in their order.
#[derive(Debug)]
pub struct ObjectWriter(Vec<u8>);

impl Default for ObjectWriter {
    fn default() -> Self {
        Self(vec![b'{'])
    }
}

impl ObjectWriter {
    /// Adds one member. `value` must be JSON; it is written as it is.
    #[must_use]
    pub fn member(mut self, name: &str, value: &[u8]) -> Self {
        if self.0.len() > 1 {
            self.0.push(b',');
        }
        self.0.extend_from_slice(quoted(name).as_bytes());
        self.0.push(b':');
        self.0.extend_from_slice(value);
        self
    }

    /// Adds one member that is text.
    #[must_use]
    pub fn text(self, name: &str, value: &str) -> Self {
        self.member(name, quoted(value).as_bytes())
    }

    /// Adds members as they are.
    #[must_use]
    pub fn copy<'a>(self, members: impl IntoIterator<Item = (&'a str, &'a RawValue)>) -> Self {
        members.into_iter().fold(self, |own, (name, raw)| own.member(name, raw.get().as_bytes()))
    }

    /// The object.
    #[must_use]
    pub fn end(mut self) -> Vec<u8> {
        self.0.push(b'}');
        self.0
    }
}

/// A JSON array of these values.
#[must_use]
pub fn array(values: &[Vec<u8>]) -> Vec<u8> {
    [b"[".as_slice(), &values.join(b",".as_slice()), b"]"].concat()
}

/// A JSON string.
#[must_use]
pub fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_and_their_bytes() {
        let text = br#"{ "z" : 1e400, "a":{"x":1,"x":2} , "\u0062":" \u00e9" }"#;
        let members = Members::parse(text).unwrap();
        let seen: Vec<_> = members.iter().map(|(n, v)| (n.to_owned(), v.get())).collect();
        let expected = [("z", "1e400"), ("a", r#"{"x":1,"x":2}"#), ("b", r#"" \u00e9""#)];
        assert_eq!(seen, expected.map(|(n, v)| (n.to_owned(), v)));
        let again = ObjectWriter::default().copy(members.iter());
        assert_eq!(again.end(), br#"{"z":1e400,"a":{"x":1,"x":2},"b":" \u00e9"}"#);
        assert_eq!(ObjectWriter::default().end(), b"{}");
    }

    #[test]
    fn one_object_without_repeated_names_is_read_and_nothing_else() {
        for text in [
            "",
            "[]",
            "1",
            r#"{"a":1,"a":2}"#,
            r#"{"a":1,"\u0061":2}"#,
            "{} {}",
            "{}x",
            r#"{"a":}"#,
        ] {
            assert!(Members::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
