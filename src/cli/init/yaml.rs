//! Writes values as YAML that people read and the strict reader takes.

use serde::{Serialize, Serializer};
use serde_json::Value;
use serde_saphyr::{FlowMap, FlowSeq, ser};

/// Members of an inline mapping at most, and the characters of an inline value.
const INLINE: (usize, usize) = (4, 72);

/// A value whose small mappings and lists stand on one line.
#[derive(Debug)]
pub struct Readable(pub Value);

impl Serialize for Readable {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        YamlValue(&self.0).serialize(serializer)
    }
}

struct YamlValue<'a>(&'a Value);

impl Serialize for YamlValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(members) if is_small(self.0) => FlowMap(members).serialize(serializer),
            Value::Array(items) if is_small(self.0) => FlowSeq(items).serialize(serializer),
            Value::Object(members) => {
                serializer.collect_map(members.iter().map(|(name, value)| (name, YamlValue(value))))
            }
            Value::Array(items) => serializer.collect_seq(items.iter().map(YamlValue)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.0.serialize(serializer)
            }
        }
    }
}

/// Whether the value is read on one line.
fn is_small(value: &Value) -> bool {
    let is_scalar = |value: &Value| !value.is_object() && !value.is_array();
    let is_flat = match value {
        Value::Object(members) => members.len() <= INLINE.0 && members.values().all(is_scalar),
        Value::Array(items) => items.iter().all(is_scalar),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    };
    is_flat && value.to_string().chars().count() <= INLINE.1
}

/// The document, with each comment above the first line that begins with its key. `serde-saphyr` writes comments behind
/// scalars alone (`Commented`).
///
/// # Errors
/// A value that YAML does not have.
pub fn document(value: &impl Serialize, comments: &[(&str, &str)]) -> Result<String, ser::Error> {
    let options = serde_saphyr::ser_options! {
        compact_list_indent: false,
        prefer_block_scalars: false,
    };
    let text = serde_saphyr::to_string_with_options(value, options)?;
    let mut left = comments.to_vec();
    let mut out = String::new();
    for line in text.lines() {
        if let Some(at) = left.iter().position(|(key, _)| line.starts_with(key)) {
            let (key, comment) = left.swap_remove(at);
            let pad = key.len().saturating_sub(key.trim_start().len());
            comment.lines().for_each(|text| out.push_str(&format!("{:pad$}# {text}\n", "")));
        }
        out.push_str(line);
        out.push('\n');
    }
    Ok(out)
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
            let top = Readable(json!({"top": value, "wide": long}));
            let written = document(&top, &[]).unwrap();
            let read: Value =
                crate::yaml::from_str(&written, "x").unwrap_or_else(|e| panic!("{e}\n{written}"));
            assert_eq!(read["top"], value, "{written}");
        }
    }

    #[test]
    fn comments_stand_above_their_lines() {
        let value =
            Readable(json!({"a": 1, "list": [{"a": {"b": ["x".repeat(80)]}}], "z": "a: 1\na: 2"}));
        let text = document(&value, &[("  - a:", "an item"), ("a:", "first\nof two"), ("q:", "-")]);
        let x = "x".repeat(80);
        let expected = format!(
            "# first\n# of two\na: 1\nlist:\n  # an item\n  - a:\n      b:\n        - {x}\nz: \"a: 1\\na: 2\"\n"
        );
        assert_eq!(text.unwrap(), expected);
    }
}
