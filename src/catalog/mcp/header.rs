//! Headers that mirror a body (MCP 2026-07-28, "Request Metadata"): writing, reading, and their
//! schema keyword.

use base64::Engine as _;

use super::http::PARAM;
use crate::domain::json::Json;

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// A value in the form of a header: plain where possible, else in the base64 sentinel.
#[must_use]
pub fn encoded(value: &str) -> String {
    let visible = value.bytes().all(|b| (0x20..=0x7e).contains(&b) || b == b'\t');
    let trimmed = value.trim_matches([' ', '\t']).len() == value.len();
    let sentinel = value.starts_with(OPEN) && value.ends_with(CLOSE);
    if visible && trimmed && !sentinel {
        return value.to_owned();
    }
    format!("{OPEN}{}{CLOSE}", base64::engine::general_purpose::STANDARD.encode(value))
}

/// The value of a header; `None` for an unreadable sentinel.
#[must_use]
pub fn decoded(header: &str) -> Option<String> {
    let inner = header.strip_prefix(OPEN).and_then(|rest| rest.strip_suffix(CLOSE));
    let Some(inner) = inner else { return Some(header.to_owned()) };
    String::from_utf8(base64::engine::general_purpose::STANDARD.decode(inner).ok()?).ok()
}

/// One parameter of a tool that is mirrored into `Mcp-Param-<name>`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mirrored {
    /// The part of the header's name after `Mcp-Param-`.
    pub name: String,
    /// Names of properties from the schema's root to the parameter.
    pub path: Vec<String>,
}

impl Mirrored {
    /// The header's name.
    #[must_use]
    pub fn header(&self) -> String {
        format!("{PARAM}{}", self.name.to_ascii_lowercase())
    }
}

/// How an `x-mcp-header` breaks the specification's rules.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Two of one name, in lower case.
    #[error("`x-mcp-header` `{0}` occurs twice")]
    Twice(String),
    /// Not a token.
    #[error("`x-mcp-header` is not a header name")]
    Name,
    /// Not at a plain parameter that properties lead to.
    #[error("`x-mcp-header` `{0}` is not allowed here")]
    Place(String),
}

/// Every `x-mcp-header` of an input schema.
///
/// # Errors
/// What breaks the specification's rules for one: a client must then leave the tool out.
pub fn mirrored(schema: &Json) -> Result<Vec<Mirrored>, Error> {
    let mut found = Vec::new();
    walk(schema, &mut Vec::new(), true, &mut found)?;
    let mut names: Vec<String> = found.iter().map(|m| m.name.to_ascii_lowercase()).collect();
    names.sort();
    match names.iter().zip(names.iter().skip(1)).find(|(one, next)| one == next) {
        Some((name, _)) => Err(Error::Twice(name.clone())),
        None => Ok(found),
    }
}

fn walk(
    schema: &Json,
    path: &mut Vec<String>,
    reachable: bool,
    found: &mut Vec<Mirrored>,
) -> Result<(), Error> {
    match schema {
        Json::Object(members) => {
            if let Some(name) = members.get("x-mcp-header") {
                let name = name.as_str().filter(|name| is_token(name)).ok_or(Error::Name)?;
                let kind = members.get("type").and_then(Json::as_str).unwrap_or_default();
                if !reachable
                    || path.is_empty()
                    || !matches!(kind, "string" | "integer" | "boolean")
                {
                    return Err(Error::Place(name.to_owned()));
                }
                found.push(Mirrored { name: name.to_owned(), path: path.clone() });
            }
            for (key, value) in members {
                match (key.as_str(), value) {
                    ("properties", Json::Object(properties)) => {
                        for (name, property) in properties {
                            path.push(name.clone());
                            walk(property, path, reachable, found)?;
                            path.pop();
                        }
                    }
                    // Values that are data and no schemas.
                    ("enum" | "const" | "default" | "examples" | "example", _) => {}
                    _ => walk(value, path, false, found)?,
                }
            }
            Ok(())
        }
        Json::Array(items) => items.iter().try_for_each(|item| walk(item, path, false, found)),
        Json::Null | Json::Bool(_) | Json::Int(_) | Json::Float(_) | Json::String(_) => Ok(()),
    }
}

fn is_token(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.len() <= 128 && text.bytes().all(plain)
}

/// The value of a mirrored parameter in these arguments, as text; `None` if it is absent or `null`.
#[must_use]
pub fn value(args: &Json, path: &[String]) -> Option<String> {
    let found = path.iter().try_fold(args, |here, name| here.get(name))?;
    match found {
        Json::String(text) => Some(text.clone()),
        Json::Int(number) => Some(number.to_string()),
        Json::Bool(truth) => Some(truth.to_string()),
        Json::Null | Json::Float(_) | Json::Array(_) | Json::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::json::Limits;

    #[test]
    fn values_are_written_as_the_specification_writes_them() {
        for (value, header) in [
            ("us-west1", "us-west1"),
            ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            (" padded ", "=?base64?IHBhZGRlZCA=?="),
            ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
            ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ] {
            assert_eq!(encoded(value), header);
            assert_eq!(decoded(header).as_deref(), Some(value));
        }
        assert_eq!(decoded("=?base64?***?="), None);
        assert_eq!(decoded("=?base64?/w==?="), None);
    }

    fn of(schema: &str) -> Result<Vec<Mirrored>, Error> {
        mirrored(&Json::parse(schema.as_bytes(), &Limits::ARGUMENTS).unwrap())
    }

    #[test]
    fn only_plain_parameters_reached_by_properties_are_mirrored() {
        let valid = r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},
            "o":{"properties":{"b":{"type":"integer","x-mcp-header":"B"}}}}}"#;
        let path = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let expected = [("A", path(&["a"])), ("B", path(&["o", "b"]))];
        let expected = expected.map(|(name, path)| Mirrored { name: name.into(), path });
        assert_eq!(of(valid).unwrap(), expected);
        for schema in [
            r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#,
            r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#,
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
            r#"{"properties":{"a":{"items":{"type":"string","x-mcp-header":"A"}}}}"#,
            r#"{"anyOf":[{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}]}"#,
            r#"{"type":"string","x-mcp-header":"A"}"#,
        ] {
            assert!(of(schema).is_err(), "{schema}");
        }
    }
}
