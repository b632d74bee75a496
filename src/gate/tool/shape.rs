//! How members of JSON of others are read where little depends on them; the rest is `Json::read`.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{DeserializeOwned, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::domain::json::Json;

/// For a member on which nothing depends: what is of another type is none.
pub(super) fn lenient<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    Ok(Json::deserialize(from)?.read().ok())
}

/// For a list on which nothing depends: what is no list is empty. Its items are read strictly.
pub(super) fn list<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    from.deserialize_any(ListOrNone(PhantomData))
}

struct ListOrNone<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListOrNone<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_bool<E: Error>(self, _truth: bool) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_i64<E: Error>(self, _number: i64) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_u64<E: Error>(self, _number: u64) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_f64<E: Error>(self, _number: f64) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_str<E: Error>(self, _text: &str) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            items.push(item);
        }
        Ok(items)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<T>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;
    use crate::domain::members::present;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Color {
        Red,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Thing {
        name: String,
        #[serde(default, deserialize_with = "lenient")]
        count: Option<u64>,
        #[serde(default, deserialize_with = "present")]
        color: Option<Color>,
        #[serde(default, deserialize_with = "list")]
        parts: Vec<Thing>,
    }

    fn parsed(text: &str) -> Json {
        Json::parse(text.as_bytes(), &Limits::FILE).unwrap()
    }

    #[test]
    fn a_value_is_read_as_its_type() {
        let read = parsed(
            r#"{"name":"a","count":-1,"color":"red","parts":[{"name":"b","count":2,"parts":{}}]}"#,
        );
        let part = Thing { name: "b".into(), count: Some(2), color: None, parts: Vec::new() };
        let whole =
            Thing { name: "a".into(), count: None, color: Some(Color::Red), parts: vec![part] };
        assert_eq!(read.read(), Ok(whole));
    }

    #[test]
    fn an_error_names_the_place_and_no_value() {
        for (text, why) in [
            (r#"{"name":7}"#, "`name`: expected a string, found a number"),
            (r#""secret""#, "expected an object"),
            (r#"["secret"]"#, "expected an object"),
            (r#"{"name":"a","parts":[["secret"]]}"#, "`parts[0]`: expected an object"),
            ("{}", "`name` is missing"),
            (r#"{"name":"a","x":"secret"}"#, "unknown member `x`"),
            (r#"{"name":"a","color":null}"#, "`color`: expected a string"),
            (r#"{"name":"a","color":"secret"}"#, "`color`: expected one of red"),
            (
                r#"{"name":"a","parts":[{"name":"b"},{"name":["secret"]}]}"#,
                "`parts[1].name`: expected a string, found a list",
            ),
        ] {
            assert_eq!(parsed(text).read::<Thing>().unwrap_err().to_string(), why, "{text}");
        }
    }

    #[test]
    fn a_value_passed_on_is_the_value_that_came() {
        let json = parsed(r#"{"a":[null,true,-1,7,1e2,0.5,"x"],"b":{}}"#);
        assert_eq!(json.read::<Json>(), Ok(json));
    }
}
