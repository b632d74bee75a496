//! Writes values as YAML that people read and the strict reader takes.

use serde_json::Value;

use crate::mcp::raw::quoted;

/// Members of an inline mapping at most, and their characters.
const INLINE: (usize, usize) = (4, 72);

/// A scalar, quoted unless it can be nothing but text.
#[must_use]
pub fn text(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_./-".contains(&b);
    let word = matches!(
        text.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    let letter = text.bytes().next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'/');
    if letter && !word && text.bytes().all(plain) { text.to_owned() } else { quoted(text) }
}

/// A value below a key or a dash, its lines indented by `indent` spaces; ends with a line break.
#[must_use]
pub fn block(value: &Value, indent: usize) -> String {
    if let Some(line) = inline(value) {
        return format!(" {line}\n");
    }
    let pad = " ".repeat(indent);
    let deeper = indent.saturating_add(2);
    match value {
        Value::Object(members) => {
            let lines = members
                .iter()
                .map(|(name, value)| format!("{pad}{}:{}", text(name), block(value, deeper)));
            format!("\n{}", lines.collect::<String>())
        }
        Value::Array(items) => {
            let lines = items.iter().map(|item| format!("{pad}-{}", block(item, deeper)));
            format!("\n{}", lines.collect::<String>())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            format!(" {}\n", scalar(value))
        }
    }
}

fn scalar(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), text)
}

/// The value on one line, if it is small enough to be read there.
fn inline(value: &Value) -> Option<String> {
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    let line = match value {
        Value::Object(members) => {
            let small = members.len() <= INLINE.0 && members.values().all(is_scalar);
            let pairs = members.iter().map(|(k, v)| format!("{}: {}", text(k), scalar(v)));
            small.then(|| format!("{{{}}}", pairs.collect::<Vec<_>>().join(", ")))?
        }
        Value::Array(items) => items
            .iter()
            .all(is_scalar)
            .then(|| format!("[{}]", items.iter().map(scalar).collect::<Vec<_>>().join(", ")))?,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            return Some(scalar(value));
        }
    };
    (line.chars().count() <= INLINE.1).then_some(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_written_is_read_back() {
        let long = "x".repeat(100);
        for value in [
            json!({"name": "git", "args": ["-y", "@scope/pkg", "/tmp", "yes", "1.5", "", "a: b", "#x"]}),
            json!({"env": {"LONG": long, "QUOTED": "a \"b\"\n\tc\\", "ü": "数", "null": "~"}, "flag": true, "n": 7}),
            json!({"tools": {"resources/read": {"tier": "T0"}, "read": {"read_only": true, "tier": "T0"}}}),
            json!({"list": [{"a": {"b": [1, {"c": long}]}}, [], {}]}),
        ] {
            let written = format!("top:{}", block(&value, 2));
            let read: Value =
                crate::yaml::from_str(&written, "x").unwrap_or_else(|e| panic!("{e}\n{written}"));
            assert_eq!(read["top"], value, "{written}");
        }
    }
}
